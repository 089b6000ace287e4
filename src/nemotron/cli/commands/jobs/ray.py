"""`nemotron jobs ray`: the nodes of a job's Ray cluster, their resources, and what runs where."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from nemo_runspec.duration import span
from nemo_runspec.text import clean, count, one_line
from nemotron.cli.commands.jobs.messages import said_when_slow
from nemotron.cli.forms import print_json
from nemotron.cli.job_formatting import coloured, print_table
from nemotron.cli.text import paint

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore
    from nemo_runspec.records.ray_cluster import RayNodeStatus, RayStatus
    from nemo_runspec.remote.ray_cluster import SeenCluster

_NODES = ("NODE", "STATE", "ADDRESS", "CPU", "GPU", "MEMORY", "OBJECTS", "OTHER")
_SPARE = ("OBJECTS", "ADDRESS", "MEMORY")
_WORK = ("WHAT", "STATE", "NUMBER", "NODE", "NAME")
_COLUMNS = ("CPU", "GPU", "memory", "object_store_memory")
_IN_BYTES = ("memory", "object_store_memory")
_GB = 1e9
_OLD = 60.0
"""Seconds. It is renewed every five; a busy node or file system may take longer."""
_NOW = 15.0
"""Seconds for which what is known is of now."""


def call(job: str, dashboard: bool, as_json: bool) -> int:
    """Prints how a job's Ray cluster is, or leads a port of this machine to its dashboard."""
    from nemo_runspec.records import JobStore
    from nemo_runspec.records.settle import settled
    from nemo_runspec.remote.ray_cluster import require_ray
    from nemo_runspec.sweeps.overview import find_job

    store = JobStore()
    record = settled(store, find_job(store, job).name)
    nodes = require_ray(store, record)
    with said_when_slow([record]):
        record, seen = _asked(store, record, or_known=not dashboard)
    if dashboard:
        from nemotron.cli.commands.jobs.dashboard import lead

        return lead(store, record, seen.cluster, as_json=as_json)
    if as_json:
        print_json(_as_json(record, seen, nodes))
        return 0
    _print(record, seen, nodes)
    return 0


def _asked(store: JobStore, record: JobRecord, *, or_known: bool) -> tuple[JobRecord, SeenCluster]:
    """The job and its cluster as they are now.

    Args:
        or_known: as they were known before, where its machine does not answer. Else that is an error.
    """
    from nemo_runspec.remote.ray_cluster import SeenCluster, known_cluster, seen_cluster
    from nemo_runspec.remote.refresh import is_remote, refresh
    from nemo_runspec.transport.base import Unreachable

    try:
        if is_remote(record) and not record.over:
            record = refresh(store, [record])[0][0]
        waits = not record.over and record.state != "running"
        return record, SeenCluster(None) if waits else seen_cluster(store, record)
    except Unreachable as error:
        known = known_cluster(store, record, error.what)
        if not or_known or known.cluster is None:
            raise
        return record, known


def _print(record: JobRecord, seen: SeenCluster, nodes: int) -> None:
    print(f"{paint(record.name, 'bold')}  {coloured(record.state, record.state)}")
    cluster = seen.cluster
    if cluster is None:
        print(_none_yet(record, nodes))
        return
    print(_what(cluster, nodes) + _when(record, seen))
    if doubt := _doubt(record, seen):
        print(paint(doubt, "yellow"))
    rows = [_node_row(node) for node in cluster.nodes] + [_absent(name) for name in _missing(cluster, nodes)]
    if rows:
        head, shown = _without_empty(_NODES, rows)
        print_table(head, shown, [_colour(row[1]) for row in rows], [name for name in _SPARE if name in head[:-1]])
    for node in cluster.nodes:
        if node.why:
            print(f"{clean(node.name)} was lost: {one_line(node.why)}")
    _print_work(record, cluster)


def _print_work(record: JobRecord, cluster: RayStatus) -> None:
    if cluster.work:
        rows = [
            (
                one_line(each.kind),
                one_line(each.state),
                f"{each.count:,}",
                one_line(each.node) or "-",
                one_line(each.name),
            )
            for each in cluster.work
        ]
        print()
        print_table(_WORK, rows, ["" for _ in rows])
    if cluster.left_out:
        print(f"and {count(cluster.left_out, 'line')} more, which are not kept")
    if cluster.untold and cluster.phase != "starting":
        print(f"{', '.join(f'{clean(kind)}s' for kind in cluster.untold)}: this Ray does not tell of them")
    if cluster.dashboard and record.state == "running" and cluster.phase == "running":
        print(f"\ndashboard: nemotron jobs ray {record.name} --dashboard")


def _none_yet(record: JobRecord, nodes: int) -> str:
    """What is said of a job whose cluster has left no word."""
    if record.over:
        return f"it ended before its Ray had started; why: nemotron jobs diagnose {record.name}"
    if record.state == "running":
        return f"its Ray has not started yet: 0 of {count(nodes, 'node')} joined"
    return f"its Ray starts with the job: 0 of {count(nodes, 'node')} joined"


def _what(cluster: RayStatus, nodes: int) -> str:
    versions = f"Ray {clean(cluster.ray)}" if cluster.ray else "Ray"
    versions += f" with Python {clean(cluster.python)}" if cluster.python else ""
    return f"{versions}, {cluster.alive} of {count(cluster.count or nodes, 'node')}"


def _when(record: JobRecord, seen: SeenCluster) -> str:
    cluster = seen.cluster
    assert cluster is not None, "asked of one that is known"
    if cluster.ended is not None:
        return f", as it was {span(max(0.0, cluster.ended - cluster.at))} before its end"
    if record.over:
        return f", as it was last seen {span(seen.age)} ago"
    if cluster.phase == "starting":
        return f", starting for {span(seen.age)}"
    return " (just now)" if seen.age < _NOW else f" ({span(seen.age)} ago)"


def _doubt(record: JobRecord, seen: SeenCluster) -> str:
    """That it is not known how it is now, and since when; '' where it is."""
    cluster = seen.cluster
    if cluster is None or record.over:
        return ""
    if seen.trouble:
        return f"unknown since {_clock(time.time() - seen.age)}: {one_line(seen.trouble)}"
    if cluster.unknown_since is not None:
        since = time.time() - seen.age - max(0.0, cluster.at - cluster.unknown_since)
        return f"unknown since {_clock(since)}: Ray's head does not answer ({one_line(cluster.problem)})"
    if cluster.phase == "ended":
        return "its Ray has ended; the job is about to"
    if cluster.phase == "starting":
        return ""  # it is written once, and the job itself heeds ray_start_timeout
    return f"unknown since {_clock(time.time() - seen.age)}: node 0 has told nothing since" if seen.age > _OLD else ""


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%H:%M:%S")


def _missing(cluster: RayStatus, nodes: int) -> list[str]:
    there = {node.name for node in cluster.nodes}
    return [f"node-{n}" for n in range(cluster.count or nodes) if f"node-{n}" not in there]


def _absent(name: str) -> tuple[str, ...]:
    return (name, "not joined", *["" for _ in _NODES[2:]])


def _colour(state: str) -> str:
    """The state of a job whose colour that of a node has."""
    return {"alive": "running", "lost": "failed"}.get(state, "")


def _node_row(node: RayNodeStatus) -> tuple[str, ...]:
    own = [_share(node, name) if name in node.total else "" for name in _COLUMNS]
    other = ", ".join(f"{one_line(name)} {_share(node, name)}" for name in node.total if name not in _COLUMNS)
    return (one_line(node.name), one_line(node.state), one_line(node.address), *own, other)


def _share(node: RayNodeStatus, name: str) -> str:
    """How much of a resource is in use, of how much."""
    total = node.total[name]
    used = None if node.used is None else node.used.get(name, 0.0)
    if name in _IN_BYTES:
        return f"{'?' if used is None else f'{used / _GB:.1f}'}/{total / _GB:.1f} GB"
    return f"{'?' if used is None else f'{used:g}'}/{total:g}"


def _without_empty(head: Sequence[str], rows: Sequence[tuple[str, ...]]) -> tuple[list[str], list[list[str]]]:
    """The columns in which something stands."""
    kept = [n for n in range(len(head)) if any(row[n] for row in rows)]
    return [head[n] for n in kept], [[row[n] for n in kept] for row in rows]


def _as_json(record: JobRecord, seen: SeenCluster, nodes: int) -> Mapping[str, Any]:
    from dataclasses import asdict

    known = seen.cluster
    found: dict[str, Any] = {
        "name": record.name,
        "state": record.state,
        "over": record.over,
        "phase": known.phase if known else None,
        "nodes_wanted": known.count if known else nodes,
        "nodes_alive": known.alive if known else 0,
        "at": _moment(known.at if known else None),
        "age_seconds": round(seen.age) if known else None,
        "ended": _moment(known.ended if known else None),
        "unknown": _doubt(record, seen),
    }
    for key in ("ray", "python", "address"):
        found[key] = getattr(known, key) if known else ""
    found["dashboard_port"] = known.dashboard.port if known and known.dashboard else None
    found["nodes"] = [asdict(node) for node in known.nodes] if known else []
    found["work"] = [asdict(each) for each in known.work] if known else []
    return {**found, "left_out": known.left_out if known else 0, "untold": list(known.untold) if known else []}


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")

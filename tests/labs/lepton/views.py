"""How jobs, replicas, events and logs look from outside."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from labs.lepton.job import OVER, Attempt, Event, Job, Replica
from labs.lepton.world import Shape

MOST_LINES = 5000
"""Lines of one answer of `/logs`."""
TTL = 600
"""Seconds until a job that is over is archived, unless it says so itself."""


def archive(job: Job) -> Job:
    """The job, archived where its time has come."""
    ttl = job.spec.get("ttl_seconds_after_finished", TTL)
    if job.ended is not None and not job.archived and time.time() > job.ended + ttl:
        job.state = "Archived"
    return job


def shown(job: Job, mode: str) -> bool:
    """Whether a query mode shows it."""
    return not job.deleted and (mode == "alive_and_archive" or job.archived == (mode == "archive_only"))


def job_json(job: Job, workspace: str, skew: float = 0.0) -> dict[str, Any]:
    """A job as the server answers with it. `skew`: seconds that its clock is ahead, here and below."""
    metadata = {
        **job.body["metadata"],
        "id": job.id,
        "name": job.name,
        "created_at": int((job.created + skew) * 1000),
        "created_by": f"lab@{workspace}",
        "owner": f"lab@{workspace}",
    }
    return {"metadata": metadata, "spec": job.spec, "status": _status(job, skew)}


def _status(job: Job, skew: float) -> dict[str, Any]:
    # The state is read first, as it is written last: what goes with it is there by then.
    state, attempts = job.state, list(job.attempts)
    latest = attempts[-1] if attempts else None
    if latest is not None and not latest.scenario.counted and state == "Archived":
        return {"job_name": latest.name, "state": state}
    status = _counts(latest, job.id, skew) if latest else {"job_name": job.id}
    history = [{**_counts(each, each.name, skew), "state": each.state} for each in attempts[:-1]]
    ended = {"completion_time": int(job.ended + skew)} if job.ended and state in OVER else {}
    return {**status, "state": state, "creation_time": int(job.created + skew), **ended, "job_history": history}


def _counts(attempt: Attempt, name: str, skew: float) -> dict[str, Any]:
    ended = {"completion_time": int(attempt.ended + skew)} if attempt.ended else {}
    return {
        "job_name": name,
        **attempt.counts,
        "creation_time": int(attempt.began + skew),
        **ended,
    }


def replicas_of(job: Job, mode: str) -> list[Replica]:
    """The replicas a query mode shows: those of earlier attempts are in the archive."""
    live = [] if job.archived or not job.latest else job.latest.replicas
    old = [each for each in job.replicas if each not in live]
    return {"alive_only": live, "archive_only": old, "alive_and_archive": old + live}[mode]


def replica_json(replica: Replica, shape: Shape | None, skew: float = 0.0) -> dict[str, Any]:
    """A replica; without a node before it has one, without `readiness_issue` where it runs or is over."""
    status: dict[str, Any] = {"domains": []}
    if replica.node:
        name = f"node-ip-{replica.node}"
        status["node"] = {"name": name, "id": replica.node, "node_group_id": replica.group}
        status["public_ip"] = "127.0.0.1"
    if shape:
        status |= {"cpu": shape.cpu, "memory_in_mb": shape.memory_in_mb}
    issue = replica.issue
    if issue is not None:
        when = _iso(replica.since + skew)
        status["readiness_issue"] = {"reason": issue.reason, "message": issue.message, "creationTimestamp": when}
    return {"id": replica.id, "metadata": {"id": replica.id, "name": replica.id}, "status": status}


def event_json(event: Event, workspace: str, skew: float = 0.0) -> dict[str, Any]:
    """An event."""
    return {
        "type": event.type,
        "reason": event.reason,
        "regarding": {"kind": "Pod", "namespace": workspace, "name": event.about},
        "count": event.count,
        "last_observed_time": _iso(event.time + skew),
    }


def log_rows(
    job: Job,
    names: Iterable[str],
    resolution: int,
    start: int = 0,
    end: int = 1 << 63,
    *,
    word: str = "",
    most: int | None = None,
    backward: bool = False,
) -> list[tuple[int, str, str]]:
    """The lines of [start, end) that were collected of these replicas: time, replica, line; the oldest first.

    Args:
        word: only lines with it.
        most: so many of the oldest, of the newest if `backward`, which come first then. Of a long log, no more is read.
    """
    if job.spec.get("log", {}).get("enable_collection") is False:
        return []
    wanted = set(names)
    rows: list[tuple[int, str, str]] = []
    of_job = ((attempt, replica) for attempt in job.attempts for replica in attempt.everyone)
    for attempt, replica in of_job:
        if replica.id in wanted:
            of_replica = (
                (time_ns // resolution * resolution, replica.id, line)
                for time_ns, line in _collected(attempt, replica, start, end + resolution, backward=backward)
                if start <= time_ns // resolution * resolution < end and word in line
            )
            found = list(islice(of_replica, most))
            rows += found[::-1] if backward else found
    rows.sort(key=lambda row: row[0])
    return (rows[::-1] if backward else rows)[:most]


def _collected(
    attempt: Attempt, replica: Replica, start: int, end: int, *, backward: bool
) -> Iterator[tuple[int, str]]:
    scenario = attempt.scenario
    latest = time.time_ns() - int(scenario.lag * 1e9)
    log = replica.pod.log if replica.pod else []  # its times only rise
    numbers = range(bisect_left(log, (start, b"")), bisect_left(log, (end, b"")))
    for number in reversed(numbers) if backward else numbers:
        time_ns, line = log[number]
        text = line.decode(errors="replace")
        lost = scenario.drop_every and (number + 1) % scenario.drop_every == 0
        if time_ns <= latest and not lost and not (scenario.drop_text and scenario.drop_text in text):
            yield time_ns, text


def streams(rows: Iterable[tuple[int, str, str]], labels: Mapping[str, str]) -> dict[str, Any]:
    """Lines in Loki's shape, a stream for each replica."""
    found: dict[str, list[list[str]]] = {}
    for time_ns, replica, line in rows:
        found.setdefault(replica, []).append([str(time_ns), line])
    result: list[dict[str, Any]] = [
        {"stream": {**dict(labels), "replica": name}, "values": values} for name, values in found.items()
    ]
    return {"status": "success", "data": {"resultType": "streams", "result": result}}


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat().replace("+00:00", "Z")

"""The state of a job's Ray cluster: the report in its directory, where a machine sees that; what is known else."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import load_plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.ray_cluster import REPORT, RayStatus, read_cluster
from nemo_runspec.regular import read_regular_text
from nemo_runspec.remote.pull import kept_files
from nemo_runspec.remote.refresh import is_remote
from nemo_runspec.transport.base import Host, Unreachable
from nemo_runspec.transport.tree import HostFiles

_MOST = 4 << 20
_READ = f"""\
date +%s
if [ -f "$file" ] && [ -r "$file" ]; then head -c {_MOST} -- "$file"; fi
"""
_RELAYS = """\
for python in "$1" python3 /usr/libexec/platform-python python; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2> /dev/null; then
    for folder in "${NEMOTRON_JOB_DIR-}" "$0" .; do
      [ ! -r "$folder/supervisor.py" ] || exec "$python" -I -S "$folder/supervisor.py" relay "$2" "$3"
    done
  fi
done
echo "the job's node has no python3, or the job's directory is not to be found there" >&2
exit 1"""
"""It runs in the job, with the variables and in the container of its command."""


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster, and how old that is.

    Args:
        cluster: None where nothing has been written yet.
        age: seconds.
        trouble: why it could not be asked for now, so that this is what was known before; '' where it could.
    """

    cluster: RayStatus | None
    age: float = 0.0
    trouble: str = ""


def require_ray(store: JobStore, record: JobRecord) -> int:
    """How many nodes the job's cluster is to have. Raises `UserError` for a job that is no Ray job."""
    plan = load_plan(store.folder(record.name) / "plan.json")
    if plan.launch.kind != "ray":
        raise UserError(
            f"job '{record.name}' is no Ray job: its launch is {plan.launch.kind}",
            remedy=f'launch = "ray" in its recipe makes it one; how it is: nemotron jobs status {record.name}',
        )
    return plan.resources.nodes


def seen_cluster(store: JobStore, record: JobRecord) -> SeenCluster:
    """How a job's cluster is, by its report. One round trip where that lies elsewhere; kept here for `known_cluster`.

    Raises:
        Unreachable: the machine that sees the job's directory does not answer. UserError: none does.
    """
    folder = store.folder(record.name)
    if not is_remote(record):
        return _aged(_kept(folder), time.time())
    host, root = _place(store, record)
    done = host.run(f"file={shlex.quote(f'{root}/{REPORT}')}\n{_READ}")
    now, _, text = done.text.partition("\n")
    found = read_cluster(text)
    if found is None:
        return _aged(_kept(folder), time.time())
    with suppress(OSError):
        paths.write_private(folder / REPORT, text)
    return _aged(found, float(now) if now.isdigit() else time.time())


def known_cluster(store: JobStore, record: JobRecord, trouble: str) -> SeenCluster:
    """How it was when it was seen last. `trouble`: why it cannot be asked for now."""
    return _aged(_kept(store.folder(record.name)), time.time(), trouble)


def relay_words(record: JobRecord, cluster: RayStatus) -> Sequence[str]:
    """The command that leads to the dashboard, to be run on the job's first node."""
    assert cluster.dashboard is not None, "asked of a cluster that has one"
    place = (
        record.job_dir or cluster.root,
        cluster.interpreter or "python3",
        str(cluster.dashboard.port),
        cluster.dashboard.token,
    )
    return ("bash", "-c", _RELAYS, *place)


def _place(store: JobStore, record: JobRecord) -> tuple[Host, str]:
    """A machine that sees the job's directory, and how it names that."""
    try:
        kept = kept_files(store, record)
    except Unreachable:
        raise
    except UserError:
        raise _unseen(record) from None
    if not isinstance(kept.store, HostFiles):
        raise _unseen(record)
    return kept.store.host, kept.root


def _unseen(record: JobRecord) -> UserError:
    by_port = f"nemotron jobs forward {record.name} PORT, with ray_dashboard_port = PORT in its profile"
    return UserError(
        f"how the Ray of job '{record.name}' is stands in its directory, which no machine that can be asked sees",
        where=record.job_dir or None,
        remedy=f"name that storage as this machine sees it (run_dir_here), or look at its dashboard: {by_port}",
    )


def _kept(folder: Path) -> RayStatus | None:
    try:
        return read_cluster(read_regular_text(folder / REPORT))
    except (OSError, ValueError):
        return None


def _aged(cluster: RayStatus | None, now: float, trouble: str = "") -> SeenCluster:
    return SeenCluster(cluster, max(0.0, now - cluster.at) if cluster else 0.0, trouble)

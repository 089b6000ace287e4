"""`nemotron jobs ray --dashboard`: a port of this machine that leads to the dashboard of a job's Ray."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemotron.cli.commands.jobs.messages import said_when_slow, say
from nemotron.cli.forms import print_json

if TYPE_CHECKING:
    from pathlib import Path

    from nemo_runspec.records import JobRecord, JobStore
    from nemo_runspec.records.ray_cluster import RayStatus
    from nemo_runspec.transport.duplex import CommandDuplex

_TOKEN = "ray-token"
"""In a job's folder here, for as long as its dashboard can be reached."""


def lead(store: JobStore, record: JobRecord, cluster: RayStatus | None, *, as_json: bool) -> int:
    """Leads a port of this machine to the dashboard until Ctrl-C or the job's end; the exit code."""
    from nemo_runspec.remote.relay import Relay, listening

    if record.state != "running":
        raise _not_running(record)
    if cluster is None or cluster.dashboard is None or cluster.phase != "running":
        raise _without(record, cluster)
    there = cluster.dashboard.port
    with said_when_slow([record]):
        duplex = _duplex(store, record, cluster)
    if duplex is None:
        _tell(record, f"http://127.0.0.1:{there}", cluster.dashboard.token, as_json=as_json)
        say(f"{record.name} runs on this machine: nothing need be forwarded")
        return 0
    with said_when_slow([record]):
        relay = Relay(duplex)
    with _ending(), listening(there) as listener, _kept_token(store.folder(record.name), relay.secret) as token:
        try:
            _tell(record, f"http://127.0.0.1:{listener.getsockname()[1]}", token, as_json=as_json)
            say(f"it leads to port {there} of node 0 of {record.name}; Ctrl-C ends it, not the job")
            relay.serve(listener)
        finally:
            relay.close()
    raise UserError(
        f"node 0 of job '{record.name}' cannot be reached any more: {duplex.last_words() or 'its end was closed'}",
        remedy=f"nemotron jobs status {record.name}",
    )


def _tell(record: JobRecord, url: str, token: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": record.name, "url": url, "token_file": token or None})
    else:
        print(url, flush=True)
    if token:
        say(f"where it asks for the cluster's token, that lies in {token}")


def _not_running(record: JobRecord) -> UserError:
    """The error of a dashboard that is gone, or not there yet."""
    return UserError(
        f"job '{record.name}' is {record.state}, and a dashboard needs a running job",
        remedy=f"nemotron jobs ray {record.name}" if record.over else f"nemotron jobs status {record.name}",
    )


def _without(record: JobRecord, cluster: RayStatus | None) -> UserError:
    if cluster is None or cluster.phase == "starting":
        return UserError(
            f"the Ray of job '{record.name}' has not started yet", remedy=f"nemotron jobs ray {record.name}"
        )
    if cluster.dashboard is not None:
        return UserError(f"the Ray of job '{record.name}' has ended", remedy=f"nemotron jobs status {record.name}")
    return UserError(
        f"the Ray of job '{record.name}' has no dashboard",
        remedy="a port of its own gives it one: run.env.ray_dashboard_port=8265, or that key in the profile",
    )


def _duplex(store: JobStore, record: JobRecord, cluster: RayStatus) -> CommandDuplex | None:
    """What leads to the loopback of the job's node 0; None where that is this machine's."""
    from nemo_runspec.remote.ray_cluster import relay_words
    from nemo_runspec.transport.duplex import CommandDuplex
    from nemotron.cli.commands.jobs.reach import installed
    from nemotron.cli.commands.jobs.ssh import way_in

    if _is_here(store, record):
        return None
    return CommandDuplex(installed(way_in(store, record, None, relay_words(record, cluster), terminal=False)))


def _is_here(store: JobStore, record: JobRecord) -> bool:
    from nemo_runspec.backends import get_backend
    from nemo_runspec.remote.refresh import is_remote

    if is_remote(record):
        return False
    try:
        return get_backend(record.executor).load_worker().address(record, store.folder(record.name)) == "127.0.0.1"
    except UserError:  # it has no network that this machine reaches
        return False


@contextmanager
def _kept_token(folder: Path, secret: bytes) -> Iterator[str]:
    """The file that has the cluster's token meanwhile, for its owner's eyes; '' for no token."""
    from nemo_runspec import paths

    if not secret:
        yield ""
        return
    file = folder / _TOKEN
    paths.write_private(file, secret.decode("ascii", "replace"))
    try:
        yield str(file)
    finally:
        with suppress(OSError):
            file.unlink()


@contextmanager
def _ending() -> Iterator[None]:
    """Inside, TERM ends this as Ctrl-C does, with all that must be put away."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

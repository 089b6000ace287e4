"""The end of a job that is over: by the last lines of its nodes, waited for a moment, else as its platform says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.provider import Handle
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.markers import NodeMarker, cause, contradiction, contradicts, deciding_marker
from nemo_runspec.script.pod_marker import read_ends

LATE = 120.0
"""Seconds after a job's end in which lines of its log may still arrive."""

LOG = "log"
"""What is asked for beside the job itself."""

NOT_YET = "the last lines of its log have not come yet"


@dataclass(frozen=True, slots=True)
class LastLines:
    """The end of a job's log.

    Args:
        ends: how each node ended, by its number.
        unread: why more than that is not known yet, '' where nothing is
            missing, or nothing more will come.
    """

    log: bytes = b""
    ends: Mapping[int, NodeMarker] = field(default_factory=dict)
    unread: str = ""

    @property
    def failed(self) -> bool:
        """True if a node says that it failed."""
        return any(end.exit_code for end in self.ends.values())


def read_last_lines(
    handles: Mapping[int, Handle],
    requests: OptionalRequests,
    read: Callable[[int], bytes],
    expects_more: Callable[[int, LastLines], bool],
    pauses: Sequence[float],
    sleep: Callable[[float], None],
) -> dict[int, LastLines]:
    """The ends of the logs of jobs that are over, all of them waited for at once.

    Args:
        read: a job's last lines, by its number.
        expects_more: whether lines of it may come that tell more.
        pauses: seconds before each question: a log may come later than the state.
    """
    found: dict[int, LastLines] = {}
    left = sorted(handles)
    for pause in pauses:
        if not left:
            break
        sleep(pause)
        for n in left:
            log = requests.ask(LOG, read, n) or b""
            found[n] = LastLines(log, _of_attempt(log, handles[n]), requests.why_missing(LOG))
        left = [n for n in left if not found[n].unread and expects_more(n, found[n])]
    return found | {n: replace(found[n], unread=NOT_YET) for n in left}


def conclude(
    status: JobStatus,
    handle: Handle,
    lines: LastLines,
    platform: str,
    explain: Callable[[JobStatus], JobStatus],
    unexplained: Callable[[JobStatus], JobStatus] = lambda status: status,
) -> JobStatus:
    """How a job ended. Its nodes' own word counts: a success of which a node says that it failed is none.

    Args:
        status: `succeeded` or `failed`; any other is given back as it is.
        explain: adds to a failure what the platform itself says of it: the reason, the exit code where it names one.
        unexplained: adds to a failure of which nobody names one.

    Returns: the status; `exit_code` is None where a later look may find it, and `facts.unread` says why.
    """
    if status.state not in ("succeeded", "failed"):
        return status
    end = deciding_marker(lines.ends.values())
    if end is not None and end.exit_code:
        return _as_the_node_says(status, end)
    if status.state == "succeeded":
        nodes = status.facts.nodes or (end.host if end is not None else "")
        return replace(status, exit_code=0, facts=replace(status.facts, nodes=nodes, unread=lines.unread))
    failed = explain(replace(status, exit_code=None))
    if failed.exit_code is not None:
        return failed
    if contradicts(lines.ends.values(), PodHandle(handle).nodes):
        return replace(failed, reason=status.reason or contradiction(platform), exit_code=1)
    if lines.unread:
        return replace(failed, facts=replace(failed.facts, unread=lines.unread))
    return replace(unexplained(failed), exit_code=1)


def missing_nodes(handle: Handle, ends: Mapping[int, NodeMarker]) -> set[int]:
    """The nodes of which no end is known."""
    return set(range(PodHandle(handle).nodes)) - set(ends)


def _as_the_node_says(status: JobStatus, end: NodeMarker) -> JobStatus:
    return replace(
        status,
        state="failed",
        reason=cause(end),
        exit_code=end.exit_code,
        signal=end.signal,
        facts=replace(status.facts, nodes=status.facts.nodes or end.host),
    )


def _of_attempt(log: bytes, handle: Handle) -> dict[int, NodeMarker]:
    attempt = PodHandle(handle).attempt
    return {node: end for node, end in read_ends(log).items() if end.attempt == attempt}

"""What can be asked to happen to the next job: a table of ways in which jobs go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

FOR_EVER = float("inf")


@dataclass(frozen=True)
class Timings:
    """Seconds that a job spends in each state; `grace`: between TERM and KILL."""

    queueing: float = 0.05
    pulling: float = 0.05
    starting: float = 0.05
    settling: float = 0.05
    retry: float = 0.05
    grace: float = 5.0


@dataclass(frozen=True)
class Issue:
    """Why a replica is not ready, and the events that say so: (type, reason, message)."""

    reason: str
    message: str
    events: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Scenario:
    """How one start of a job goes; what is not said goes well.

    Args:
        queueing, pulling, starting: seconds, by default the lab's; `FOR_EVER` sticks.
        issue: what replicas say while `starting`; with `bad_node` only those on that node.
        bad_node: '' for none; `*` is the first node of the job's group. It gets replicas first.
        waiting: what replicas say while `queueing`.
        run: a command instead of the job's own.
        visible: False where the job is never seen `Running`. `word`: the state instead of `Running`.
        then: what happens while it runs: `oom`, `gpu_oom`, `evict`, `node`, `vanish`, `expire`; '' for nothing.
        after, when: seconds of running, and text that a replica has written, before that.
        index: the replica it happens to. `whole`: an OOM that leaves no process.
        grace: seconds that evicted replicas have for their end; the lab's own, where those are fewer.
        archived: it is `Archived` as soon as it is over. `failed`: how it counts, whatever its exit code.
        counted: False where its status does not say how many failed and succeeded.
        analysed: False where Lepton has no failure analysis.
        drop_every, drop_text: log lines that are lost: every n-th, those with this text. `lag`: seconds of collection.
        hosts: which form of host names resolves: `worker`, `service`, `none`; '' for the lab's.
    """

    kind: str = "ok"
    queueing: float | None = None
    pulling: float | None = None
    starting: float | None = None
    issue: Issue | None = None
    bad_node: str = ""
    waiting: Issue = Issue("Queueing", "Waiting for resources")
    run: tuple[str, ...] = ()
    visible: bool = True
    word: str = ""
    then: str = ""
    after: float = 0.2
    when: str = ""
    index: int = 0
    whole: bool = False
    grace: float = 1.0
    archived: bool = False
    failed: bool | None = None
    counted: bool = True
    analysed: bool = True
    drop_every: int = 0
    drop_text: str = ""
    lag: float = 0.0
    hosts: str = ""


def _pull(message: str) -> Issue:
    error = f"Failed to pull image: {message}"
    return Issue("Failed", error, (("Warning", "Failed", error), ("Warning", "BackOff", "Back-off pulling image")))


NO_CAPACITY = Issue(
    "NoCapacity",
    "Insufficient nvidia.com/gpu",
    (("Warning", "FailedScheduling", "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."),),
)
MOUNT_MISSING = Issue(
    "ConfigError",
    "Mount point not found",
    (("Warning", "FailedMount", "MountVolume.SetUp failed: hostPath type check failed: Mount point not found"),),
)
NOT_FOUND = _pull("rpc error: code = NotFound desc = failed to pull and unpack image: not found")
DENIED = _pull("failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized from nvcr.io")
_FAILS = ("/bin/sh", "-c", "echo 'cannot import name: it failed at once' >&2; exit 1")

KINDS: Mapping[str, Scenario] = {
    "ok": Scenario(),
    "slow_queue": Scenario(queueing=2.0),
    "slow_start": Scenario(starting=2.0, issue=Issue("InProgress", "Creating container")),
    "slow_pull": Scenario(pulling=2.0),
    "stuck_pull": Scenario(pulling=FOR_EVER),
    "stuck_start": Scenario(starting=FOR_EVER, issue=Issue("InProgress", "Creating container")),
    "nocapacity": Scenario(queueing=FOR_EVER, waiting=NO_CAPACITY),
    "imagepull": Scenario(starting=FOR_EVER, issue=NOT_FOUND),
    "imagepull_denied": Scenario(starting=FOR_EVER, issue=DENIED),
    "badnode": Scenario(starting=FOR_EVER, issue=MOUNT_MISSING, bad_node="*"),
    "quickfail": Scenario(visible=False, run=_FAILS),
    "oom": Scenario(then="oom"),
    "gpu_oom": Scenario(then="gpu_oom"),
    "evicted": Scenario(then="evict"),
    "nodefail": Scenario(then="node"),
    "lost": Scenario(then="vanish"),
    "expired_token": Scenario(then="expire"),
    "archived_ok": Scenario(archived=True),
    "archived_fail": Scenario(archived=True, failed=True),
    "archived_silent": Scenario(archived=True, counted=False),
    "unknown_state": Scenario(word="Hibernating"),
    "truncated_log": Scenario(drop_every=3),
    "late_log": Scenario(lag=1.5),
}


@dataclass
class Ordered:
    """A scenario that waits for its jobs; `times`: how many starts it is for, None for all."""

    prefix: str | None
    scenario: Scenario
    times: int | None = 1
    taken: list[str] = field(default_factory=list)

    def takes(self, job: str) -> bool:
        """Whether the next start of this job is this scenario's; counts it."""
        if not job.startswith(self.prefix or "") or (self.times is not None and len(self.taken) >= self.times):
            return False
        self.taken.append(job)
        return True


def ordered(prefix: str | None, kind: str, settings: Mapping[str, Any]) -> Ordered:
    """From a word of `KINDS`. Raises: KeyError for another, TypeError for a setting that there is not."""
    rest = dict(settings)
    times = rest.pop("times", 1)
    return Ordered(prefix, replace(KINDS[kind], kind=kind, **rest), times)

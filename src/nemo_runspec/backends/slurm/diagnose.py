"""Why a job on Slurm did not succeed: Slurm's state, exit markers, its daemons' lines and the log, in one verdict."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nemo_runspec.backends.slurm.cluster.job import ClusterJob
from nemo_runspec.backends.slurm.cluster.query import CANNOT_WRITE
from nemo_runspec.backends.slurm.verdicts import CLOSING, IMAGE, LAUNCH, REASONS, REMEDIES, STATES, Verdict
from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.diagnosis.patterns import Level
from nemo_runspec.diagnosis.symptoms import Symptom, find, last_lines, stalled
from nemo_runspec.jobs.record import is_over
from nemo_runspec.script.markers import NodeMarker, cause, decisive

_MINE = re.compile(r"^slurmstepd\S*: |^srun: |pyxis: |\benroot\b|\[ERROR\]")
"""Lines that a user's program does not write. Slurm 22.05 writes `slurmstepd-n1: ` where a host has several nodes."""

_ECHO = re.compile(
    r"\s*(?:nemotron: |\{ nemotron_code=|\{ set \+vx; |\++ |#|srun --output |"
    r"exitcode=\$\?$|set [-+]\w+$|(?:echo \")?job exited with code |"
    r"if \[ (?:\$exitcode|\"\$TORCHX_MAX_RETRIES\") |scontrol requeue |exit \$exitcode$|fi$)"
)
"""Lines that the batch shell writes of itself: its trace, its script's lines as it reads them, and our own."""

_CONTAINER = re.compile(r"pyxis: |\benroot\b|\[ERROR\]|--container-")
_HEALTH = re.compile(r"health check: bad node ([^\s:]+): (.+)")
_OTHER_NODE = re.compile(r"\bnode (\d+)\b")
_FATAL = {
    signal.SIGKILL: "something other than this job killed it (a node's own out-of-memory killer, an administrator)",
    signal.SIGTERM: "it was told to stop from outside",
}


def diagnose(job: ClusterJob, tail: bytes, batch_tail: bytes = b"", place: str = "") -> Diagnosis | None:
    """The verdict on a job that did not succeed; None for one that did, or goes on.

    Args:
        tail: the end of what its tasks wrote, in its last attempt. `batch_tail`: of what its batch script wrote.
        place: where `remote_job_dir` was set, such as `env.toml:7 [cluster]`; '' where it was not, or is not known.
    """
    if not is_over(job.state) or job.state == "succeeded":
        return None
    case = _Case.of(job, tail, batch_tail, place)
    found = (rule(case) for rule in _RULES)
    return next(diagnosis for diagnosis in found if diagnosis is not None)


@dataclass(frozen=True, slots=True)
class _Case:
    """All that is known.

    Args:
        marker: of the node that failed first, None where none has. `symptom`: of the tasks' log.
        daemons: lines of Slurm's daemons, Pyxis and enroot, of both logs, the batch script's first.
    """

    job: ClusterJob
    marker: NodeMarker | None
    tail: bytes
    batch: bytes
    symptom: Symptom | None
    daemons: tuple[str, ...]
    place: str = ""

    @classmethod
    def of(cls, job: ClusterJob, tail: bytes, batch: bytes, place: str) -> _Case:
        marker = _blamed(job.markers)
        lines = (line.strip() for text in (batch, tail) for line in text.decode("utf-8", "replace").splitlines())
        daemons = tuple(line for line in lines if _MINE.search(line))
        symptom = find(tail, marker.rank if marker else None)
        return cls(job, marker, tail, batch, symptom, daemons, place)

    @property
    def rank(self) -> int | None:
        """The rank that failed first."""
        return self.marker.rank if self.marker else None

    @property
    def reason(self) -> str:
        """What the job script itself says."""
        return self.marker.reason if self.marker else ""


def _stalled(case: _Case) -> Diagnosis | None:
    return stalled(case.reason, case.tail)


def _unhealthy(case: _Case) -> Diagnosis | None:
    match = _HEALTH.search(case.reason)
    if match is None:
        return None
    remedy = f'exclude = "{match[1]}" in the profile keeps away from it; tell those who run the cluster'
    return Diagnosis("health check", f"node {match[1]} is bad: {match[2]}", case.reason, remedy)


def _unwritten(case: _Case) -> Diagnosis | None:
    """The batch script's log could not be opened on its node: the directory is not there, or not to be written."""
    if case.job.error != CANNOT_WRITE:
        return None
    key = f"remote_job_dir ({case.place})" if case.place else "remote_job_dir"
    remedy = (
        f"set {key} to a directory on a file system that the login node and all compute nodes share, and that you may "
        "write to there; nemotron doctor PROFILE --job looks at it"
    )
    return Diagnosis("storage", case.job.reason, _slurm_says(case), remedy)


def _by_state(case: _Case) -> Diagnosis | None:
    """Slurm itself says why; of a job it has forgotten, its daemons' last words."""
    state = case.job.slurm_state.split()[0].rstrip("+") if case.job.slurm_state else ""
    if state in STATES:
        return _judged(case, STATES[state])
    if case.job.slurm_state:
        return None
    forgotten = (STATES[state] for state in CLOSING if _evidence(STATES[state], case.daemons))
    return next((_judged(case, verdict) for verdict in forgotten), None)


def _by_reason(case: _Case) -> Diagnosis | None:
    return next((_judged(case, verdict) for word, verdict in REASONS if word.fullmatch(case.job.slurm_reason)), None)


def _setup_lines(case: _Case) -> Diagnosis | None:
    """The batch script ended in the profile's own lines, so that no task has written a log."""
    if not case.reason.startswith("setup_lines "):
        return None
    said = last_lines(_unechoed(case.batch), 1)
    return Diagnosis("setup", _ended(case), said[-1] if said else case.reason, "see setup_lines in the profile")


def _unfinished(case: _Case) -> Diagnosis | None:
    if not re.search(r"max_restarts = \d+ is reached", case.reason):
        return None
    remedy = "raise max_restarts or time in the profile; nemotron jobs retry starts it again"
    return Diagnosis("time limit", f"it is not done: {case.reason}", _last(case) or case.reason, remedy)


def _not_started(case: _Case) -> Diagnosis | None:
    """On some node the job script never began: its container, or the step, was not made."""
    if case.marker is not None and case.marker.phase != "start":
        return None
    images = tuple(line for line in case.daemons if _CONTAINER.search(line))
    said = [(verdict, _evidence(verdict, images)) for verdict in IMAGE]
    said += [(verdict, _evidence(verdict, case.daemons)) for verdict in LAUNCH]
    return next((_judged(case, verdict, line) for verdict, line in said if line), None)


def _setup(case: _Case) -> Diagnosis | None:
    """A startup command failed; what its log says is the reason, its place is the node's."""
    marker = case.marker
    if marker is None or marker.phase != "setup":
        return None
    where = f" ({marker.host})" if marker.host else ""
    said = case.symptom
    remedy = said.remedy if said else "see startup_commands and workdir in the profile"
    lines = [line for line in last_lines(_unechoed(case.tail), 8) if not _MINE.search(line)]
    return Diagnosis("setup", f"{case.reason}{where}", said.evidence if said else (lines or [case.reason])[-1], remedy)


def _memory(case: _Case) -> Diagnosis | None:
    """The kernel killed one of its processes; what that did to the others is no cause."""
    killed = next((marker for marker in case.job.markers if marker.oom and marker.exit_code), None)
    if killed is None or (case.symptom is not None and case.symptom.kind == "out of GPU memory"):
        return None
    verdict = STATES["OUT_OF_MEMORY"]
    said = case.symptom.evidence if case.symptom and case.symptom.kind in (verdict.kind, "killed") else ""
    evidence = _evidence(verdict, case.daemons) or said or cause(killed)
    return _judged(case, verdict, evidence, killed.host)


def _by_log(case: _Case) -> Diagnosis | None:
    found = case.symptom
    if found is None:
        return None
    what = f"{_ended(case)}; perhaps: {found.what}" if found.level is Level.HINT else found.what
    node = case.marker.host if case.marker else ""
    remedy = REMEDIES.get(found.kind, found.remedy).replace("{node}", node or case.job.nodes)
    return Diagnosis(found.kind, what, found.evidence, remedy)


def _killed(case: _Case) -> Diagnosis | None:
    number = case.marker.signal if case.marker else case.job.signal
    why = _FATAL.get(number) if number else None  # type: ignore[call-overload]
    if why is None:
        return None
    on = f" on {case.marker.host}" if case.marker and case.marker.host else ""
    return Diagnosis(
        "killed", f"{_ended(case)}{on}", _last(case) or _slurm_says(case), f"{why}: ask who runs the cluster"
    )


def _lost(case: _Case) -> Diagnosis | None:
    if case.job.state != "lost":
        return None
    return Diagnosis("lost", _ended(case), _last(case), "see the platform's own log: nemotron jobs logs --platform")


def _unknown(case: _Case) -> Diagnosis:
    """Says that nothing is known, and what came last."""
    what = f"{_ended(case)}; its log does not say why"
    return Diagnosis("", what, _last(case) or _slurm_says(case), "see the whole log, and --platform for Slurm's own")


_RULES: tuple[Callable[[_Case], Diagnosis | None], ...] = (
    _stalled,
    _unhealthy,
    _unfinished,
    _unwritten,
    _by_state,
    _setup_lines,
    _not_started,
    _setup,
    _memory,
    _by_log,
    _by_reason,
    _killed,
    _lost,
    _unknown,
)
"""The first that has something to say is right."""


def _blamed(markers: Iterable[NodeMarker]) -> NodeMarker | None:
    """The marker of the first failure. A node that ended for another's sake names it, whatever their clocks say."""
    markers = tuple(markers)
    first = decisive(markers)
    if first is None or not first.exit_code:
        return None
    named = _OTHER_NODE.search(first.reason)
    return next((one for one in markers if named and one.exit_code and one.node == int(named[1])), first)


def _judged(case: _Case, verdict: Verdict, evidence: str = "", host: str = "") -> Diagnosis:
    evidence = evidence or _evidence(verdict, case.daemons)
    named = _named(verdict, evidence)
    words = {"after": _after(case.job), "on": f" on {host}" if host else ""}
    what, remedy = (text.format(named, **words) for text in (verdict.what, verdict.remedy))
    if verdict is STATES["NODE_FAIL"] and named:
        what = f"node {named} failed under it{words['after']}"
        remedy = f'{remedy}; exclude = "{named}" in the profile keeps away from that node'
    return Diagnosis(verdict.kind, what, evidence or _slurm_says(case), remedy)


def _evidence(verdict: Verdict, lines: Sequence[str]) -> str:
    """The last line that shows it: of an earlier attempt the batch script's log holds some, too."""
    found = (line for pattern in verdict.lines for line in reversed(lines) if pattern.search(line))
    return next(found, "")


def _named(verdict: Verdict, line: str) -> str:
    """What the line names: a node, an option."""
    matches = (pattern.search(line) for pattern in verdict.lines if pattern.groups)
    return next((match[1] for match in matches if match), "")


def _after(job: ClusterJob) -> str:
    from nemo_runspec.remote.display import span

    return f" after {span(job.elapsed)}" if job.elapsed else ""


def _ended(case: _Case) -> str:
    return case.job.reason or (cause(case.marker) if case.marker else "") or f"it ended as {case.job.slurm_state}"


def _slurm_says(case: _Case) -> str:
    job = case.job
    reason = f" ({job.slurm_reason})" if job.slurm_reason not in ("", "None", "(null)") else ""
    return f"Slurm says {job.slurm_state}{reason}" if job.slurm_state else ""


def _last(case: _Case) -> str:
    return " / ".join(last_lines(case.tail, 3, case.rank) or last_lines(_unechoed(case.batch), 3))


def _unechoed(log: bytes) -> bytes:
    """A log without what the batch shell writes of itself. What its trace holds, it has read before."""
    lines = log.splitlines()
    traced = {line.lstrip(b"+ ") for line in lines if line.startswith(b"+")}
    kept = (line for line in lines if line not in traced and not _ECHO.match(line.decode("utf-8", "replace")))
    return b"\n".join(kept)

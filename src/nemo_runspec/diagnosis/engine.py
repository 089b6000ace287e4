"""Why a job of a cloud failed or does not start: what the platform, its pods and the log say, in one verdict. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.diagnosis.patterns import Level
from nemo_runspec.diagnosis.platform_messages import (
    CLASSES,
    DEADLINES,
    LOG_KINDS,
    MEANINGS,
    OUTPUTS,
    START,
    STARTED,
    TELLING,
    Advice,
    Meaning,
    meaning_of,
)
from nemo_runspec.diagnosis.symptoms import Symptom, find, last_lines, stalled
from nemo_runspec.jobs.record import is_over
from nemo_runspec.script.markers import NodeMarker, cause, decisive
from nemo_runspec.script.pod_marker import End, to_marker

_WAITING = ("submitting", "queued", "starting", "running")
_TOLD_TO_STOP = frozenset({130, 137, 143})
_DEADLINE = re.compile(r"\b(queue|pull|start)_timeout\b")
_TRIED = re.compile(r"with a failed pull for longer than ([^(;]+?) \(")
_OWN = re.compile(rb"^nemotron(?:-\w+)?: ", re.MULTILINE)
_FATAL = {
    signal.SIGKILL: "something other than this job killed it: the node's out-of-memory killer, or the platform",
    signal.SIGTERM: "it was told to stop from outside",
}


@dataclass(frozen=True, slots=True)
class Word:
    """One thing a platform says about a job.

    Args:
        text: its very words. `node`: the machine it is about, '' where that is not said.
        now: whether it is so now; else it was once, as events are.
    """

    text: str
    node: str = ""
    now: bool = False


@dataclass(frozen=True, slots=True)
class Analysis:
    """A platform's own analysis of a failure.

    Args:
        kind: its class, such as ERR_PROGRAM. `suggestion`: what it says to do. `words`: of single nodes.
        log_streams: lines of logs, as they came.
    """

    kind: str = ""
    suggestion: str = ""
    words: tuple[Word, ...] = ()
    log_streams: Any = None

    def told(self, name: str) -> dict[str, Any]:
        """What of it is shown beside our own verdict, as `Diagnosis.platform`; empty where it says nothing."""
        said = {"err_class": self.kind, "suggestion": self.suggestion, "log_streams": self.log_streams}
        known = {key: value for key, value in said.items() if value}
        return {"name": name, **known} if known else {}


@dataclass(frozen=True)
class Case:
    """All that is known of a job.

    Args:
        state: ours. `reason`: why, in words; a deadline that has passed is named in it (`queue_timeout: …`).
        replicas: what is wrong with its pods. `events`: what was written down, the oldest first.
        ends: how its nodes ended, as their end markers say. `tail`: the end of its log.
        exit_code: as the platform itself says it, None where it does not.
        nodes: how many it had, 0 where that is not known.
        unasked: what the platform did not answer about, such as `events`.
        ailing: it runs, and the platform says that not all of it is well: what was written down counts then, too.
    """

    state: str
    advice: Advice
    reason: str = ""
    replicas: Sequence[Word] = ()
    events: Sequence[Word] = ()
    analysis: Analysis = field(default_factory=Analysis)
    ends: Sequence[End] = ()
    tail: bytes = b""
    exit_code: int | None = None
    nodes: int = 0
    unasked: Sequence[str] = ()
    ailing: bool = False

    @cached_property
    def end(self) -> NodeMarker | None:
        """How the node ended that failed first; None where none has, as far as is known."""
        first = decisive(self.ends)
        return to_marker(first) if first is not None and first.exit_code else None

    @cached_property
    def symptom(self) -> Symptom | None:
        """What the log says, without our own lines."""
        lines = (line for line in self.tail.splitlines() if not _OWN.match(line))
        return find(b"\n".join(lines), self.end.rank if self.end else None)

    @property
    def ran(self) -> bool:
        """Whether it was started on all its nodes, as far as is known, or has ended on one."""
        return bool(self.ends) or (self.state == "running" and not self.ailing)

    @cached_property
    def told(self) -> list[tuple[Meaning, Word]]:
        """What the platform's words mean, the most telling first; the latest of several that say as much."""
        over = is_over(self.state)
        words = [*(self.analysis.words if over else ()), *self.replicas]
        words += reversed(self.events if self.state != "running" or self.ailing else ())
        began = [n for n, word in enumerate(self.events) if STARTED.search(word.text)]
        past = set(self.events[: began[-1]]) if began else set()
        found = [(meaning, word) for word in words if (meaning := meaning_of(word.text))]
        found = [(m, word) for m, word in found if not (m.start and not word.now and (self.ran or word in past))]
        return sorted(found, key=lambda pair: (TELLING.index(pair[0].kind), pair[0].vague))

    @property
    def by_itself(self) -> bool:
        """Whether a node's command failed of its own accord, and its log says of what."""
        end, said = self.end, self.symptom
        if end is None or end.phase == "start" or end.signal or end.received or end.exit_code in _TOLD_TO_STOP:
            return False
        return said is not None and said.level >= Level.SAID and LOG_KINDS.get(said.kind) == "user code"


def diagnose(case: Case) -> Diagnosis | None:
    """The verdict; None for a job that succeeded, was cancelled, or where nothing is wrong."""
    if case.state == "succeeded" or (case.state == "cancelled" and not _DEADLINE.search(case.reason)):
        return None
    rules = _WAITS if case.state in _WAITING else _ENDED
    found = next((found for rule in rules if (found := rule(case)) is not None), None)
    return None if found is None else replace(found, platform=case.analysis.told(case.advice.name))


def _deadline(case: Case) -> Diagnosis | None:
    """It waited too long. What the platform says meanwhile is the reason, where it says more than that it waits."""
    passed = _DEADLINE.search(case.reason)
    if passed is None:
        return None
    kind, what, advice = DEADLINES[passed[1]]
    said = _told(case)
    if said is not None:
        tried = _TRIED.search(case.reason)
        why = f"tried for longer than {tried[1]}" if tried else f"{passed[0]} has passed"
        return Diagnosis(said.kind, f"{said.what} ({why})", said.evidence, said.remedy)
    evidence = next((word.text for word in (*case.replicas, *reversed(case.events)) if word.text), case.reason)
    return Diagnosis(kind, what, evidence, case.advice.of(advice, kind))


def _stalled(case: Case) -> Diagnosis | None:
    """It was ended because it hung (stall.sh)."""
    return stalled(case.end.reason, case.tail) if case.end else None


def _memory(case: Case) -> Diagnosis | None:
    """The kernel killed one of its processes; where a GPU was full before, that is the cause."""
    said = case.symptom
    if said is not None and said.kind == "out of GPU memory":
        return _of_log(case, said)
    killed = next((end for end in case.ends if end.oom and end.exit_code), None)
    words = next(((m, w) for m, w in case.told if m.kind == "out of memory"), None)
    if words is not None:
        return _judged(case, *words)
    if killed is None:
        return None
    where = f" on {killed.node_name}" if killed.node_name else ""
    line = said.evidence if said is not None and said.kind in ("out of memory", "killed") else cause(to_marker(killed))
    meaning = next(each for each in MEANINGS if each.advice == "out of memory")
    return Diagnosis(meaning.kind, meaning.what.format(on=where), line, case.advice.of(meaning.advice))


def _told(case: Case) -> Diagnosis | None:
    """The platform says why. A command that failed by itself did so whatever became of its node afterwards."""
    if case.by_itself:
        return None
    return next((_judged(case, meaning, word) for meaning, word in case.told), None)


def _contradiction(case: Case) -> Diagnosis | None:
    """The platform calls it a failure, and every node's own last word is that all went well."""
    if case.state != "failed" or not 0 < case.nodes <= len(case.ends) or any(end.exit_code for end in case.ends):
        return None
    name, said = case.advice.name, case.analysis
    what = f"{name} says that it failed, but its program ended with exit code 0 by its own last word; nothing says why"
    told = ": ".join(filter(None, (said.kind, said.suggestion)))
    evidence = f"{name}: {told}" if told else "nemotron-end: exit_code=0 of every node"
    return Diagnosis("", what, evidence, case.advice.of("contradiction"))


def _start(case: Case) -> Diagnosis | None:
    """The job's own files did not arrive, or its nodes did not find each other."""
    end = case.end
    if end is None or end.phase != "start":
        return None
    kind = _first(START, end.reason, "")
    what = f"it did not start{_on(end)}: {end.reason or cause(end)}"
    said = _last(case) if kind == "user code" else end.reason
    key = "inputs" if end.reason.startswith("inputs:") else f"{kind} start"
    return Diagnosis(kind, what, said or cause(end), case.advice.of(key, "start"))


def _outputs(case: Case) -> Diagnosis | None:
    """Its work is done, but what it wrote was not carried away."""
    end = case.end
    if end is None or not end.reason.startswith("outputs:"):
        return None
    kind = _first(OUTPUTS, end.reason, "storage")
    what = "the command succeeded, but its outputs could not be uploaded"
    return Diagnosis(kind, what, end.reason, case.advice.of("outputs"))


def _setup(case: Case) -> Diagnosis | None:
    """A startup command failed; what its log says is the reason."""
    end, said = case.end, case.symptom
    if end is None or end.phase != "setup":
        return None
    kind = LOG_KINDS.get(said.kind, "user code") if said else "user code"
    remedy = said.remedy if said else "see startup_commands and pre_launch_commands in the profile"
    return Diagnosis(
        kind, f"{end.reason or cause(end)}{_on(end)}", said.evidence if said else _last(case) or end.reason, remedy
    )


def _by_log(case: Case) -> Diagnosis | None:
    return _of_log(case, case.symptom) if case.symptom is not None else None


def _by_clear_log(case: Case) -> Diagnosis | None:
    """The log names a cause, not just what might be one or follow from one."""
    return _by_log(case) if case.symptom is not None and case.symptom.level >= Level.SAID else None


def _analysis(case: Case) -> Diagnosis | None:
    """The platform's class of the failure, where it has one and nothing says more."""
    said = case.analysis
    full = meaning_of(said.suggestion)
    if full is not None and full.advice == "gpu memory":
        return _judged(case, full, Word(said.suggestion))
    for pattern, kind, what in CLASSES:
        if pattern.search(said.kind) and not (kind == "user code" and case.symptom is not None):
            told = f"{case.advice.name}: {': '.join(filter(None, (said.kind, said.suggestion)))}"
            ended = cause(case.end) if case.end else ""
            what = f"{what}: {ended}" if ended else what
            evidence = " / ".join(filter(None, (_last(case), told)))
            return Diagnosis(kind, what, evidence, case.advice.of(kind) or said.suggestion)
    return None


def _killed(case: Case) -> Diagnosis | None:
    """A signal from nobody knows where."""
    end = case.end
    why = _FATAL.get(end.signal) if end is not None and end.signal else None  # type: ignore[call-overload]
    if end is None or why is None:
        return None
    return Diagnosis("", f"{cause(end)}{_on(end)}", _last(case) or cause(end), why)


def _exit_code(case: Case) -> Diagnosis | None:
    """The command ended with an exit code of its own."""
    end, code = case.end, case.end.exit_code if case.end else case.exit_code
    if not code or code in _TOLD_TO_STOP or (end and (end.phase == "start" or end.received)):
        return None
    ended = f"{cause(end)}{_on(end)}" if end else f"the command ended with exit code {code}"
    what = f"{ended}; its log does not say why"
    return Diagnosis("user code", what, _last(case) or ended, case.advice.of("user code"))


def _unknown(case: Case) -> Diagnosis | None:
    """Says that nothing is known, what came last, and what could not be asked."""
    if case.state not in ("failed", "lost", "cancelled"):
        return None
    missing = f"; {case.advice.name} did not answer about its {', '.join(case.unasked)}" if case.unasked else ""
    ended = (cause(case.end) if case.end else "") or case.reason or "it failed"
    words = next((word.text for word in (*case.replicas, *reversed(case.events)) if word.text), "")
    said = f"{case.advice.name}: {case.analysis.suggestion}" if case.analysis.suggestion else ""
    remedy = "see nemotron jobs logs, events and replicas"
    return Diagnosis("", f"{ended}; nothing says why{missing}", _last(case) or words or said, remedy)


_Rule = Callable[[Case], "Diagnosis | None"]

_WAITS: tuple[_Rule, ...] = (_deadline, _told)
_ENDED: tuple[_Rule, ...] = (
    _deadline, _stalled, _outputs, _memory, _told, _contradiction, _start, _setup, _by_clear_log, _analysis, _by_log,
    _killed, _exit_code, _unknown,
)  # fmt: skip
"""The first that has something to say is right."""


def _judged(case: Case, meaning: Meaning, word: Word) -> Diagnosis:
    """The verdict of a line; where it does not name the machine, another of the same meaning may."""
    node = word.node or next((other.node for each, other in case.told if each.kind == meaning.kind and other.node), "")
    what = meaning.what.format(on=f" on {node}" if node else "", at=f" ({node})" if node else "")
    return Diagnosis(meaning.kind, what, word.text, case.advice.of(meaning.advice, meaning.kind))


def _of_log(case: Case, said: Symptom) -> Diagnosis:
    kind = LOG_KINDS.get(said.kind, "")
    ended = cause(case.end) if case.end else case.reason or "it failed"
    what = f"{ended}; perhaps: {said.what}" if said.level is Level.HINT else said.what
    if kind != "node":
        return Diagnosis(kind, what, said.evidence, said.remedy)
    return Diagnosis(kind, f"{what}{_on(case.end) if case.end else ''}", said.evidence, case.advice.of(kind))


def _first(table: Iterable[tuple[re.Pattern[str], str]], text: str, default: str) -> str:
    return next((kind for pattern, kind in table if pattern.search(text)), default)


def _on(end: NodeMarker) -> str:
    return f" (node {end.node}{f', {end.host}' if end.host else ''})"


def _last(case: Case) -> str:
    lines = (line for line in case.tail.splitlines() if not _OWN.match(line))
    return " / ".join(last_lines(b"\n".join(lines), 3, case.end.rank if case.end else None))

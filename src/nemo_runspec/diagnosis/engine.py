"""Why a job failed or does not start: one table of rules, tried in one order, for every backend. Pure.

A backend brings what it knows as a `Case`, and its own words and remedies as a `Platform`. Who decides that a job has
failed at all, and with which exit code, is another matter: docs/architecture.md, "Who decides".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from nemo_runspec.diagnosis.causes import (
    CLASSES,
    DECISIVE,
    GPU,
    KILLERS,
    MEMORY,
    PRECEDENCE,
    REASONS,
    STARTED,
    SYSTEM,
    cause_of,
    remedy_for,
    remedy_of,
)
from nemo_runspec.diagnosis.kinds import KNOWN, Fault, kind_of
from nemo_runspec.diagnosis.known_errors import find_known
from nemo_runspec.diagnosis.model import Case, Claim, Message
from nemo_runspec.diagnosis.patterns import Level
from nemo_runspec.diagnosis.phases import PHASES
from nemo_runspec.diagnosis.symptoms import Symptom, stack_of
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records.record import is_over
from nemo_runspec.script.markers import NodeMarker, cause, contradiction, contradicts

_TOLD_TO_STOP = frozenset({129, 130, 137, 143})

Rule = Callable[[Case], "Diagnosis | None"]


def diagnose(case: Case) -> Diagnosis | None:
    """The verdict; None for a job that succeeded, was cancelled, or where nothing is wrong."""
    if case.state == "succeeded" or (case.state == "cancelled" and not (case.deadline or case.claims)):
        return None
    rules = RULES if is_over(case.state) or case.state == "unknown" else WAITING
    found = next((found for rule in rules if (found := rule(case)) is not None), None)
    return None if found is None else replace(found, platform=case.analysis.shown(case.platform.name))


def _deadline(case: Case) -> Diagnosis | None:
    """It waited too long. What the platform says meanwhile is the reason, where it says more than that it waits."""
    if case.deadline is None:
        return None
    phase, tried = case.deadline.phase, case.deadline.tried
    passed, said = PHASES[phase], _platform(case)
    if said is not None:
        why = f"tried for longer than {tried}" if tried else f"{passed.key} has passed"
        return replace(said, what=f"{said.what} ({why})")
    what, remedy = f"it {passed.doing} for longer than {passed.key}", remedy_of(case.platform, passed.remedy)
    return Diagnosis(passed.kind, what, case.last_message or case.reason, remedy)


def _our_scripts(case: Case) -> Diagnosis | None:
    """Our own scripts ended it, and say why with a code: it hung, a node was bad, outputs could not be uploaded."""
    return _by_reason(case, case.marker) if case.marker and case.marker.reason_code in DECISIVE else None


def _start(case: Case) -> Diagnosis | None:
    """The job's own files did not arrive, or its nodes did not find each other."""
    marker = case.marker
    if marker is None or marker.phase != "start" or (not marker.reason_code and case.symptom):
        return None
    return _by_reason(case, marker)


def _recipe(case: Case) -> Diagnosis | None:
    """The recipe knows this error, unless the platform says what has ended the job."""
    if case.state != "failed" or not case.known or any(marker.oom and marker.exit_code for marker in case.markers):
        return None
    found = None if _certain(case) or _platform(case) else find_known(case.known, case.others, case.rank)
    return found and Diagnosis(KNOWN, found.error.cause, found.line, found.error.remedy)


def _memory(case: Case) -> Diagnosis | None:
    """The kernel killed one of its processes; where a GPU was full before, that is the cause."""
    said = case.symptom
    if said is not None and said.kind == "out of GPU memory":
        return _of_log(case, said)
    killed = next((marker for marker in case.markers if marker.oom and marker.exit_code), None)
    claim = next((claim for claim in claims_of(case) if claim.cause.kind == "out of memory"), None)
    if claim is not None:
        return _claimed(case, claim, killed.host if killed else "")
    if killed is None:
        return None
    quoted = said.evidence if said is not None and said.kind in ("out of memory", "killed") else cause(killed)
    return _claimed(case, Claim(MEMORY, Message(MEMORY.line_in(case.daemons) or quoted, killed.host)))


def _certain(case: Case) -> Diagnosis | None:
    """The platform's own verdict, such as a state."""
    return next((_claimed(case, claim) for claim in case.claims if claim.certain), None)


def _platform(case: Case) -> Diagnosis | None:
    """The platform says why. A command that failed by itself did so whatever became of its node afterwards."""
    if _failed_by_itself(case):
        return None
    return next((_claimed(case, claim) for claim in claims_of(case)), None)


def _contradiction(case: Case) -> Diagnosis | None:
    """The platform calls it a failure, and every node's own last word is that all went well."""
    name = case.platform.name
    if case.state != "failed" or not contradicts(case.markers, case.nodes):
        return None
    what = f"{contradiction(name)}; nothing says why"
    told = ": ".join(filter(None, (case.analysis.kind, case.analysis.suggestion)))
    evidence = f"{name}: {told}" if told else "nemotron-end: exit_code=0 of every node"
    return Diagnosis("", what, evidence, remedy_of(case.platform, "contradiction"))


def _setup(case: Case) -> Diagnosis | None:
    """A startup command failed; what its log says is the reason, its place is the node's."""
    marker, said = case.marker, case.symptom
    if marker is None or marker.phase != "setup":
        return None
    kind, where = case.platform.kind("setup"), f" ({marker.host})" if marker.host else ""
    if said and kind != "setup":
        kind = case.platform.kind(said.kind) or kind
    remedy = said.remedy if said else remedy_of(case.platform, "setup")
    evidence = said.evidence if said else case.last_lines or marker.reason
    return Diagnosis(kind, f"{marker.reason or cause(marker)}{where}", evidence, remedy)


def _clear_log(case: Case) -> Diagnosis | None:
    """The log names a cause, not just what might be one or follow from one."""
    return _log(case) if case.symptom is not None and case.symptom.level >= Level.SAID else None


def _log(case: Case) -> Diagnosis | None:
    return _of_log(case, case.symptom) if case.symptom is not None else None


def _analysis(case: Case) -> Diagnosis | None:
    """The platform's class of the failure, where it has one and nothing says more."""
    said = case.analysis
    if cause_of(said.suggestion) is GPU:
        return _claimed(case, Claim(GPU, Message(said.suggestion)))
    found = next((each for each in CLASSES if each.line_in((said.kind,))), None)
    if found is None or (found.kind == "user code" and case.symptom is not None):
        return None
    told = f"{case.platform.name}: {': '.join(filter(None, (said.kind, said.suggestion)))}"
    what = f"{found.what}: {cause(case.marker)}" if case.marker else found.what
    evidence = " / ".join(filter(None, (case.last_lines, told)))
    remedy = remedy_for(case.platform, found) or said.suggestion
    return Diagnosis(found.kind, what, evidence, remedy, nodes=_blamed(case, "", told))


def _hints(case: Case) -> Diagnosis | None:
    """What the platform gives as its reason, where the log names no cause."""
    return next((_claimed(case, claim) for claim in case.hints), None)


def _killed(case: Case) -> Diagnosis | None:
    """A signal from nobody knows where."""
    number = case.marker.signal if case.marker else case.signal
    if number is None or number not in KILLERS:
        return None
    on = f" on {case.marker.host}" if case.marker and case.marker.host else ""
    evidence = case.last_lines or case.statement or case.ended
    return Diagnosis(case.platform.kind("killed"), f"{case.ended}{on}", evidence, KILLERS[number])


def _exit_code(case: Case) -> Diagnosis | None:
    """The command ended with an exit code of its own."""
    marker, code = case.marker, case.marker.exit_code if case.marker else case.exit_code
    if case.state == "lost" or not code or code in _TOLD_TO_STOP:
        return None
    if marker is not None and (marker.phase == "start" or marker.received):
        return None
    ended = case.ended if marker or case.reason else f"the command ended with exit code {code}"
    why = "what it wrote last may say why" if case.last_lines else "its log does not say why"
    evidence = case.last_lines or case.statement or ended
    return Diagnosis(
        case.platform.kind("exit code"),
        f"{ended}; {why}",
        evidence,
        remedy_of(case.platform, "user code"),
    )


def _unknown(case: Case) -> Diagnosis | None:
    """Says that nothing is known, what came last, and what could not be asked."""
    if not is_over(case.state):
        return None
    name = case.platform.name
    missing = f"; {name} did not answer about its {', '.join(case.unasked)}" if case.unasked else ""
    said = f"{name}: {case.analysis.suggestion}" if case.analysis.suggestion else case.statement
    evidence = case.last_lines or case.last_message or said
    kind = case.platform.kind("lost") if case.state == "lost" else ""
    return Diagnosis(kind, f"{case.ended}; nothing says why{missing}", evidence, remedy_of(case.platform, "unknown"))


WAITING: tuple[Rule, ...] = (_deadline, _platform)
"""Of a job that is not over."""

RULES: tuple[Rule, ...] = (
    _deadline, _our_scripts, _recipe, _memory, _certain, _platform, _contradiction,
    _start, _setup, _clear_log, _analysis, _hints, _log, _killed, _exit_code, _unknown,
)  # fmt: skip
"""The first that has something to say is right: our own scripts know best why they ended a job; then what the recipe
knows; then the platform, which also ends what runs well; then the log, as far as it names a cause; then what is only
likely."""


def claims_of(case: Case) -> list[Claim]:
    """What the platform says, the most telling first; the latest of several that say as much."""
    messages = [*(case.analysis.messages if is_over(case.state) else ()), *case.messages]
    messages += reversed(case.events if case.state != "running" or case.ailing else ())
    began = [n for n, event in enumerate(case.events) if STARTED.search(event.text)]
    past = set(case.events[: began[-1]]) if began else set()
    found = [Claim(known, each) for each in messages if (known := cause_of(each.text))]
    found = [
        claim
        for claim in found
        if not (claim.cause.starting and not claim.message.now and (case.ran or claim.message in past))
    ]
    found.sort(key=lambda claim: (PRECEDENCE.index(claim.cause.kind), claim.cause.vague))
    return [*case.claims, *found]


def _failed_by_itself(case: Case) -> bool:
    """True if a node's command failed of its own accord, and its log says of what."""
    marker, said = case.marker, case.symptom
    if marker is None or marker.phase == "start" or marker.signal or marker.received:
        return False
    if marker.exit_code in _TOLD_TO_STOP or said is None or said.level < Level.SAID:
        return False
    return kind_of(said.kind).fault in (Fault.CODE, Fault.CONFIGURATION)


def _by_reason(case: Case, marker: NodeMarker) -> Diagnosis:
    """The verdict of a code of our own scripts, and of what programs and servers say in its reason."""
    found, reason = REASONS.get(marker.reason_code, REASONS[""]), marker.reason or cause(marker)
    quoted = next((each for each in SYSTEM if each.line_in((reason,))), None)
    stack = stack_of(case.tail) if marker.reason_code == "stall" else ""
    what = found.what.format(
        marker.bare_reason or reason,
        on=_at(marker),
        node=marker.host,
        ended=case.ended,
        stack=f"; it was at {stack}" if stack else "",
    )
    kind, remedy = found.kind, remedy_for(case.platform, found).replace("{node}", marker.host)
    if quoted is not None and found.kind in ("storage", ""):
        kind = quoted.kind
        remedy = remedy_for(case.platform, quoted) if marker.reason_code in ("files", "") else remedy
    evidence = (case.last_lines if found.logged else "") or reason
    return Diagnosis(kind, what, evidence, remedy, nodes=_blamed(case, marker.host, evidence))


def _claimed(case: Case, claim: Claim, node: str = "") -> Diagnosis:
    """The verdict of a claim; where it does not name the machine, another of the same kind may."""
    found, evidence = claim.cause, claim.message.text
    others = (other.message.node for other in claims_of(case) if other.cause.kind == found.kind)
    node = claim.message.node or node or next(filter(None, others), "")
    on, at = (f" on {node}", f" ({node})") if node else ("", "")
    words = {"on": on, "at": at, "after": case.ran_for, "reason": case.reason}
    what = found.what.format(found.name_in(evidence), **words)
    evidence = evidence or case.statement
    return Diagnosis(found.kind, what, evidence, remedy_for(case.platform, found), nodes=_blamed(case, node, evidence))


def _of_log(case: Case, said: Symptom) -> Diagnosis:
    kind, node = case.platform.kind(said.kind), case.marker.host if case.marker else ""
    what = f"{case.ended}; perhaps: {said.what}" if said.level is Level.HINT else said.what
    if said.kind == "torchrun" and case.rank is not None:
        what = case.ended  # which says as much, and of which rank
    if kind_of(said.kind).fault is Fault.NODE and case.marker is not None:
        what += _at(case.marker)
    remedy = case.platform.log_remedies.get(said.kind, said.remedy).replace("{node}", node)
    return Diagnosis(kind, what, said.evidence, remedy, nodes=_blamed(case, node, said.evidence))


def _blamed(case: Case, node: str, line: str) -> tuple[str, ...]:
    """The machines that a verdict is about: the one that is known, and those that the line it rests on names."""
    named = [each for each in case.machines if re.search(rf"(?<![\w.-]){re.escape(each)}(?![\w-])", line)]
    return tuple(dict.fromkeys(filter(None, (node, *named))))


def _at(marker: NodeMarker) -> str:
    return f" (node {marker.node}{f', {marker.host}' if marker.host else ''})"

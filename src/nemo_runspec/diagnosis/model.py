"""A job that failed or does not start (`Case`), its platform (`Platform`), and the verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nemo_runspec.diagnosis.symptoms import Symptom, find, last_lines
from nemo_runspec.runspec import KnownError
from nemo_runspec.script.markers import NodeMarker, cause, first_failure

_OWN = re.compile(rb"^nemotron(?:-\w+)?: ")
"""Lines that our own scripts write."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A way in which jobs fail: a row of a table.

    Args:
        kind: as in `Diagnosis`; whose fault it is, and whether another attempt is worth it, is told by `KINDS`.
        what: `{on}` is ` on NODE` and `{at}` ` (NODE)` where one is known; `{after}` how long it ran, ` after 4 h`;
            `{reason}` the platform's own reason; `{0}` what the first group of a line of `lines` holds.
        remedy: a key of `Platform.remedies`, or the words themselves; '' for the kind.
        lines: what is found in lines of a platform or its daemons that show it, the most telling first.
        starting: it is about starting: of a job whose command has run it is history.
        vague: it says that something failed, and not of what: any other line of its kind says more, older ones too.
        logged: the log's last lines show it.
    """

    kind: str
    what: str
    remedy: str = ""
    lines: tuple[re.Pattern[str], ...] = ()
    starting: bool = False
    vague: bool = False
    logged: bool = False

    def line_in(self, lines: Sequence[str]) -> str:
        """The last line that shows it, '' for none."""
        found = (line for pattern in self.lines for line in reversed(lines) if pattern.search(line))
        return next(found, "")

    def name_in(self, line: str) -> str:
        """What the line names: a node, an option."""
        matches = (pattern.search(line) for pattern in self.lines if pattern.groups)
        return next((match[1] for match in matches if match), "")


@dataclass(frozen=True, slots=True)
class Message:
    """One thing a platform says about a job.

    Args:
        text: its very words.
        node: the machine it is about, '' where that is not said.
        now: whether it is so now; else it was once, as events are.
    """

    text: str
    node: str = ""
    now: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """What a message of the platform means.

    Args:
        certain: it is the platform's own verdict, such as a state: it holds whatever the log says.
    """

    cause: Cause
    message: Message
    certain: bool = False


@dataclass(frozen=True, slots=True)
class Analysis:
    """A platform's own analysis of a failure.

    Args:
        kind: its class, such as ERR_PROGRAM.
        suggestion: what it says to do.
        messages: of single nodes.
        log_streams: lines of logs, as they came.
    """

    kind: str = ""
    suggestion: str = ""
    messages: tuple[Message, ...] = ()
    log_streams: Any = None

    def shown(self, name: str) -> dict[str, Any]:
        """What of it is shown beside our own verdict, as `Diagnosis.platform`; empty where it says nothing."""
        fields = {"err_class": self.kind, "suggestion": self.suggestion, "log_streams": self.log_streams}
        known = {key: value for key, value in fields.items() if value}
        return {"name": name, **known} if known else {}


@dataclass(frozen=True, slots=True)
class PassedDeadline:
    """A limit on waiting that has passed.

    Args:
        phase: `queue`, `pull` or `start`.
        tried: how long it was tried in vain, in words; '' where it only waited.
    """

    phase: str
    tried: str = ""


@dataclass(frozen=True, slots=True)
class Platform:
    """What a backend brings to the table of rules.

    Args:
        name: for a person.
        remedies: by kind, or by a cause's `remedy`; those that all share are in `causes`.
        kinds: kinds of log lines, and of rules → what they are called there, where that is something else.
        log_remedies: what to do about what a log says, by its kind, where the profile has a key for it; `{node}` is
            the machine.
        daemon_lines: what daemons of the platform write into the job's log.
    """

    name: str
    remedies: Mapping[str, str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    log_remedies: Mapping[str, str] = field(default_factory=dict)
    daemon_lines: re.Pattern[str] | None = None

    def kind(self, name: str) -> str:
        """What a kind is called there."""
        return self.kinds.get(name, name)


@dataclass(frozen=True)
class Case:
    """All that is known of a job.

    Args:
        state: ours.
        reason: why, in words.
        statement: what the platform says of it, in one line.
        deadline: a limit on waiting that has passed.
        markers: how its nodes ended.
        tail: the end of its log.
        script_tail: of its batch script's, without echoes.
        messages: what is wrong with its pods.
        events: what was written down, the oldest first.
        claims: what the backend alone can read out of its platform's answers, the most telling first.
        hints: the
            same, believed where the log names no cause.
        daemons: lines of the platform's daemons, for evidence.
        exit_code, signal: as the platform itself says it, None where it does not.
        nodes: how many it had, 0 where that is not known.
        machines: where it ran, by the names that the platform's
            messages may call them.
        ran_for: ` after 4 h`, '' where that is not known.
        unasked: what the platform did not answer about, such as `events`.
        known: errors that its recipe knows.
        ailing: it runs, and the platform says that not all of it is well: what was written down counts then, too.
    """

    state: str
    platform: Platform
    reason: str = ""
    statement: str = ""
    deadline: PassedDeadline | None = None
    markers: Sequence[NodeMarker] = ()
    tail: bytes = b""
    script_tail: bytes = b""
    messages: Sequence[Message] = ()
    events: Sequence[Message] = ()
    analysis: Analysis = field(default_factory=Analysis)
    claims: Sequence[Claim] = ()
    hints: Sequence[Claim] = ()
    daemons: Sequence[str] = ()
    exit_code: int | None = None
    signal: int | None = None
    nodes: int = 0
    machines: Sequence[str] = ()
    ran_for: str = ""
    unasked: Sequence[str] = ()
    known: Sequence[KnownError] = ()
    ailing: bool = False

    @cached_property
    def marker(self) -> NodeMarker | None:
        """Of the node that failed first; None where none has, as far as is known."""
        return first_failure(self.markers)

    @cached_property
    def symptom(self) -> Symptom | None:
        """What the log says, without our own lines."""
        return find(self.others, self.rank)

    @property
    def rank(self) -> int | None:
        """The rank that failed first."""
        return self.marker.rank if self.marker else None

    @property
    def ran(self) -> bool:
        """True if it was started on all its nodes, as far as is known, or has ended on one."""
        return bool(self.markers) or (self.state == "running" and not self.ailing)

    @property
    def ended(self) -> str:
        """How it ended, in words."""
        return (cause(self.marker) if self.marker else "") or self.reason or "it failed"

    @property
    def last_lines(self) -> str:
        """The last lines that somebody else has written, '' for none."""
        lines = last_lines(self.others, 8, self.rank)
        daemons = self.platform.daemon_lines
        kept = [line for line in lines if daemons is None or not daemons.search(line)][-3:]
        return " / ".join(kept or last_lines(self.script_tail, 3))

    @property
    def last_message(self) -> str:
        """What the platform said last, or wrote down last."""
        return next((each.text for each in (*self.messages, *reversed(self.events)) if each.text), "")

    @cached_property
    def others(self) -> bytes:
        """The end of its log without our own lines."""
        return b"\n".join(line for line in self.tail.splitlines() if not _OWN.match(line))

"""The line at the end of a log that says why the program failed: whose, where in the user's code, and what to do.

A job's log holds the words of all its ranks. The first of them to fail by itself is the one to blame: what the others
say afterwards (lost connections, torchrun's summary, crashes while they are ended) is an echo of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nemo_runspec.diagnosis.patterns import ANY, LAUNCHER, OWN_ERROR, PATTERNS, Level, Pattern
from nemo_runspec.diagnosis.tracebacks import Frame, Traceback, frames_of, read_tracebacks
from nemo_runspec.transport.chatter import is_chatter, without_chatter

LIMIT = 1 << 20
"""Bytes of a log that are looked at, from its end."""

_FAR = 200
"""Lines that a rank writes after a failure it survived, and not after one that ended it."""

_NEAR = 10
"""Lines that a rank may write after the error with which it gave up, such as a usage or a hint."""

_READ, _LONGEST, _TOLD = 1000, 400, 160
"""Characters of a line that are looked at, that are shown, and that are told in a sentence."""

_RANK = re.compile(r"(?:\[rank(\d+)\]:? ?)+")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STACK = re.compile(r"most recent call first|^Thread \S+ \((?:idle|active)")
_NATIVE = re.compile(r"^frame #|^#\d+ ")
"""A stack of C++, of which PyTorch writes some for every rank it aborts."""

_ENVIRONMENT = "the environment is not whole: install what is missing (startup_commands), or take another image"


@dataclass(frozen=True, slots=True)
class Symptom:
    """What a log says about a failure.

    Args:
        kind, what, evidence, remedy: as those of `Diagnosis`.
        where: `file:line` of the user's own code, '' where none is known.
        rank: whose line it is, None where the log does not say.
        level: how much it says; an echo or a hint is not the cause itself.
    """

    kind: str
    what: str
    evidence: str
    remedy: str
    where: str = ""
    rank: int | None = None
    level: Level = Level.CAUSE


_Line = tuple[int, str]
_At = tuple[int, Symptom]


def find(log_tail: bytes, rank: int | None = None) -> Symptom | None:
    """The most telling symptom, None where no line says anything.

    Args:
        log_tail: the end of a log; lines may begin with `[rankN] `.
        rank: that failed first by its exit marker: the cause it names goes before those of others.
    """
    found: list[_At] = []
    by_rank = lines_by_rank(log_tail)
    for who, lines in by_rank.items():
        found += sorted(_of_rank(who, lines), key=_weight)[-1:]
    found.sort(key=lambda at: (-at[1].level, at[0]))
    first = (at for at in found if at[1].rank == rank is not None and at[1].level >= Level.SAID)
    best = next((at for at in first if at[1].level is found[0][1].level), found[0] if found else None)
    if best is None:
        return None
    return _before(by_rank, best[1], rank) if best[1].kind == "torchrun" else best[1]


def _weight(at: _At) -> tuple[int, int]:
    """The last of what a rank wrote is what ended it; of the errors it gave up with, the first."""
    place, symptom = at
    return symptom.level, -place if symptom.level is Level.SAID else place


def _before(by_rank: Mapping[int | None, Sequence[_Line]], symptom: Symptom, rank: int | None) -> Symptom:
    """torchrun's word that a process of its failed, with the last line that was written before it said so."""
    lines = sorted(by_rank.get(rank, ()) if rank in by_rank else (line for some in by_rank.values() for line in some))
    texts = [text for _, text in lines]
    start = next((n for n, text in enumerate(texts) if LAUNCHER.search(text)), 0)
    said = [text for text in without_chatter(texts[:start]) if not text.lstrip().startswith("nemotron")]
    return replace(symptom, evidence=shown_line(said[-1])) if said else symptom


def tail_of(log: Path) -> bytes:
    """As much of a log's end as `find` looks at; nothing of one that is not there."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LIMIT))
            return file.read(LIMIT)
    except OSError:
        return b""


def last_lines(log_tail: bytes, count: int = 3, rank: int | None = None) -> list[str]:
    """The last lines that are not empty, without the ranks' names; those of one rank where it wrote any."""
    by_rank = lines_by_rank(log_tail)
    lines = by_rank.get(rank) if rank is not None else None
    lines = lines or sorted(line for lines in by_rank.values() for line in lines)
    return [shown_line(text) for text in without_chatter([text for _, text in lines])][-count:]


def stack_of(log_tail: bytes) -> str:
    """Where the code was, Python's own library left out, in the first stack taken of a running process; '' without one.

    Such a stack is faulthandler's, whose header says that the most recent call comes first, or py-spy's.
    """
    for lines in lines_by_rank(log_tail).values():
        texts = [text for _, text in lines]
        start = next((n for n, text in enumerate(texts) if _STACK.search(text)), len(texts))
        own = next((frame for frame in frames_of(texts[start:]) if frame.own), None)
        if own is not None:
            return own.place
    return ""


def lines_by_rank(log_tail: bytes) -> dict[int | None, list[_Line]]:
    """Each rank's lines, without its name and colours, and with their place among all."""
    found: dict[int | None, list[_Line]] = {}
    text = _COLOURS.sub("", log_tail[-LIMIT:].decode("utf-8", "replace"))
    place = 0
    for line in text.split("\n"):
        match = _RANK.match(line)
        rank = int(match[1]) if match else None
        for part in line[match.end() if match else 0 :].split("\r"):  # a progress bar's; its rank is named once
            found.setdefault(rank, []).append((place, part[:_READ]))
            place += 1
    return found


def _of_rank(rank: int | None, lines: Sequence[_Line]) -> Iterator[_At]:
    """What one rank's lines say, without what it survived."""
    texts = [text for _, text in lines]
    first = near_end(texts)
    tracebacks = [one for one in read_tracebacks(texts) if one.end >= first]
    taken = {n for one in tracebacks for n in range(one.start, one.end + len(one.message))}
    for chain in _chains([one for one in tracebacks if not one.ignored]):
        yield lines[chain[0].start][0], _raised(chain, rank)
    last = _gave_up_from(texts)
    for n in range(first, len(texts)):
        if n in taken:
            continue
        own = OWN_ERROR.match(texts[n]) if n >= last and not is_chatter(texts[n]) else None
        if ANY.search(texts[n]):
            pattern, groups = _match(texts[n])
            yield lines[n][0], _symptom(pattern, groups, rank, texts[n], own=own is not None)
        elif own:
            yield lines[n][0], _own_error(rank, texts[n], own[1])


def _gave_up_from(texts: Sequence[str]) -> int:
    """The place from which on a rank's lines are its last, before torchrun says that it has ended."""
    end = next((n for n, text in enumerate(texts) if LAUNCHER.search(text)), len(texts))
    written = [n for n in range(end) if texts[n].strip() and not is_chatter(texts[n])]
    return written[-_NEAR] if len(written) >= _NEAR else 0


def _own_error(rank: int | None, line: str, said: str) -> Symptom:
    what = f"{_who(rank)} gave up: {said.strip()[:_TOLD]}"
    return Symptom("user code", what, shown_line(line), "what it says is what to mend", "", rank, Level.SAID)


def near_end(texts: Sequence[str]) -> int:
    """The place from which on lines are so near the end that what they say may have ended the rank."""
    left = _FAR
    for n in range(len(texts) - 1, -1, -1):
        left -= bool(texts[n].strip()) and not _NATIVE.match(texts[n])
        if left < 0:
            return n
    return 0


def _chains(tracebacks: Sequence[Traceback]) -> list[list[Traceback]]:
    """Tracebacks of one exception together: its cause, what was raised while it was handled, a worker's."""
    found: list[list[Traceback]] = []
    for traceback in tracebacks:
        if traceback.goes_on and found:
            found[-1].append(traceback)
        else:
            found.append([traceback])
    return found


def _raised(chain: Sequence[Traceback], rank: int | None) -> Symptom:
    """The last exception of the chain that the table knows, else the last one."""
    for traceback in reversed(chain):
        for line in traceback.message:
            if ANY.search(line):
                return _known(traceback, chain, line, rank)
    traceback = chain[-1]
    own = _own_of(chain)
    place = f" at {own.place}" if own else f" in {traceback.inner.place}" if traceback.inner else ""
    return Symptom(
        "user code",
        f"{_who(rank)} raised {traceback.name}{place}",
        shown_line(traceback.message[0]),
        "the whole traceback is in the log",
        own.place if own else "",
        rank,
    )


def _known(traceback: Traceback, chain: Sequence[Traceback], line: str, rank: int | None) -> Symptom:
    pattern, groups = _match(line)
    own, inner = _own_of(chain), traceback.inner
    level = Level.ECHO if pattern.level is Level.ECHO else Level.CAUSE
    missing = pattern.kind == "import error" and inner is not None and not inner.own
    remedy = _ENVIRONMENT if missing else pattern.remedy
    what = pattern.what.format(*groups, who=_who(rank)).strip()
    what += f", which {inner.place} needs" if missing and inner else f", at {own.place}" if own else ""
    return Symptom(pattern.kind, what, shown_line(line), remedy, own.place if own else "", rank, level)


def _symptom(pattern: Pattern, groups: Sequence[str], rank: int | None, line: str, *, own: bool) -> Symptom:
    """`own`: the line is the error with which the program gave up."""
    what = pattern.what.format(*groups, who=_who(rank)).strip()
    level = Level.SAID if own and pattern.level is Level.HINT else pattern.level
    return Symptom(pattern.kind, what, shown_line(line), pattern.remedy, "", rank, level)


def _match(line: str) -> tuple[Pattern, list[str]]:
    """The first pattern of the table that is found there, and its groups; two more, as not each of them has as many."""
    for pattern in PATTERNS:
        match = pattern.regex.search(line)
        if match:
            return pattern, [*(group for group in match.groups() if group), "", ""]
    raise AssertionError(line)


def _own_of(chain: Sequence[Traceback]) -> Frame | None:
    return next((one.own for one in reversed(chain) if one.own), None)


def _who(rank: int | None) -> str:
    return "the command" if rank is None else f"rank {rank}"


def shown_line(line: str) -> str:
    """A line as evidence, no longer than a person wants it."""
    line = line.strip()
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"

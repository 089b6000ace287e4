"""The texts that would be sent, on a page: a line is shown as it is or not at all; a file not whole has its digest."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence

from nemo_runspec.backends.base import Program, RenderedFile, Rendering
from nemo_runspec.digests import digest_of_text
from nemo_runspec.text import clean, count, size
from nemotron.cli.dry_run.rows import folded
from nemotron.cli.text import colour_wanted, paint, table

LONGEST_FILE = 64
"""Own lines of one file that the page shows; of a file with more it shows none."""
_LONGEST_LINE = 1000
"""Characters. Longer lines are programs, or data."""
_DIGITS = 12
"""Of a digest: as many as tell contents apart."""
_SAYS_NOTHING = re.compile(r"\s*(#([\s#!]|$)|set [-+]|\w+=(''|\(\))$)")
"""In bash of a job: comments, shell options, empty values. `#SBATCH` is no comment."""


def lines_of(file: RenderedFile) -> list[str]:
    """The lines of a file, without the end of the last one."""
    return file.text.rstrip("\n").split("\n")


def own_lines(file: RenderedFile) -> list[int]:
    """The numbers of a file's own lines: neither the same in every job, nor without anything that is said."""
    common = {number for first, end in file.common for number in range(first, end)}
    return [number for number, line in enumerate(lines_of(file)) if number not in common and not _is_idle(line, file)]


def is_on_page(file: RenderedFile) -> bool:
    """True if the page shows lines of it."""
    return len(own_lines(file)) <= LONGEST_FILE


def excerpt(file: RenderedFile, rendering: Rendering) -> list[str]:
    """A file as the page shows it: its own lines, below its name."""
    lines, own, painted = lines_of(file), own_lines(file), _painted(file, rendering).split("\n")
    part = (
        "" if len(own) == len(lines) else f", its own {len(own)} of {count(len(lines), 'line')}, {_sha256(file.text)}"
    )
    shown = (_too_long(number, lines[number]) or painted[number] for number in own)
    return [heading(f"{file.title}: {clean(file.name)}{part}"), *shown]


def whole(file: RenderedFile, rendering: Rendering) -> list[str]:
    """All of a file, below its name."""
    return [heading(f"{file.title}: {clean(file.name)}"), _painted(file, rendering)]


def by_digest(rendering: Rendering, width: int | None) -> list[str]:
    """What goes with the job and is not shown on the page, by name and digest; programs one after the other."""
    rows = [
        (clean(file.name), file.title, f"{count(len(lines_of(file)), 'line')}, {_sha256(file.text)}")
        for file in rendering.files
        if not is_on_page(file)
    ]
    programs = ", ".join(f"{each.name} {each.digest[:_DIGITS]}" for each in rendering.programs)
    return [*table(rows), *(folded(f"the same for all jobs: {programs}", width) if programs else ())]


def programs_named(programs: Sequence[Program]) -> list[str]:
    """What goes with the texts and is the same for all jobs; no line where there is none."""
    rows = program_rows(programs)
    return [heading("programs, the same for all jobs"), *table(rows)] if rows else []


def program_rows(programs: Sequence[Program]) -> list[tuple[str, str, str]]:
    """Name, version, and size with digest of each."""
    return [(each.name, each.version, f"{size(each.size)}, {_digest(each.digest)}") for each in programs]


def started_with(rendering: Rendering) -> list[str]:
    """The process, or the request, that submits it."""
    return [heading("started with"), shlex.join(rendering.command)]


def holes(rendering: Rendering) -> Iterator[tuple[str, str, str]]:
    """Of each value that only the platform knows: its name, what it is, and the first place where it stands."""
    for hole in rendering.holes:
        name, _, meaning = hole.partition(": ")
        yield name, meaning, next(_places(name, rendering), "")


def heading(text: str) -> str:
    """A line that is no line of a file."""
    return paint(f"--- {text} ---", "cyan")


def as_word(name: str) -> re.Pattern[str]:
    """A pattern of the name where it is no part of another."""
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


def _places(name: str, rendering: Rendering) -> Iterator[str]:
    word = as_word(name)
    for file in rendering.files:
        yield from (f"{clean(file.name)}:{n}" for n, line in enumerate(lines_of(file), 1) if word.search(line))


def _is_idle(line: str, file: RenderedFile) -> bool:
    return not line.strip() or (file.language == "bash" and _SAYS_NOTHING.match(line) is not None)


def _too_long(number: int, line: str) -> str:
    """What stands in the place of a line that is not shown, '' for one that is."""
    if len(line) <= _LONGEST_LINE:
        return ""
    return heading(f"line {number + 1}: {count(len(line), 'character')}, {_sha256(line)}")


def _sha256(text: str) -> str:
    return _digest(digest_of_text(text))


def _digest(digest: str) -> str:
    return f"sha256 {digest[:_DIGITS]}"


def _painted(file: RenderedFile, rendering: Rendering) -> str:
    """The text as it is; on a terminal with colours, and with what only the platform knows standing out."""
    text = file.text.rstrip("\n")
    if not colour_wanted(sys.stdout):
        return text
    from nemotron.cli.highlight import highlight, stand_out

    return stand_out(highlight(text, file.language), [as_word(name) for name, _, _ in holes(rendering)])

"""The texts that would be sent, on a page: a line is shown as it is or not at all; what is left out has its digest."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from nemo_runspec.backends.base import RenderedFile, Rendering
from nemo_runspec.digests import digest_of_text
from nemo_runspec.text import clean, count, size
from nemotron.cli.text import colour_wanted, paint, table

LONGEST_FILE = 64
"""Lines of one file that the page shows; of a longer one it shows none."""
_LONGEST_LINE = 1000
"""Characters. Longer lines are programs, or data."""
_FEWEST = 4
"""Lines that are left out together because they are the same in every job; fewer are shown."""
_DIGITS = 12


@dataclass(frozen=True)
class Part:
    """Lines of a file, from `first` to before `end`, counted from 0. `why`: they are left out; '' for shown ones."""

    first: int
    end: int
    why: str = ""


def lines_of(file: RenderedFile) -> list[str]:
    """The lines of a file, without the end of the last one."""
    return file.text.rstrip("\n").split("\n")


def parts_of(file: RenderedFile) -> list[Part]:
    """What the page shows of a file, and what it leaves out, in their order: together all its lines."""
    common = {n for first, end in file.common if end - first >= _FEWEST for n in range(first, end)}
    found: list[Part] = []
    for number, line in enumerate(lines_of(file)):
        why = _why_not(line, number in common)
        if found and found[-1].why == why:
            found[-1] = Part(found[-1].first, number + 1, why)
        else:
            found.append(Part(number, number + 1, why))
    return found


def is_on_page(file: RenderedFile) -> bool:
    """Whether the page shows lines of it."""
    return sum(part.end - part.first for part in parts_of(file) if not part.why) <= LONGEST_FILE


def excerpt(file: RenderedFile, rendering: Rendering) -> list[str]:
    """A file as the page shows it, below its name."""
    lines, painted = lines_of(file), _painted(file, rendering).split("\n")
    shown = [_name_of(file)]
    for part in parts_of(file):
        shown += [heading(_left_out(part, lines))] if part.why else painted[part.first : part.end]
    return shown


def whole(file: RenderedFile, rendering: Rendering) -> list[str]:
    """All of a file, below its name."""
    return [_name_of(file), _painted(file, rendering)]


def by_digest(rendering: Rendering) -> list[str]:
    """What goes with the job and is not shown on the page, by name and digest."""
    rows = [
        (clean(file.name), file.title, f"{count(len(lines_of(file)), 'line')}, {_digest(digest_of_text(file.text))}")
        for file in rendering.files
        if not is_on_page(file)
    ]
    return table([*rows, *_programs(rendering)])


def programs(rendering: Rendering) -> list[str]:
    """What goes with the texts and is the same for all jobs."""
    return table(_programs(rendering))


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


def _name_of(file: RenderedFile) -> str:
    return heading(f"{file.title}: {clean(file.name)}")


def _places(name: str, rendering: Rendering) -> Iterator[str]:
    word = as_word(name)
    for file in rendering.files:
        yield from (f"{clean(file.name)}:{n}" for n, line in enumerate(lines_of(file), 1) if word.search(line))


def _programs(rendering: Rendering) -> list[tuple[str, str, str]]:
    return [(each.name, each.version, f"{size(each.size)}, {_digest(each.digest)}") for each in rendering.programs]


def _why_not(line: str, is_common: bool) -> str:
    if len(line) > _LONGEST_LINE:
        return count(len(line), "character")
    return "the same in every job" if is_common else ""


def _left_out(part: Part, lines: list[str]) -> str:
    which = f"line {part.end}" if part.end - part.first == 1 else f"lines {part.first + 1} to {part.end}"
    digest = digest_of_text("\n".join(lines[part.first : part.end]))
    return f"{which} of {len(lines)}: {part.why}, {_digest(digest)}"


def _digest(digest: str) -> str:
    return f"sha256 {digest[:_DIGITS]}"


def _painted(file: RenderedFile, rendering: Rendering) -> str:
    """The text as it is; on a terminal with colours, and with what only the platform knows standing out."""
    text = file.text.rstrip("\n")
    if not colour_wanted(sys.stdout):
        return text
    from nemotron.cli.highlight import highlight, stand_out

    return stand_out(highlight(text, file.language), [as_word(name) for name, _, _ in holes(rendering)])

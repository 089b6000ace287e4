"""Fills the code of docs/adding-a-backend.md with that of tests/plugin. `--check` only says whether it is up to date.

A block ``` ```python FILE ``` holds the lines of FILE from the block's first line on, up to the first line of the next
block with the same FILE. Blocks of files that tests/plugin does not have are the page's own.
"""

from __future__ import annotations

import re
import sys
from itertools import zip_longest
from pathlib import Path

PAGE = Path(__file__).with_name("adding-a-backend.md")
FOLDER = "nemotron-spool/"
"""What the page calls the folder of the distribution."""

_PLUGIN = PAGE.parents[1] / "tests" / "plugin"
_BLOCK = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def filled(page: str) -> str:
    """The page with the files as they are now.

    Raises:
        ValueError: a block's first line is not in its file, or more than once; the file begins before its first block.
    """
    firsts: dict[str, list[str]] = {}
    for _, name, body in _BLOCK.findall(page):
        firsts.setdefault(name, []).append(body.partition("\n")[0])
    pieces = {name: _pieces(name, lines) for name, lines in firsts.items() if name.startswith(FOLDER)}

    def block(found: re.Match[str]) -> str:
        language, name, body = found.groups()
        return f"```{language} {name}\n{pieces[name].pop(0) if name in pieces else body}```"

    return _BLOCK.sub(block, page)


def _pieces(name: str, firsts: list[str]) -> list[str]:
    lines = (_PLUGIN / name.removeprefix(FOLDER)).read_text("utf-8").splitlines(keepends=True)
    starts = [_start(name, lines, first) for first in firsts]
    if starts[0] != 0:
        raise ValueError(f"{name} begins before its first block")
    ranges = zip_longest(starts, starts[1:])
    return ["".join(lines[start:end]).rstrip("\n") + "\n" for start, end in ranges]


def _start(name: str, lines: list[str], first: str) -> int:
    found = [number for number, line in enumerate(lines) if line.startswith(first)]
    if len(found) != 1:
        raise ValueError(f"{name} has {len(found)} lines that begin with {first!r}")
    return found[0]


def main() -> int:
    """0 where the page is up to date or has been written, 1 where `--check` found it stale."""
    before = PAGE.read_text(encoding="utf-8")
    after = filled(before)
    if "--check" in sys.argv:
        return 0 if after == before else 1
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The way into a running job, once a platform has let somebody onto its node: the words that lead to its command."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nemo_runspec.lines import text_lines


@dataclass(frozen=True, slots=True)
class ShellRequest:
    """What is to be run in a running job.

    Args:
        root: the job's directory, as whatever runs there names it.
        rank: the number of the node.
        node: as the platform lists it, None for the first.
        command: its words; a shell where there are none.
        terminal: whether it is given one.
    """

    root: str
    rank: int = 0
    node: str | None = None
    command: tuple[str, ...] = ()
    terminal: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """What is run on the node."""
        return ("bash", "-c", _program(), "nemotron", self.root, str(self.rank), *(self.command or ("bash",)))


@cache
def _program() -> str:
    """Without its comments: where it goes by an API, it is part of a request's address."""
    lines = text_lines((Path(__file__).parent / "enter.sh").read_text(encoding="utf-8"))
    return "\n".join(line.strip() for line in lines if line.strip() and not line.startswith("#"))

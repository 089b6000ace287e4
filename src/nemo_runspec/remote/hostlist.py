"""The nodes of a job, as a platform writes them: `n[1-4,7]` is Slurm's way (`man scontrol`, show hostlist)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nemo_runspec.errors import UserError

_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGES = re.compile(r"([^\[]*)\[([^\]]*)\](.*)")
_MOST = 100_000
"""Nodes of one range that are written out."""


def require_node(job: str, nodes: str, wanted: str) -> None:
    """Raises `UserError` where the node is none of the job's.

    Args:
        nodes: of the job, as its platform writes them; '' where they are not known, and then nothing is refused.
    """
    if nodes and wanted not in expand(nodes):
        raise UserError(f"job '{job}' has no node '{wanted}'", remedy=f"name one of its nodes: {nodes}")


def expand(nodes: str) -> tuple[str, ...]:
    """`n[01-03,7]` → `n01 n02 n03 n7`, each once, in order. What is not understood stays as it is."""
    return tuple(dict.fromkeys(name for part in _PART.findall(nodes) for name in _names(part)))


def _names(part: str) -> Iterator[str]:
    found = _RANGES.fullmatch(part)
    if found is None:
        yield part
        return
    head, ranges, rest = found.groups()
    tails = tuple(_names(rest))
    for one in ranges.split(","):
        yield from (f"{head}{number}{tail}" for number in _numbers(one) for tail in tails)


def _numbers(text: str) -> Iterator[str]:
    """`08-11` → `08 09 10 11`."""
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()) or int(last) - int(first) > _MOST:
        yield text
        return
    yield from (f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1))

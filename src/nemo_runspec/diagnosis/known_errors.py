"""Errors that a recipe knows, `[[tool.runspec.errors]]`: kept with each of its jobs, looked for in their logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nemo_runspec.diagnosis.symptoms import lines_by_rank, near_end, shown_line
from nemo_runspec.runspec import KnownError
from nemo_runspec.runspec_keys import pattern_problem

KEY = "known_errors"
"""Where they stand in the handle of a job that runs elsewhere."""


_LOOKED_AT = 300
"""Characters of a line, from its beginning: what a pattern costs grows with a power of them."""


class KnownLine(NamedTuple):
    """An error, and the line of a log that shows it."""

    error: KnownError
    line: str


def find_known(errors: Sequence[KnownError], log_tail: bytes, rank: int | None = None) -> KnownLine | None:
    """The first of the errors that a line near the end of what a rank wrote shows; its last such line.

    Args:
        rank: whose lines go before those of others.
    """
    if not errors:
        return None
    by_rank = lines_by_rank(log_tail)
    ranks = sorted(by_rank, key=lambda who: who != rank)
    texts = {who: [text for _, text in by_rank[who]] for who in ranks}
    last = {who: list(reversed(texts[who][near_end(texts[who]) :])) for who in ranks}
    for error in errors:
        search = re.compile(error.pattern).search
        found = next((line for who in ranks for line in last[who] if search(line[:_LOOKED_AT])), None)
        if found is not None:
            return KnownLine(error, shown_line(found))
    return None


def read_known(data: Any) -> tuple[KnownError, ...]:
    """Errors out of plain data that anybody may have written; what is none, or may take too long, is left out."""
    items: Iterable[Any] = data if isinstance(data, list) else ()
    words = (
        tuple(item.get(key, "") for key in ("pattern", "cause", "remedy")) for item in items if isinstance(item, dict)
    )
    found = (KnownError(*each) for each in words if all(isinstance(word, str) for word in each))
    return tuple(each for each in found if each.pattern and each.cause and pattern_problem(each.pattern) is None)


def known_of_folder(folder: Path) -> tuple[KnownError, ...]:
    """Known errors of a job, out of the plan in its folder; none where that cannot be read."""
    try:
        plan = json.loads((folder / "plan.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return ()
    recipe = plan.get("recipe") if isinstance(plan, dict) else None
    return read_known(recipe.get("errors")) if isinstance(recipe, dict) else ()

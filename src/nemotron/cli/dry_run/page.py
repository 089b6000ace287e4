"""A plan on a page: what is wrong or missing, the values that decide with their sources, the lines that are its own."""

from __future__ import annotations

from nemo_runspec.backends.base import Rendering
from nemo_runspec.plans.model import Plan
from nemo_runspec.text import clean
from nemotron.cli.dry_run import facts, files
from nemotron.cli.dry_run.deciding import counted, deciding_rows
from nemotron.cli.dry_run.rows import aligned, folded
from nemotron.cli.text import paint, table

_MORE = "--full shows everything, --script what its platform gets."


def page(plan: Plan, rendering: Rendering | None, *, width: int | None, saved_to: str | None = None) -> str:
    """The page.

    Args:
        width: of the terminal; None for no terminal, where no line is broken.
        saved_to: the file that the caller writes the plan to.
    """
    sections = [
        facts.title(plan),
        facts.problems(plan, width),
        _holes(rendering, width),
        _values(plan, width),
        facts.build(plan),
        facts.travel(plan, width),
        facts.cost(plan, width),
        *_texts(plan, rendering, width),
        [f"{facts.nothing(plan, saved_to)} {_MORE}"],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _holes(rendering: Rendering | None, width: int | None) -> list[str]:
    found = [*files.holes(rendering)] if rendering else []
    if not found:
        return []
    rows = table((name, place, clean(meaning)) for name, meaning, place in found)
    head = paint("holes: filled when it is submitted; --resolve asks its platform now", "bold")
    return [head, *rows]


def _values(plan: Plan, width: int | None) -> list[str]:
    number = counted(plan)
    also = folded(f"and of the config {number}", width) if number else []
    return [paint("values", "bold"), *aligned(deciding_rows(plan), width), *also]


def _texts(plan: Plan, rendering: Rendering | None, width: int | None) -> list[list[str]]:
    if rendering is None:
        return [no_renderer(plan)]
    first = sorted(rendering.files, key=lambda file: file is not rendering.sent_file)
    shown = [file for file in first if files.is_on_page(file)]
    left = files.by_digest(rendering, width)
    return [
        *(files.excerpt(file, rendering) for file in shown),
        [paint("by name and digest (--full)", "bold"), *left] if left else [],
        files.started_with(rendering),
    ]


def no_renderer(plan: Plan) -> list[str]:
    """Says that there is no text to show."""
    return [f"The exact payload for '{plan.executor}' is not shown: its renderer is not built in this release."]

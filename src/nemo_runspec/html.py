"""A few facts as a piece of HTML, for notebooks. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def facts_table(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A table of two columns below a title; facts that are empty are left out."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(key)}</th><td style='text-align:left'>{escape(str(value))}</td></tr>"
        for key, value in facts
        if value not in ("", None)
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def rows_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a head."""
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{cells}</tr>{body}</table>"

"""JSON for people: what fits on a line stands on one."""

from __future__ import annotations

import json
from typing import Any

_WIDTH = 100


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """The value's JSON; tables and lists that are longer than a line have one for each of their items.

    Args:
        ascii_only: other characters are written as `\\uXXXX`, for what is read in any locale.
    """
    return _written(value, "", 0, ascii_only)


def _written(value: Any, indent: str, before: int, ascii_only: bool) -> str:
    """`before`: characters that stand on the first line already."""
    line = json.dumps(value, ensure_ascii=ascii_only)
    if not isinstance(value, (dict, list, tuple)) or before + len(line) <= _WIDTH:
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        keys = (f"{json.dumps(str(key), ensure_ascii=ascii_only)}: " for key in value)
        items = [(key, item) for key, item in zip(keys, value.values(), strict=True)]
    else:
        items = [("", item) for item in value]
    texts = (inner + key + _written(item, inner, len(inner) + len(key) + 1, ascii_only) for key, item in items)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + "\n" + ",\n".join(texts) + f"\n{indent}{closing}"

"""JSON for people: what fits on a line stands on one."""

from __future__ import annotations

import json
from typing import Any

_WIDTH = 100


def json_text(value: Any, indent: str = "", before: int = 0) -> str:
    """The value's JSON; tables and lists that are longer than a line have one for each of their items.

    Args:
        indent: of the lines after the first. `before`: characters that stand on the first line already.
    """
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list, tuple)) or before + len(line) <= _WIDTH:
        return line
    inner = f"{indent}  "
    opening, items, closing = _items(value, inner)
    return opening + "\n" + ",\n".join(inner + item for item in items) + f"\n{indent}{closing}"


def _items(value: Any, indent: str) -> tuple[str, list[str], str]:
    if not isinstance(value, dict):
        return "[", [json_text(item, indent, len(indent) + 1) for item in value], "]"
    keys = {key: f"{json.dumps(str(key), ensure_ascii=False)}: " for key in value}
    items = [keys[key] + json_text(item, indent, len(indent) + len(keys[key]) + 1) for key, item in value.items()]
    return "{", items, "}"

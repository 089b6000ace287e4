"""Paging, filters and order of run:ai's lists.

Source: parameters Offset, Limit, SortOrder, WorkloadsFilter of NVIDIA's OpenAPI document. A list of filters is one
parameter, with commas between (`explode: false`); `next` is absent on the last page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from labs.web import HttpError

_FILTER = re.compile(r"(\w+)(==|!=|<=|>=|=@|!@|=\^|=\$)(.+)")
_TESTS: dict[str, Callable[[str, str], bool]] = {
    "==": lambda have, want: have == want,
    "!=": lambda have, want: have != want,
    "<=": lambda have, want: have <= want,
    ">=": lambda have, want: have >= want,
    "=@": lambda have, want: want in have,
    "!@": lambda have, want: want not in have,
    "=^": lambda have, want: have.startswith(want),
    "=$": lambda have, want: have.endswith(want),
}
_PAGE = ("offset", "limit")
_DEFAULT, _MOST = 50, 500


def listed(
    name: str,
    items: Iterable[Mapping[str, Any]],
    params: Mapping[str, str],
    *,
    fields: Iterable[str] = (),
    order: str = "asc",
    key: str = "createdAt",
    known: Iterable[str] = (),
) -> dict[str, Any]:
    """The page of `items` that `params` ask for, as `{name: [...], "next": ...}`.

    Args:
        fields: what may be filtered and sorted by.
        order: of `sortOrder` when it is not given; `key` of `sortBy`.
        known: further parameters that the caller has looked at.

    Raises:
        HttpError: 400 for a parameter that is not documented, or a wrong value.
    """
    fields = tuple(fields)
    extra = ("filterBy", "sortBy", "sortOrder", "search") if fields else ("sortOrder",)
    only(params, *_PAGE, *extra, *known)
    offset, limit = _number(params, "offset", 0, 0, None), _number(params, "limit", _DEFAULT, 1, _MOST)
    found = [item for item in items if _wanted(item, params, fields)]
    direction = _choice(params, "sortOrder", ("asc", "desc"), order)
    by = _choice(params, "sortBy", fields, key) if fields else key
    found.sort(key=lambda item: str(item.get(by) or ""), reverse=direction == "desc")
    page = found[offset : offset + limit]
    more = offset + limit < len(found)
    return {name: page, **({"next": offset + limit} if more else {})}


def only(params: Mapping[str, str], *known: str) -> None:
    """Raises: HttpError 400 for a query parameter that is not documented."""
    for name in params:
        if name not in known:
            raise HttpError(400, f"Bad request - unknown query parameter {name}")


def _wanted(item: Mapping[str, Any], params: Mapping[str, str], fields: tuple[str, ...]) -> bool:
    text = params.get("search", "")
    if text and text not in str(item.get("name")):
        return False
    return all(_passes(item, part, fields) for part in params.get("filterBy", "").split(",") if part)


def _passes(item: Mapping[str, Any], text: str, fields: tuple[str, ...]) -> bool:
    hit = _FILTER.fullmatch(text)
    if hit is None or hit[1] not in fields:
        raise HttpError(400, f"Bad request - filterBy: {text!r} is no filter; fields are {', '.join(fields)}")
    return _TESTS[hit[2]](str(item.get(hit[1]) or ""), hit[3])


def _number(params: Mapping[str, str], name: str, default: int, least: int, most: int | None) -> int:
    text = params.get(name)
    if text is None:
        return default
    if not text.isdigit() or int(text) < least or (most is not None and int(text) > most):
        raise HttpError(400, f"Bad request - {name} must be a number from {least} to {most or 'any'}")
    return int(text)


def _choice(params: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    text = params.get(name, default)
    if text != default and text not in choices:
        raise HttpError(400, f"Bad request - {name} must be one of {', '.join(choices)}")
    return text

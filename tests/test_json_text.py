"""JSON for people is JSON, and short."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from nemo_runspec.json_text import json_text


def some_value(some: random.Random, depth: int) -> Any:
    """A table, a list or a scalar, with odd texts."""
    kind = some.randrange(6) if depth else 0
    if kind < 3:
        return some.choice(["", "x" * some.randrange(120), 'a "b"\n', "ü\u2028", 0, -1.5, True, None, [], {}])
    if kind == 3:
        return [some_value(some, depth - 1) for _ in range(some.randrange(6))]
    return {f"k{number} ü": some_value(some, depth - 1) for number in range(some.randrange(6))}


@pytest.mark.parametrize("ascii_only", [False, True])
def test_it_reads_as_the_same_value(ascii_only):
    some = random.Random(4)
    for _ in range(500):
        value = some_value(some, 4)
        text = json_text(value, ascii_only=ascii_only)
        assert json.loads(text) == value
        assert list(json.loads(text)) == list(value) if isinstance(value, dict) else True
        assert text.isascii() or not ascii_only


def test_what_fits_on_a_line_stands_on_one():
    assert json_text({"a": [1, {"b": None}], "c": []}) == '{"a": [1, {"b": null}], "c": []}'
    long = "x" * 80
    assert json_text({"a": [1, 2], "b": {"c": long, "d": [long]}}).splitlines() == [
        "{",
        '  "a": [1, 2],',
        '  "b": {',
        f'    "c": "{long}",',
        f'    "d": ["{long}"]',
        "  }",
        "}",
    ]


def test_only_what_cannot_be_parted_is_longer_than_a_line():
    some, seen = random.Random(5), 0
    for _ in range(300):
        for line in json_text({"a": some_value(some, 4)}).splitlines():
            if len(line) > 100:
                alone = line.strip().removesuffix(",")
                [value] = json.loads(f"{{{alone}}}").values() if '": ' in alone else [json.loads(alone)]
                assert isinstance(value, str), line
                seen += 1
    assert seen

"""Lists of platforms' answers, as they are told in several ways."""

from __future__ import annotations

import pytest

from nemo_runspec.backends.cloud.api import list_of, rows_of


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ([{"a": 1}], [{"a": 1}]), ({"pods": [1], "others": [2]}, [1]), ({"items": [1]}, [1]), ({"entries": [1]}, [1]),
        ({"items": [1], "pods": None}, []), ({"whatever": [1], "total": 1}, [1]), ({"a": [1], "b": [2]}, []),
        ({"pods": {}}, []), ({}, []), (None, []), ("pods", []),
    ],
)  # fmt: skip
def test_where_a_list_stands(answer, found):
    """Below its own key, a usual one, or alone; two that may be meant are none."""
    assert list_of(answer, "pods") == found


def test_rows_are_tables():
    assert rows_of({"pods": [{"a": 1}, 2, None, "x"]}, "pods") == [{"a": 1}]

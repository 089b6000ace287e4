"""Every key's line, against documents whose lines are known because the test wrote them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_runspec.errors import UserError
from nemo_runspec.toml import key_lines, parse_toml, read_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# What may stand in a TOML string or comment and looks like structure or like the end of a line.
ODD = st.text(st.sampled_from("ab =[]{}#'\"\\.,$\u0085\u2028é"), max_size=8)
BARE = st.text(st.sampled_from("abcXYZ019_-"), min_size=1, max_size=4)
NAMES = st.one_of(BARE, BARE, st.text(st.sampled_from("ab. =[]#'\"\\é"), max_size=4))
SCALARS = st.one_of(
    st.integers(-99, 99).map(str),
    st.booleans().map(lambda value: str(value).lower()),
    ODD.map(lambda text: json.dumps(text, ensure_ascii=False).replace("\x7f", "")),
    ODD.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
    st.just("1979-05-27T07:32:00Z"),
)
LONG = st.lists(st.one_of(ODD, st.sampled_from(["[fake]", "key = 1", "# no"])), max_size=3).map(
    lambda rows: '"""' + "\n".join(row.replace("\\", "").replace('"', "") for row in rows) + '"""'
)
LITERAL = st.lists(st.sampled_from(["[fake]", "key = 1", "\\", '"']), max_size=3).map(
    lambda rows: "'''" + "\n".join(rows) + "'''"
)
QUOTED_AT_END = st.sampled_from(['"""a""""', '"""a"""""', "'''a''''", "'''a'''''", '"""\na""""', "'''\na''''"])
ELEMENTS = st.one_of(SCALARS, LONG, LITERAL, QUOTED_AT_END)
ARRAYS = st.lists(ELEMENTS, max_size=3).map(lambda items: "[ # ] }\n  " + ",\n  ".join(items) + "\n]")
INLINE = st.dictionaries(BARE, SCALARS, max_size=2).map(
    lambda table: "{ " + ", ".join(f"{key} = {value}" for key, value in table.items()) + " }"
)
VALUES = st.one_of(ELEMENTS, ARRAYS, INLINE)
NOISE = st.sampled_from(["", "# x = 1", "   # [x]", "\t"])


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[tuple[str, ...], int]]:
    """A TOML document and the line of every table header and key of it."""
    rows: list[str] = []
    lines: dict[tuple[str, ...], int] = {}

    def add(text: str) -> int:
        rows.append(text)
        return sum(row.count("\n") + 1 for row in rows[:-1]) + 1

    for table in [None, *draw(st.lists(NAMES, max_size=3, unique=True))]:
        if table is not None:
            header = f"[{spelt(draw, table)}]" + draw(st.sampled_from(["", " # [y]", "  "]))
            lines[(table,)] = add(header)
        for key in draw(st.lists(NAMES, max_size=4, unique=True)):
            path = (key,) if table is None else (table, key)
            if path in lines:
                continue
            below = draw(st.one_of(st.none(), st.none(), NAMES))
            written = spelt(draw, key) + (f" . {spelt(draw, below)}" if below is not None else "")
            line = add(f"{written} = {draw(VALUES)}" + draw(st.sampled_from(["", " # = [", "\t"])))
            lines[path] = line
            if below is not None:
                lines[(*path, below)] = line
        add(draw(NOISE))
    return "\n".join(rows) + draw(st.sampled_from(["", "\n"])), lines


def spelt(draw: st.DrawFn, name: str) -> str:
    """A key as TOML takes it: bare where it may be, quoted in one of the two ways else."""
    if name and all(c in "abcXYZ019_-" for c in name) and draw(st.booleans()):
        return name
    if "'" not in name and draw(st.booleans()):
        return f"'{name}'"
    return json.dumps(name, ensure_ascii=False)


def is_valid(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def paths_of(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every path a parsed document has outside lists."""
    found = []
    for key, value in table.items():
        found.append((*above, key))
        if isinstance(value, dict):
            found += paths_of(value, (*above, key))
    return found


@pytest.mark.slow
@given(documents())
@settings(max_examples=250)
def test_lines_of_keys(document):
    text, expected = document
    if not is_valid(text):
        return
    found = key_lines(text)
    assert {path: found.get(path) for path in expected} == expected
    parsed = paths_of(tomllib.loads(text))
    assert set(found) <= set(parsed)


@given(documents())
@settings(max_examples=100)
def test_lines_do_not_depend_on_line_ends(document):
    text, _ = document
    if is_valid(text):
        assert key_lines(text.replace("\n", "\r\n")) == key_lines(text)


def test_keys_of_an_array_of_tables_point_at_its_last_element():
    assert key_lines("[[a]]\nx = 1\n[[a]]\nx = 2\n")[("a", "x")] == 4


def test_a_header_may_have_spaces_quotes_and_a_comment():
    text = '[ a . "b.c" ] # note\nkey = 1\n'
    assert key_lines(text) == {("a", "b.c"): 1, ("a", "b.c", "key"): 2}


@pytest.mark.parametrize("end", ['""""', '"""""'])
def test_quotes_before_the_end_of_a_long_string_do_not_open_another(end):
    text = f'[a]\nx = ["""one{end}, 2]\ny = 3\n'
    assert tomllib.loads(text)["a"]["y"] == 3
    assert key_lines(text)[("a", "y")] == 3


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029"])
def test_only_line_feeds_end_a_line(character):
    text = f'[a]\nx = "one{character}two" # {character}\ny = 3\n'
    assert key_lines(text)[("a", "y")] == 3


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("[a]\nx = yes\n", 2, 'x = "yes"'),
        ("[a]\ntime = 4h\n", 2, 'time = "4h"'),
        ("[a]\nx = 1\nx = 2\n", 3, None),
        ("[a\n", 1, None),
        ('[a]\nx = "open\n', 2, None),
        ("[a]\nx = [1,\n", 2, None),
        ("\u2028 [a]\n", 1, None),
    ],
)
def test_a_syntax_error_names_its_line(text, line, hint):
    with pytest.raises(UserError) as caught:
        parse_toml(text, "env.toml")
    assert caught.value.where == f"env.toml:{line}"
    assert caught.value.what.startswith("not valid TOML: ")
    if hint:
        assert hint in caught.value.remedy


@given(st.text(max_size=60))
@settings(max_examples=300)
def test_any_text_is_parsed_or_refused_with_a_place(text):
    try:
        parse_toml(text, "env.toml")
    except UserError as error:
        assert error.where.startswith("env.toml")
    key_lines(text)


def test_deep_nesting_is_refused():
    with pytest.raises(UserError, match="not valid TOML"):
        parse_toml("x = " + "[" * 100_000, "env.toml")


def test_windows_files(tmp_path):
    path = tmp_path / "env.toml"
    path.write_bytes('\ufeff[a]\r\nx = "é"\r\n'.encode())
    document, text = read_toml(path, "env.toml")
    assert document == {"a": {"x": "é"}}
    assert key_lines(text)[("a", "x")] == 2


@pytest.mark.parametrize(("content", "word"), [(b"\xff\xfe", "not UTF-8"), (b"x = \x00", "not valid TOML")])
def test_a_file_that_is_no_text(tmp_path, content, word):
    path = tmp_path / "env.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=word):
        read_toml(path, "env.toml")


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        read_toml(tmp_path, "env.toml")

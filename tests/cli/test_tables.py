"""Tables fit the terminal and break no word that has room; where the output goes elsewhere a row is a line."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nemo_runspec.text import display_width
from nemotron.cli.tables import Styled, laid_out, text_of, wrapped

WORD = st.text(st.sampled_from("abcdef37/._=-é日本ü"), min_size=1, max_size=40)
TEXT = st.lists(WORD, max_size=12).map(" ".join)
ROWS = st.integers(1, 6).flatmap(
    lambda count: st.lists(st.lists(TEXT, min_size=count, max_size=count), min_size=1, max_size=6)
)
HANG = 4


def lines_of(rows, width, indent=2):
    return [["".join(map(text_of, line)).rstrip() for line in row] for row in laid_out(rows, width, indent)]


@given(ROWS, st.integers(20, 160))
@example([["a", "b" * 15, "c d"]], 20)
@example([["name of it", "x", "日" * 30, "end"]], 30)
@example([["", "", ". =========日日"]], 20)
@example([["name", "28 " + "=" * 12, "3 kB"]], 20)
def test_no_line_is_too_long_and_no_word_broken_that_has_room(rows, width):
    for row, lines in zip(rows, lines_of(rows, width), strict=True):
        assert all(display_width(line) <= width for line in lines), lines
        shown = " ".join(lines).split()
        for word in " ".join(row).split():
            if display_width(word) <= width - 2 - HANG:
                assert word in shown, (word, lines)
        assert "".join(sorted("".join(row).replace(" ", ""))) == "".join(sorted("".join(shown))), "nothing is lost"


@given(ROWS)
def test_elsewhere_a_row_is_one_line(rows):
    assert all(len(lines) == 1 for lines in lines_of(rows, None))


@given(ROWS)
def test_what_fits_is_aligned(rows):
    """Every cell of a column begins where the others do."""
    lines = [line for [line] in laid_out([[text or "x" for text in row] for row in rows], 100_000)]
    starts = {tuple(display_width("".join(map(text_of, line[:n]))) for n in range(1, len(line), 2)) for line in lines}
    assert len(starts) == 1


@given(TEXT, st.integers(1, 60))
def test_a_text_is_wrapped_between_words(text, room):
    lines = wrapped(text, room)
    assert " ".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(display_width(line) <= room or len(line) == 1 for line in lines)


def test_a_number_stays_with_its_unit():
    assert wrapped("made of 28.7 kB", 12) == ["made of", "28.7 kB"]
    assert wrapped("it has 28 files", 12) == ["it has 28", "files"]


def test_a_style_goes_on_in_the_next_line():
    [first, second] = laid_out([["a", Styled("one two", "red")]], 8)[0]
    assert (first[-1], second[-1]) == (Styled("one", "red"), Styled("two", "red"))


def test_a_word_that_is_too_long_for_its_column_stands_across():
    rows = [["key", "= short", "env.toml:3"], ["path", f"= {'x' * 30}", "env.toml:12"]]
    assert lines_of(rows, 44)[1] == ["  path  = " + "x" * 30, " " * 33 + "env.toml:12"]


SCREENS = [
    ("list",), ("env", "fields", "slurm"), ("env", "fields"), ("env", "fields", "timeout"), ("env", "list"),
    ("env", "show", "my-cluster"), ("doctor",),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("words", SCREENS, ids=" ".join)
def test_screens(project, nemotron_process, terminal, words, columns):
    """The words of a row on a terminal are those of the same row elsewhere, in order and whole."""
    seen, elsewhere = terminal(*words, columns=columns, rows=2000)[1], nemotron_process(*words).out
    assert max(map(len, seen.splitlines())) <= columns
    longest = columns - 2 - HANG
    whole = {word for word in elsewhere.split() if len(word) <= longest}
    if words[0] == "doctor":  # the room that is left, and such, is another each time
        whole = {word for word in whole if word.isalpha()}
    assert whole <= set(seen.split())
    if words[0] != "doctor":
        assert sorted("".join(seen.split())) == sorted("".join(elsewhere.split()))


def test_a_search_of_the_keys(project, nemotron):
    out = nemotron("env", "fields", "timeout").succeeds().out
    assert "queue_timeout" in out
    assert "Number of nodes" not in out
    only = nemotron("env", "fields", "slurm", "stall").succeeds().out
    assert ("stall_action" in only, "queue_timeout" in only) == (True, False)
    assert "packager_include_submodules" in nemotron("env", "fields", "include_submodules").succeeds().out, "an alias"
    found = nemotron("env", "fields", "slurm", "--json").succeeds().json
    assert {"name", "type", "default", "topic", "executors"} <= set(found[0])


def test_every_topic_of_ours_has_its_place(project, nemotron):
    """Other packages may have some of their own."""
    from nemo_runspec.topics import in_order

    found = [key["topic"] for key in nemotron("env", "fields", "--json").succeeds().json]
    assert list(dict.fromkeys(found)) == in_order(found)
    assert in_order([*found, "A guest's"])[-2:] == ["A guest's", "Other"]


def test_nothing_is_about_it(project, nemotron):
    nemotron("env", "fields", "slrum").refuses("no key of a profile is about 'slrum'", "did you mean 'slurm'?")
    nemotron("env", "fields", "docker", "partition").refuses("no key of executor 'docker'", "executors: ")


def test_a_profile_is_shown_with_its_executor_and_its_parents(project, nemotron):
    project.write("env.toml", '[base]\nexecutor = "docker"\n[mine]\nextends = "base"\n')
    assert nemotron("env", "show", "base").succeeds().out.startswith("base  (docker)\n")
    assert nemotron("env", "show", "mine").succeeds().out.startswith("mine  (docker, extends base)\n")

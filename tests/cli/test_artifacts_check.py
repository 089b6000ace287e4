"""`artifacts check`: exit codes, what it guesses, what it refuses."""

from __future__ import annotations

import pytest
from support import process


@pytest.fixture
def rows(project):
    project.write("data/good.jsonl", '{"text": "a"}\n')
    project.write("data/bad.jsonl", '{"text": "a"}\n[]\n')
    return project


def test_what_is_as_its_type_says(rows):
    done = process(rows, "artifacts", "check", "data/good.jsonl").succeeds()
    assert done.out == "data/good.jsonl is training_jsonl: nothing wrong\n"
    answer = process(rows, "artifacts", "check", "data/good.jsonl", "--type", "raw_jsonl", "--json").succeeds().json
    assert answer == {
        "path": "data/good.jsonl", "type": "raw_jsonl", "findings": [], "more": False, "notes": [], "unchecked": "",
    }  # fmt: skip


def test_what_is_wrong_is_named_and_is_exit_code_1(rows):
    done = process(rows, "artifacts", "check", "data")
    file = rows.folder / "data" / "bad.jsonl"
    assert (done.code, done.out.splitlines()) == (
        1,
        ["data is no whole training_jsonl: 1 finding", f"  {file}, line 2: is a list, not an object with keys"],
    )
    answer = process(rows, "artifacts", "check", "data", "--json")
    assert answer.code == 1
    assert answer.json["findings"] == [
        {"file": str(file), "place": "line 2", "what": "is a list, not an object with keys"}
    ]


def test_many_findings_are_cut_off(rows):
    rows.write("data/bad.jsonl", "[]\n" * 30)
    done = process(rows, "artifacts", "check", "data/bad.jsonl")
    assert (done.code, len(done.out.splitlines())) == (1, 21)
    assert done.out.startswith("data/bad.jsonl is no whole training_jsonl: more than 20 findings\n")


@pytest.mark.parametrize(
    ("words", "what", "remedy"),
    [
        (["data", "--type", "raw_jsnl"], "no type 'raw_jsnl'", "did you mean 'raw_jsonl'?"),
        (["gone", "--type", "raw_jsonl"], "there is nothing at gone", "name a file"),
        (["data", "--type", "model"], "nothing is known of how model must look", "--type another"),
        (["plain"], "what plain is cannot be told: it looks like none of the types", "--type TYPE"),
        (["mixed"], "what mixed is cannot be told: it may be training_jsonl or env_toml", "--type training_jsonl"),
    ],
)
def test_what_cannot_be_looked_at_is_exit_code_2(rows, words, what, remedy):
    rows.write("plain/x.dat", "x")
    rows.write("mixed/x.jsonl", "{}")
    rows.write("mixed/x.toml", "")
    done = process(rows, "artifacts", "check", *words)
    assert (done.code, done.out) == (2, "")
    assert what in done.err and remedy in done.err


@pytest.mark.parametrize(
    "line", ["artifacts check data --type pack", "steps plan --from pack", "steps graph --to pack"]
)
def test_the_shell_completes_types(rows, line):
    done = process(rows, _NEMOTRON_COMPLETE="complete_zsh", _NEMOTRON_LINE=f"nemotron {line}", cold=True)
    assert "packed_parquet" in done.out

"""Errors are told apart by their code and their key: what they say may be worded anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import REPOSITORY, Project, call, enter

from nemo_runspec.errors import Code, Problems, Unfilled, UserError, as_unfilled

SOURCE = REPOSITORY / "src"
ANSWERS = {
    "startswith",
    "endswith",
    "split",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
    "find",
    "index",
}
FUNCTIONS = {"match", "search", "fullmatch", "findall", "finditer", "split", "sub"}
ALLOWED = {
    "backends/cloud/storage/s3_wire.py": "OpenSSL's own words, where the error has lost its type on the way",
    "backends/docker/container.py": "the engine's own words, where it has no code for them",
}
"""Where the words of an error are looked at, and why."""


def test_an_error_gets_a_place_and_keeps_what_it_has():
    error = UserError("what", remedy="mend", code=Code.LOGIN, key="host")
    placed = error.at("env.toml:3")
    assert (placed.what, placed.where, placed.remedy, placed.code, placed.key) == (
        "what", "env.toml:3", "mend", Code.LOGIN, "host",
    )  # fmt: skip
    assert placed.at("elsewhere").where == "env.toml:3"


def test_a_line_is_text_with_a_key():
    line = Unfilled("time is still a placeholder", key="time", code=Code.PLACEHOLDER)
    assert line == "time is still a placeholder" and as_unfilled(line) is line
    assert (line.error("env.toml:2").key, line.error("env.toml:2").where) == ("time", "env.toml:2")
    assert (as_unfilled("other").key, as_unfilled("other").code) == ("", Code.NONE)


@pytest.fixture
def reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every message is another one."""
    made, line = UserError.__init__, Unfilled.__new__

    def other(self: UserError, what: str, **named: object) -> None:
        made(self, what if isinstance(self, Problems) else f"It is like this: {what[::-1]}", **named)  # type: ignore[arg-type]

    monkeypatch.setattr(UserError, "__init__", other)
    monkeypatch.setattr(Unfilled, "__new__", lambda cls, text, **named: line(cls, f"Thus: {text[::-1]}", **named))


PROFILE = """\
[a]
executor = "slurm"
account = "acme"
partition = "batch"
job_name_prefix = "a b"
stall_timeout = "soon"
mounts = ["nowhere"]

[c]
executor = "lepton"
container_image = "i"
resource_shape = "cpu.small"
nemo_run_dir = "/data/x"
ttl = "never"
queue_priority = "high"
"""
PLACES = {"a": {5, 6, 7}, "c": {14, 15}}
STILL_OPEN = '[b]\nexecutor = "slurm"\naccount = "acme"\npartition = "batch"\ntime = "CHANGE_ME"\n'


@pytest.mark.parametrize("profile", PLACES)
def test_a_reworded_message_has_its_place(
    profile: str, project: Project, monkeypatch: pytest.MonkeyPatch, reworded: None
):
    enter(project, monkeypatch)
    project.write("env.toml", PROFILE)
    project.write("train.py", "")
    done = call("run", "./train.py", "--run", profile, "--dry-run")
    assert done.code == 2
    assert {int(line.rpartition(":")[2].split()[0]) for line in done.err.splitlines() if " at: " in line} == PLACES[
        profile
    ]


def test_a_reworded_placeholder_is_named_once(project: Project, monkeypatch: pytest.MonkeyPatch, reworded: None):
    enter(project, monkeypatch)
    project.write("env.toml", STILL_OPEN)
    project.write("train.py", "")
    errors = call("env", "check", "--json").json["errors"]
    assert [error["place"].split()[0] for error in errors] == ["env.toml:5"]
    done = call("run", "./train.py", "--run", "b")
    assert (done.code, done.err.count("\n- ")) == (2, 1), done.err


def test_a_reworded_secret_has_its_own_mend(project: Project, monkeypatch: pytest.MonkeyPatch, reworded: None):
    enter(project, monkeypatch)
    project.write("env.toml", '[l]\nexecutor = "local"\nsecrets = ["MY_KEY"]\n')
    project.write("train.py", "")
    assert "export MY_KEY=" in call("run", "./train.py", "--run", "l").err


def test_nothing_is_decided_by_what_an_error_says():
    """Neither compared, searched nor taken apart: `.what` is for people."""
    found = {f"{file.relative_to(SOURCE)}:{line}".removeprefix("nemo_runspec/") for file, line in decisions()}
    assert {place for place in found if place.partition(":")[0] not in ALLOWED} == set()
    assert {place.partition(":")[0] for place in found} == set(ALLOWED), "it is allowed and no longer done"


def decisions() -> Iterator[tuple[Path, int]]:
    """Where the text of a `UserError` is looked into."""
    for file in SOURCE.rglob("*.py"):
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"error\S*\.what|str\([^)]*error\)", text) else ():
            if any(is_text(part) for part in looked_into(node)):
                yield file, node.lineno


def looked_into(node: ast.AST) -> list[ast.expr]:
    """What an expression compares, searches or takes apart."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method, of = node.func.attr, node.func.value
        by_pattern = node.args if method in FUNCTIONS else []
        return [*([of] if method in ANSWERS else []), *by_pattern]
    return []


def is_text(node: ast.expr) -> bool:
    """Whether it is what an error says: `….what` or `str(error)`, whatever is done to its case."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("casefold", "lower"):
        return is_text(node.func.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
        return len(node.args) == 1 and ast.unparse(node.args[0]).endswith("error")
    return isinstance(node, ast.Attribute) and node.attr == "what" and "error" in ast.unparse(node.value)

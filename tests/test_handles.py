"""A handle is its own backend's JSON: whatever knows no backend reads nothing of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support import REPOSITORY

SRC = REPOSITORY / "src"

CONTRACT = {
    ("nemo_runspec/backends/provider.py", "id"),
    ("nemo_runspec/records/record.py", "id"),
}
"""What every handle has, and where the one place is that reads it."""

EARLIER = "nemo_runspec/records/earlier.py"
"""Knows what handles of earlier releases held."""

SHARED = {"attempt", "nodes", "job_dir", "here", "doubt"}
"""What the handles of all clouds hold besides: `PodHandle` reads it."""

WRITTEN = {"id"}
"""What others may write: a job that was found by its name gets its id."""


def outside() -> list[Path]:
    """The files that belong to no backend."""
    folders = [path for path in (SRC / "nemo_runspec" / "backends").iterdir() if path.is_dir()]
    found = (path for path in sorted(SRC.rglob("*.py")) if not any(path.is_relative_to(each) for each in folders))
    return [path for path in found if path.relative_to(SRC).as_posix() != EARLIER]


def is_handle(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name == "handle"


def text_in(node: ast.AST | None) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def keys_of(table: ast.AST) -> list[str]:
    return [key for node in table.keys for key in text_in(node)] if isinstance(table, ast.Dict) else []


def keys_read(tree: ast.AST) -> Iterator[str]:
    """`handle["key"]`, `handle.get("key")`, `"key" in handle`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_handle(node.value):
            yield from text_in(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_handle(node.func.value):
            yield from (key for each in node.args[:1] for key in text_in(each))
        elif isinstance(node, ast.Compare) and is_handle(node.comparators[0]):
            yield from text_in(node.left)


def keys_written(tree: ast.AST) -> Iterator[str]:
    """`{**handle, "key": …}`, `handle={"key": …}`, `{"handle": {"key": …}}`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "handle":
            yield from keys_of(node.value)
        elif isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
            yield from (key for name, value in pairs if text_in(name) == ["handle"] for key in keys_of(value))
            if any(name is None and is_handle(value) for name, value in pairs):
                yield from keys_of(node)


def test_nobody_but_its_backend_reads_a_handle():
    texts = {path.relative_to(SRC).as_posix(): path.read_text(encoding="utf-8") for path in outside()}
    trees = {name: ast.parse(text) for name, text in texts.items() if "handle" in text}
    assert {(name, key) for name, tree in trees.items() for key in keys_read(tree)} == CONTRACT
    assert {(name, key) for name, tree in trees.items() for key in keys_written(tree) if key not in WRITTEN} == set()


def test_what_all_clouds_handles_hold_is_read_in_one_place():
    backends = SRC / "nemo_runspec" / "backends"
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for room in ("cloud", "lepton", "dgxcloud")
        for path in (backends / room).rglob("*.py")
    }
    assert {(path.name, key) for path, tree in trees.items() for key in keys_read(tree) if key in SHARED} == set()
    skeleton = [tree for path, tree in trees.items() if path.is_relative_to(backends / "cloud")]
    assert {key for tree in skeleton for key in keys_read(tree)} == set()


def test_reading_and_writing_one_is_seen():
    text = """
here = {**provider.make_handle(plan), "slurm": record.handle.get("slurm")}
if record.handle["array"] or "task" in handle: store.note(record, handle={"a": 1}, **{"handle": {"b": 2}})
other = {**record.handle, "c": 3}
"""
    assert sorted(keys_read(ast.parse(text))) == ["array", "slurm", "task"]
    assert sorted(keys_written(ast.parse(text))) == ["a", "b", "c"]

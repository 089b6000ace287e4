"""What a backend's room gets of a plan: its own target, or a mistake of ours that is named."""

from __future__ import annotations

import ast
from functools import cache

import pytest
from job_scripts import plan_for
from support import REPOSITORY

from nemo_runspec.backends.local.fields import LocalTarget
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.plans.target import target_of


def test_a_plan_has_the_target_of_its_backend(tmp_path):
    assert isinstance(target_of(plan_for(tmp_path), LocalTarget), LocalTarget)
    with pytest.raises(TypeError, match="SlurmTarget is needed, not of LocalTarget"):
        target_of(plan_for(tmp_path), SlurmTarget)


STRANGERS = {
    "nemotron/cli/main.py": "streams, and click's errors",
    "nemotron/cli/recipes/recipe.py": "click's parameters",
    "nemo_runspec/visible.py": "streams",
    "nemo_runspec/console.py": "streams",
    "nemo_runspec/spinner.py": "a thread's own",
    "nemo_runspec/envs.py": "an interpreter's own attribute",
    "nemo_runspec/config/yaml_lines.py": "PyYAML may be built without its C part",
    "nemo_runspec/submission/layout.py": "PyYAML may be built without its C part",
    "nemo_runspec/config/problems.py": "PyYAML's errors",
    "nemo_runspec/config/compose.py": "OmegaConf's errors",
    "nemo_runspec/transport/registry.py": "urllib's errors",
    "nemo_runspec/transport/web.py": "urllib3's errors",
    "nemo_runspec/transport/http_text.py": "urllib3's errors",
    "nemo_runspec/backends/docker/engine.py": "docker-py's errors",
    "nemo_runspec/backends/cloud/storage/s3_wire.py": "errors of the operating system",
    "nemo_runspec/jobside/forward.py": "a package that may be a folder alone",
    "nemo_runspec/typed_json.py": "types of any kind",
}
"""Where an object is asked whether it has an attribute: none of them is ours."""


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """All of our source."""
    src = REPOSITORY / "src"
    trees = ((str(file.relative_to(src)), ast.parse(file.read_text("utf-8"))) for file in src.rglob("*.py"))
    return [(file, node) for file, tree in trees for node in ast.walk(tree) if isinstance(node, KINDS)]


KINDS = (ast.Call, ast.arg, ast.AnnAssign)


def test_no_object_of_ours_is_asked_what_it_has():
    found = {
        file for file, node in nodes() if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and asks(node)
    }
    assert found == set(STRANGERS)


def asks(node: ast.Call) -> bool:
    """`hasattr`, and `getattr` of a name that is written out, or with something instead."""
    name = ast.unparse(node.func)
    written = len(node.args) == 3 or (len(node.args) == 2 and isinstance(node.args[1], ast.Constant))
    return name == "hasattr" or (name == "getattr" and written)


OURS = {"provider", "backend", "worker", "target", "plan", "record", "api", "handle"}
"""What rooms hand to each other: each has a type of its own."""

UNTYPED = {
    ("nemo_runspec/field.py", "target"): "any dataclass with keys: below the floor of the targets",
    ("nemo_runspec/backends/nemorun.py", "target"): "a class of NeMo-Run's, which is not imported for that",
    ("nemo_runspec/remote/wandb_client.py", "api"): "wandb's, in a Python of its own",
}


def test_what_rooms_hand_to_each_other_is_typed():
    found = {(file, name) for file, node in nodes() for name in untyped(node)}
    assert found == set(UNTYPED)


def untyped(node: ast.AST) -> list[str]:
    """The name of a parameter or field that is one of ours and may be anything."""
    if isinstance(node, ast.arg):
        name, annotation = node.arg, node.annotation
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        name, annotation = node.target.id, node.annotation
    else:
        return []
    return [name] if name in OURS and annotation is not None and ast.unparse(annotation) in ("Any", "'Any'") else []


def test_what_may_be_anything_is_seen():
    text = "def f(plan: Any, env: Any): ...\nclass C:\n    api: Any\n    provider: Provider\n"
    assert [name for node in ast.walk(ast.parse(text)) for name in untyped(node)] == ["api", "plan"]


ELSEWHERE = {
    "nemo_runspec/backends/cloud/storage/s3_wire.py": "ssl's errors",
    "nemo_runspec/backends/docker/container.py": "the engine's own words",
    "nemo_runspec/backends/slurm/cluster/__init__.py": "Slurm's own words",
    "nemo_runspec/backends/slurm/cluster/query.py": "Slurm's own words",
    "nemo_runspec/backends/slurm/preflight/shape.py": "Slurm's own words",
    "nemo_runspec/artifacts/checks/rows.py": "json's errors",
    "nemo_runspec/records/unregistered.py": "a record has the cause in words alone",
    "nemo_runspec/script/markers.py": "records of an earlier release say it in words alone",
    "nemotron/cli/usage.py": "click's errors",
}
"""Where something is looked for in what an error or a reason says: whose words these are."""

SAID = {"what", "remedy", "reason", "cause", "message"}
"""Attributes of ours that hold words for a person."""
LOOKS = {
    "startswith",
    "endswith",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
    "split",
    "replace",
    "find",
}
TRIES = {"match", "search", "fullmatch"}


def test_nothing_is_decided_by_words_of_our_own_messages():
    """They may be worded anew at any time: what is decided by has a code, a flag or a field beside them."""
    found = {
        str(file.relative_to(REPOSITORY / "src"))
        for file in (REPOSITORY / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if looks_into(node)
    }
    assert found == set(ELSEWHERE)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("error.what.startswith(done)", True), ("str(error).partition(x)", True), ("'gone' in job.reason", True),
        ("_HELD.match(row.reason)", True), ("str(value).partition('=')", False), ("error.key in known", False),
        ("error.what == other.what", False), ("line.startswith('x')", False),
    ],
)  # fmt: skip
def test_what_looks_into_words_is_seen(line: str, wrong: bool):
    assert any(map(looks_into, ast.walk(ast.parse(line)))) is wrong


def looks_into(node: ast.AST) -> bool:
    """Whether a text for a person is taken apart, or searched for a word."""
    if isinstance(node, ast.Compare):
        return any(isinstance(sign, (ast.In, ast.NotIn)) for sign in node.ops) and any(map(is_said, node.comparators))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return (node.func.attr in LOOKS and is_said(node.func.value)) or (
        node.func.attr in TRIES and any(map(is_said, node.args))
    )


def is_said(node: ast.AST) -> bool:
    """`error.what` and its like, and `str(error)`."""
    if isinstance(node, ast.Attribute):
        return node.attr in SAID
    names = [ast.unparse(part) for part in (node.func, *node.args)] if isinstance(node, ast.Call) else []
    return names == ["str", "error"]

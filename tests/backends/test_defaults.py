"""A key's default stands in one place: for the profile, for the plan, for a plan that was saved without it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from support import REPOSITORY

from nemo_runspec.backends import BUILTIN, get_backend
from nemo_runspec.backends.slurm.fields import STALLS
from nemo_runspec.duration import whole_seconds
from nemo_runspec.field import carried_keys, keys_of
from nemo_runspec.jobside import stall
from nemo_runspec.jobside.job import JobTask
from nemo_runspec.packaging.options import PackagePart
from nemo_runspec.plans.model import Launch, RayCluster, Resources
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.common import COMMON
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.sweeps.model import Options

NEEDED: dict[str, dict[str, Any]] = {"lepton": {"nemo_run_dir": "/mnt/jobs"}, "dgxcloud": {"pvc_nemo_run_dir": "/pvc"}}
"""What a profile says because a target of that executor cannot be made without it."""

DECIDED = {
    "docker": {"user"},
    "slurm": {"remote_job_dir"},
    "lepton": {"s3_region", "nemo_run_dir"},
    "dgxcloud": {"s3_region", "pvc_nemo_run_dir"},
}
"""Attributes that are decided where the key is not set, by this machine or its environment."""

ELSEWHERE = {"local": {"container_image"}}
"""Keys that no attribute of the target can be called after: there it says something else."""


@pytest.mark.parametrize("executor", BUILTIN)
def test_every_key_is_declared_by_the_target(make_target, executor):
    target = make_target(executor, NEEDED.get(executor, {}))
    declared = {field.name: field for field in keys_of(type(target))}
    known = {field.name: field for field in get_backend(executor).fields}
    assert {name: known[name] for name in declared} == declared
    assert known.keys() - declared.keys() == ELSEWHERE.get(executor, set())


def usual_values(target: type[Target]) -> dict[str, Any]:
    """What the attributes of a target are where nobody gives them a value."""
    plain = {key.name: key.default for key in fields(target) if key.default is not MISSING}
    made = {key.name: key.default_factory() for key in fields(target) if key.default_factory is not MISSING}
    return {**plain, **made}


@pytest.mark.parametrize("executor", BUILTIN)
def test_a_plan_has_the_defaults_of_the_keys(make_target, monkeypatch, executor):
    for name in ("CLOUD_REGION", "S3_ENDPOINT_URL", "S3_BUCKET_NAME"):
        monkeypatch.delenv(name, raising=False)
    target = make_target(executor, NEEDED.get(executor, {}))
    unset = usual_values(type(target))
    keys = {field.name: field for field in carried_keys(type(target))}
    assert keys, "keys are declared as attributes of the target"
    decided = DECIDED.get(executor, set())
    assert {name: getattr(target, name) for name in keys.keys() - decided} == {
        name: unset[name] for name in keys.keys() - decided
    }
    for name, field in keys.items():
        if field.default:
            assert unset[name] == (whole_seconds(field.default) if field.seconds else field.default), name
    assert make_target(executor, {**dict.fromkeys(keys), **NEEDED.get(executor, {})}) == target


def test_what_a_saved_plan_lacks_is_what_the_keys_have():
    """An earlier release wrote plans without some of them."""
    usual = {field.name: field.default for field in COMMON}
    assert Launch("direct", "train.py").world_size == usual["world_size"]
    assert RayCluster().start_timeout == whole_seconds(usual["ray_start_timeout"])
    assert Resources().nodes == usual["nodes"]
    assert PackagePart("", "git").dirty == usual["dirty"]
    assert Options().max_parallel == usual["max_parallel"]


def test_the_supervisor_means_the_same():
    """It travels alone, and cannot look."""
    words = ("root=/nowhere", "node=0", "nodes=1", "task=0", "tasks=1")
    assert JobTask('{"name": "a-job"}', words).world == Launch("direct", "train.py").world_size
    assert stall.TRIES == STALLS


def repeated(tree: ast.AST, usual: dict[str, list[Any]]) -> Iterator[ast.expr]:
    """`env.get(KEY) or DEFAULT` and `env.get(KEY, DEFAULT)` with a literal that the key's declaration has already."""
    for node in ast.walk(tree):
        asked, literal = None, None
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            asked, literal = node.values[0], node.values[-1]
        elif isinstance(node, ast.Call) and len(node.args) == 2:
            asked, literal = node, node.args[1]
        if isinstance(asked, ast.Call) and ast.unparse(asked.func).endswith("env.get") and asked.args:
            name = asked.args[0].value if isinstance(asked.args[0], ast.Constant) else None
            if isinstance(literal, ast.Constant) and literal.value in usual.get(name, ()):
                yield node


def test_nobody_writes_a_default_anew():
    usual: dict[str, list[Any]] = {}
    for field in (field for executor in BUILTIN for field in fields_of(executor).fields.values()):
        if field.default:
            usual.setdefault(field.name, []).append(field.default)
    written = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(Path(REPOSITORY / "src").rglob("*.py"))
        for node in repeated(ast.parse(path.read_text(encoding="utf-8")), usual)
    ]
    assert written == []
    assert {"network", "time", "nodes", "world_size"} <= usual.keys()


@pytest.mark.parametrize("text", ['env.get("network") or "nemo_run"', 'request.env.get("network", "nemo_run")'])
def test_a_default_that_is_written_anew_is_seen(text):
    assert [*repeated(ast.parse(text), {"network": ["nemo_run"]})]
    assert not [*repeated(ast.parse(text), {"network": ["other"]})]

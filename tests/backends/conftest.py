"""Plans made directly, without a recipe, a profile or an env file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.plans.model import Bundle, EnvVar, Launch, Package, Plan, PythonEnv, RecipeRef, Resources
from nemo_runspec.profiles.fieldset import fields_of

NAME = "nano3-pretrain-1120-k2m4p6r8"


def build_env(executor: str, env: dict[str, Any]) -> dict[str, Any]:
    """A merged profile: the defaults of every key, then `env` with any accepted spelling."""
    fields = fields_of(executor)
    merged = fields.defaults()
    merged.update({fields.spellings[key]: value for key, value in env.items()})
    return merged


def build_target(
    executor: str,
    env: dict[str, Any],
    launch: str = "torchrun",
    mode: str = "run",
    kind: str = "",
    given: Iterable[str] = (),
) -> Any:
    request = TargetRequest(NAME, mode, kind, launch, build_env(executor, env), frozenset(given))
    return get_backend(executor).make_target(request)


def build_plan(
    executor: str,
    env: dict[str, Any] | None = None,
    *,
    launch: str = "torchrun",
    mode: str = "run",
    kind: str = "",
    package: Package | None = None,
    variables: dict[str, str] | None = None,
) -> Plan:
    merged = build_env(executor, env or {})
    gpus = merged.get("gpus_per_node") or 0
    processes = merged.get("nproc_per_node") or gpus or 1
    backend = get_backend(executor)
    return Plan(
        name=NAME,
        recipe=RecipeRef("nano3/pretrain", "nano3/pretrain", "/recipes/nano3/pretrain/train.py", kind or None),
        config_name="tiny",
        executor=executor,
        mode=mode,
        profile="my-cluster",
        env_file="/project/env.toml",
        job_dir=backend.job_dir(merged, NAME),
        launch=Launch(launch, "recipes/nano3/pretrain/train.py"),
        python=PythonEnv(),
        resources=Resources(merged.get("nodes") or 1, gpus, processes, merged.get("time")),
        env=tuple(EnvVar(name, value, "test") for name, value in (variables or {}).items()),
        secrets=(),
        bundle=Bundle(),
        package=package or Package(),
        consumes=(),
        produces=(),
        run={"env": merged},
        config={"train": {"train_iters": 10}},
        sources={},
        target=build_target(executor, env or {}, launch, mode, kind),
    )


@pytest.fixture(scope="session")
def make_plan():
    return build_plan


@pytest.fixture(scope="session")
def make_target():
    return build_target


@pytest.fixture(autouse=True)
def own_state(monkeypatch, tmp_path_factory):
    """nemotron's state is not the user's own."""
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path_factory.getbasetemp() / "backends-home"))

"""Plans of a cloud's jobs made directly, without a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.plans.model import Bundle, Launch, Package, Plan, PythonEnv, RecipeRef, Resources


def plan_of(executor: str, env: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Plan:
    """A plan of a profile's merged values. `config`: what the script reads."""
    backend = get_backend(executor)
    gpus = int(env.get("gpus_per_node") or 0)
    return Plan(
        name="a-job", recipe=RecipeRef("test", "test", ""), config_name=None, executor=executor, mode="batch",
        profile=None, env_file=None, job_dir=backend.job_dir(env, "a-job"), launch=Launch("direct", "main.py"),
        python=PythonEnv(), resources=Resources(int(env.get("nodes") or 1), gpus, 1), env=(), secrets=(),
        bundle=Bundle(), package=Package(), consumes=(), produces=(), run={}, config=dict(config or {}), sources={},
        target=backend.make_target(TargetRequest("a-job", "batch", "", "direct", env)),
    )  # fmt: skip

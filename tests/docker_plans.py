"""Targets and plans for Docker, made directly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from job_scripts import plan_for
from lab_docker import BASE

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.plans.model import Plan
from nemo_runspec.profiles.fieldset import fields_of


def make_target(env: dict[str, Any], **facts: Any) -> Any:
    """The target that a profile with these keys gets."""
    merged = {**fields_of("docker").defaults(), "container_image": BASE, **env}
    return get_backend("docker").make_target(TargetRequest("job", "run", "", "direct", merged, **facts))


def make_plan(top: Path, script: str = "", *, name: str = "docker-job-1120-k2m4p6r8", **env: Any) -> Plan:
    """A plan for Docker with this script and profile, its job directory below `top`/state."""
    plan = plan_for(top, script, name=name, executor="docker")
    return replace(plan, job_dir=str(top / "state" / "jobs" / name), target=make_target(env), run={"env": env})

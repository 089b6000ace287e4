"""Squash files of container images, made by a Slurm job like any other: recorded, followed, cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nemo_runspec.backends.slurm.squash import (
    CARRIED,
    OVERRIDES,
    Squash,
    exists,
    readable,
    squash_of,
    squash_recipe,
    with_image,
    with_squash,
)
from nemo_runspec.errors import UserError
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.planned import Planned, PlanRequest
from nemo_runspec.planning.request import plan_request
from nemo_runspec.plans.model import Plan
from nemo_runspec.runner.client import Caller, ready_client
from nemo_runspec.runner.run import run_request

if TYPE_CHECKING:
    from pathlib import Path

_CARRIED = tuple(f"run.env.{key}=" for key in CARRIED)


@dataclass(frozen=True)
class SquashJob:
    """The job that makes one squash file."""

    request: PlanRequest
    planned: Planned
    squash: Squash

    @property
    def path(self) -> str:
        """The file, as a profile would name it."""
        return readable(self.squash.path)


def squash_job(
    profile: str,
    image: str,
    *,
    force: bool,
    overrides: Sequence[str] = (),
    env_file: str | Path | None = None,
) -> SquashJob | None:
    """The job for an image; None for an image that is a file on the cluster already. Nothing is asked of the cluster.

    Args:
        force: make the file again although it exists.

    Raises:
        UserError: no such profile, one of another executor than Slurm, or not a reference of an image.
    """
    request = plan_request(squash_recipe(), profile=profile, overrides=[*overrides, *OVERRIDES], env_file=env_file)
    if request.profile is not None and request.profile.executor != "slurm":
        raise UserError(
            f"squash files are for Slurm, and profile '{profile}' is of executor '{request.profile.executor}'",
            remedy='name a profile of executor = "slurm"',
        )
    planned = build_plan(request)
    squash = squash_of(image, planned.plan.run["env"])
    if squash is None:
        return None
    return SquashJob(request, replace(planned, plan=with_squash(planned.plan, squash, force=force)), squash)


def make_squash_file(job: SquashJob, caller: Caller, *, force: bool) -> int:
    """Runs the job, unless its file is there; the return value is the exit code."""
    ready_client(job.planned.plan)
    if not force and exists(job.planned.plan, job.squash.path):
        caller.console.say(f"{job.path}: there already; --force-squash makes it again")
        return 0
    return run_request(job.request, job.planned, caller)


def squashed(plan: Plan, caller: Caller, *, dry_run: bool = False) -> Plan:
    """The plan with the squash file of its image, which is made anew first: what `--force-squash` asks for.

    Args:
        dry_run: make nothing, say what would be made.

    Raises:
        UserError: the plan has no image; or the job that makes the file has failed, and then with its exit code.
    """
    image = plan.target.container_image
    if not image or plan.profile is None:
        raise UserError("--force-squash needs a container_image", remedy="run.env.container_image=nvcr.io/…")
    carried = [text for text in plan.overrides if text.lstrip("+").startswith(_CARRIED)]
    job = squash_job(plan.profile, image, force=True, overrides=carried, env_file=plan.env_file)
    if job is None:
        caller.console.say(f"container_image is a file already: {image}")
        return plan
    if dry_run:
        caller.console.say(f"first: nemotron kit slurm squash {plan.profile} {image} --force-squash")
        return with_image(plan, job.squash.path)
    caller.console.say(f"making the squash file of {image} first")
    code = make_squash_file(job, caller, force=True)
    if code != 0:
        failure = UserError(
            f"making the squash file of {image} has ended with exit code {code}; {plan.recipe.path} was not started",
            remedy="see what went wrong: nemotron jobs show last",
        )
        failure.exit_code = code  # something has run: this is that job's own end, not a mistake in the call
        raise failure
    return with_image(plan, job.squash.path)

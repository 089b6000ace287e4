"""Images of recipes, built and pushed by a job of this machine like any other: recorded, followed, cancelled."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from nemo_runspec.backends.docker.engine import engine
from nemo_runspec.backends.docker.image import ImageRequest, check_request, image_recipe
from nemo_runspec.backends.docker.push import refuse_wrong_login
from nemo_runspec.catalog import STEPS
from nemo_runspec.config.overrides import override_of
from nemo_runspec.images import ImageReference
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.planned import Planned, PlanRequest
from nemo_runspec.planning.request import plan_request
from nemo_runspec.plans.labels import LONGEST_NAME, Labels
from nemo_runspec.runner.client import Caller, ready_client
from nemo_runspec.runner.run import run_request


@dataclass(frozen=True)
class ImageJob:
    """The job that builds one image."""

    request: PlanRequest
    planned: Planned
    image: ImageReference
    push: bool


def image_job(request: ImageRequest, *, tag_given: bool = True) -> ImageJob:
    """The job for an image. No engine is asked.

    Args:
        tag_given: whether a person has chosen the image's name.

    Raises:
        UserError: what is asked for cannot be: see `check_request`.
    """
    image = check_request(request, tag_given=tag_given)
    planned_as = plan_request(image_recipe(), overrides=_overrides(request), labels=Labels(_name_of(request.recipe)))
    return ImageJob(planned_as, build_plan(planned_as), image, request.push)


def make_image_by_job(job: ImageJob, caller: Caller) -> int:
    """Runs the job; the return value is its exit code.

    Raises:
        UserError: no engine, or a registry that refuses Docker's login for it; nothing has happened then.
    """
    ready_client(job.planned.plan)
    with engine() as client:
        if job.push:
            refuse_wrong_login(client, job.image)
    return run_request(job.request, job.planned, caller)


def _overrides(request: ImageRequest) -> list[str]:
    """The job's configuration, as overrides of `image_job/config/default.yaml`."""
    values = {**asdict(request), "build_args": list(request.build_args)}
    return [override_of(key, value) for key, value in values.items() if value not in (None, [], False)]


def _name_of(recipe: str) -> str:
    """`image-omni3-rl`, as long as the beginning of a job's name may be."""
    words = recipe.replace("/build/", "/").removeprefix(f"{STEPS}/").lower()
    return re.sub(r"[^a-z0-9]+", "-", f"image-{words}")[:LONGEST_NAME].strip("-")

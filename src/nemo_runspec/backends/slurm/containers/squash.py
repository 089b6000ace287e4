"""Squash files of images in a registry: where one lies, and the internal recipe whose job makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends.slurm.containers.build import IMAGES, cache_dir
from nemo_runspec.backends.slurm.containers.names import ImageReference, LocalImage, is_file, parse_image
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.paths import HOME
from nemo_runspec.catalog import Recipe
from nemo_runspec.plans.target import target_of
from nemo_runspec.source import Layer, Source

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Plan

OVERRIDES = ("run.env.mounts=[]", "run.env.packager=none")
"""The job runs on the node itself, where enroot is, and needs nothing of the user's code."""


@dataclass(frozen=True, slots=True)
class Squash:
    """One squash file. `path`: on the cluster; may begin with `HOME`."""

    image: ImageReference | LocalImage
    path: str

    def arguments(self, force: bool) -> tuple[str, ...]:
        """The words of the job's script. `force`: make it again although it exists."""
        return (self.image.uri, self.path, *(("--force",) if force else ()))


def squash_of(image: str, env: Mapping[str, Any]) -> Squash | None:
    """The squash file of an image; None for an image that is a file already.

    Args:
        env: a plan's `run.env`, for where the cache lies.

    Raises:
        UserError: not a reference of an image.
    """
    if is_file(image):
        return None
    reference = parse_image(image)
    return Squash(reference, f"{cache_dir(env)}/{IMAGES}/{reference.file_name}")


def squash_recipe() -> Recipe:
    """The recipe of the job. It stands in no catalog."""
    folder = Path(__file__).parent
    return Recipe(path="squash", script=folder / "squash" / "squash.sh", root=folder)


def exists(plan: Plan, path: str) -> bool:
    """Whether a file is on the plan's cluster. One round trip.

    Args:
        path: may begin with `HOME`.

    Raises:
        UserError: the cluster refuses us. Unreachable: it did not answer.
    """
    from nemo_runspec.backends.slurm.client import SlurmProvider, host_of
    from nemo_runspec.transport.files import have

    return bool(have(host_of(SlurmProvider().make_handle(plan)), [readable(path)]))


def readable(path: str) -> str:
    """A path of the cluster as a profile would name it: `~` for a home that is not known here."""
    return path.replace(HOME, "~", 1)


def with_image(plan: Plan, path: str) -> Plan:
    """The same plan with another image."""
    target = target_of(plan, SlurmTarget)
    run = {**plan.run, "env": {**plan.run["env"], "container_image": path}}
    source = Source(Layer.AUTO, text=f"squash file of {target.container_image}")
    return replace(
        plan,
        run=run,
        target=replace(target, container_image=path),
        sources={**plan.sources, "run.env.container_image": source},
    )


def with_squash(plan: Plan, squash: Squash, *, force: bool) -> Plan:
    """The plan of `squash_recipe` for one image."""
    return replace(plan, launch=replace(plan.launch, args=squash.arguments(force)))

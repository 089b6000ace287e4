"""Squash files of images in a registry: where one lies, and the internal recipe whose job makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_runspec.backends.slurm.containers.build import IMAGES, cache_dir
from nemo_runspec.backends.slurm.containers.names import ImageReference, is_file, parse_image
from nemo_runspec.catalog import Recipe

OVERRIDES = (
    "run.env.container_image=null",
    "run.env.mounts=[]",
    "run.env.packager=none",
    "run.env.nodes=1",
    "run.env.gpus_per_node=0",
    "run.env.nproc_per_node=1",
)
"""A job on the node itself, where enroot is."""


@dataclass(frozen=True, slots=True)
class Squash:
    """One squash file. `path`: on the cluster; may begin with the hole `HOME`."""

    image: ImageReference
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

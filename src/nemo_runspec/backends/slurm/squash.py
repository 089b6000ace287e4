"""Squash files of images: which image one is made of, where it lies, and the internal recipe whose job makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends.slurm.build import IMAGES, REGISTRY, cache_dir
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.values import HOME
from nemo_runspec.catalog import Recipe
from nemo_runspec.digests import digest_of_text
from nemo_runspec.errors import UserError
from nemo_runspec.images import HUB, is_image_file, parse_reference
from nemo_runspec.plans.target import target_of
from nemo_runspec.source import Layer, Source

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Plan

OVERRIDES = ("run.env.mounts=[]", "run.env.packager=none")
"""The job runs on the node itself, where enroot is, and needs nothing of the user's code."""

CARRIED = (
    "account", "partition", "run_partition", "qos", "build_partition", "build_time", "build_cache_dir",
    "remote_job_dir", "tunnel", "host", "user", "port", "identity",
)  # fmt: skip
"""Keys of a call that also say where its squash file is made."""

_REPOSITORY = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|sha256:[0-9a-f]{64}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_PATH = re.compile(r"/[A-Za-z0-9_@+=./-]+")
_PODMAN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?")
_ARCHIVE_REMEDY = "such as oci-archive:///lustre/me/cache/containers/mine.oci.tar, which save=oci leaves"
_REMEDY = "write it as nvcr.io/nvidia/nemo:25.09, docker://nvcr.io#nvidia/nemo:25.09 or NAME@sha256:…"
_READABLE = 120
"""Characters of an image's name that its file's name keeps; the digits behind them tell images apart."""


@dataclass(frozen=True, slots=True)
class SquashSource:
    """An image that a squash file can be made of: one of a registry, an archive on the cluster, or one of podman's.

    Args:
        name: of an image of a registry the one that all spellings have; of another, its `uri`.
        uri: what the job's script takes; `enroot import` itself knows `docker` and `podman`.
        label: what its file's name begins with.
    """

    name: str
    uri: str
    label: str

    def __str__(self) -> str:
        return self.name

    @property
    def file_name(self) -> str:
        """`nvcr.io-nvidia-nemo-25.09-<10 digits>.sqsh`: the digits are of the whole name, so that none collide."""
        label = re.sub("[^A-Za-z0-9._]+", "-", self.label)[:_READABLE]
        return f"{label}-{digest_of_text(self.name)[:10]}.sqsh"


@dataclass(frozen=True, slots=True)
class Squash:
    """One squash file. `path`: on the cluster; may begin with `HOME`."""

    image: SquashSource
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
    if is_image_file(image):
        return None
    source = parse_image(image)
    return Squash(source, f"{cache_dir(env)}/{IMAGES}/{source.file_name}")


def parse_image(text: str) -> SquashSource:
    """The image that a text names, in any spelling.

    Raises:
        UserError: it names none, or one that a job cannot have (`dockerd://`).
    """
    found = _SCHEME.match(text.strip())
    scheme, name = (found[1].lower(), found[2]) if found else ("docker", text.strip())
    if scheme == "docker":
        return _of_registry(text, name)
    uri = f"{scheme}://{name}"
    if scheme == "podman":
        if not _PODMAN.fullmatch(name):
            raise UserError(f"{text!r} is no name of an image of podman's", remedy="such as podman://localhost/me:1")
    elif scheme not in ("docker-archive", "oci-archive"):
        raise UserError(f"{text!r}: only images of a registry can be fetched", remedy=_REMEDY)
    elif not _PATH.fullmatch(name):
        raise UserError(f"{text!r}: an archive is named by its path on the cluster", remedy=_ARCHIVE_REMEDY)
    return SquashSource(uri, uri, name.rpartition("/")[2].removesuffix(".tar"))


def _of_registry(text: str, name: str) -> SquashSource:
    """Without a registry, `enroot import` asks Docker Hub."""
    image = parse_reference(name)
    if image is not None and image.user:
        remedy = "leave it out: enroot takes it of its credentials"
        raise UserError(f"{text!r} names a user; nemotron hands none on", remedy=remedy)
    parts = (image.registry, image.repository, image.version) if image else ("", "", "")
    known = (REGISTRY, _REPOSITORY, _VERSION)
    if image is None or not all(pattern.fullmatch(part) for pattern, part in zip(known, parts, strict=True)):
        raise UserError(f"{text!r} is no reference of a container image", remedy=_REMEDY)
    registry = "" if image.registry == HUB else f"{image.registry}#"
    uri = f"docker://{registry}{image.repository}:{image.version}"
    return SquashSource(str(image), uri, str(image).replace("sha256:", ""))


def squash_recipe() -> Recipe:
    """The recipe of the job. It stands in no catalog."""
    folder = Path(__file__).parent / "containers"
    return Recipe(path="squash", script=folder / "squash" / "squash.sh", root=folder)


def exists(plan: Plan, path: str) -> bool:
    """True if a file is on the plan's cluster. One round trip.

    Args:
        path: may begin with `HOME`.

    Raises:
        UserError: the cluster refuses us. Unreachable: it did not answer.
    """
    from nemo_runspec.backends.slurm.client import SlurmProvider, host_in
    from nemo_runspec.transport.files import have

    return bool(have(host_in(SlurmProvider().make_handle(plan)), [readable(path)]))


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

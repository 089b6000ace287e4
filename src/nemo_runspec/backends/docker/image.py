"""The image of a recipe, built and pushed by a job of this machine: what is asked for, and what the job does."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nemo_runspec import paths
from nemo_runspec.backends.docker.build import BuildFailure, BuildRequest, BuiltImage, build_image
from nemo_runspec.backends.docker.engine import engine
from nemo_runspec.backends.docker.push import PushFailure, push_image
from nemo_runspec.catalog import Recipe
from nemo_runspec.errors import UserError
from nemo_runspec.images import HUB, ImageReference, names_registry, parse_reference
from nemo_runspec.script.image_made import FILE
from nemo_runspec.secret_names import is_secret_name

DOCKERFILE = "Dockerfile"

_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_REGISTRY = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_PLATFORM = re.compile(r"[a-z0-9_]+/[a-z0-9_]+(/[a-z0-9_.]+)?")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ImageRequest:
    """An image to be built.

    Args:
        recipe: the path of the recipe whose Dockerfile is built.
        folder: where that is, and the build's context.
        image: the name, with a tag.
        build_args: `NAME=value`; a name alone stands for the variable of the environment.
    """

    recipe: str
    folder: str
    image: str
    platform: str | None = None
    build_args: tuple[str, ...] = ()
    no_cache: bool = False
    pull: bool = False
    push: bool = False


def image_recipe() -> Recipe:
    """The recipe of the job. It stands in no catalog."""
    folder = Path(__file__).parent
    return Recipe(path="docker/build", script=folder / "image_job" / "make.py", root=folder)


def read_request(config: Path) -> ImageRequest:
    """What a job's configuration asks for."""
    import yaml

    values = yaml.safe_load(config.read_text(encoding="utf-8"))
    return ImageRequest(**{**values, "build_args": tuple(values["build_args"])})


def check_request(request: ImageRequest, *, tag_given: bool) -> ImageReference:
    """The image that it names.

    Args:
        tag_given: whether a person has chosen the name.

    Raises:
        UserError: no name of an image, none of a registry where it is to be pushed, no platform, no ARG.
    """
    image = _named(request.image)
    if request.push and not names_registry(request.image):
        example = f"--tag REGISTRY/{request.image}"
        what = f"--push needs the name of a registry: {request.image} names none"
        what = what if tag_given else "--push needs --tag with the name of a registry, and none is given"
        remedy = f"{example}, such as nvcr.io/ORG/NAME:TAG; Docker Hub is {HUB}/USER/NAME:TAG"
        raise UserError(f"{what}; nothing was built", remedy=remedy)
    if request.platform is not None and not _PLATFORM.fullmatch(request.platform):
        raise UserError(f"--platform {request.platform}: not OS/ARCHITECTURE", remedy="such as linux/amd64")
    for text in request.build_args:
        _check_argument(text)
    return image


def make_image(request: ImageRequest) -> int:
    """Builds the image and pushes it where that is wanted; the exit code.

    What was made is written into the job's records as soon as it is there: the image once it is built, its digest once
    the registry has it.

    Raises:
        UserError: no engine, or it went away.
    """
    image, record = _named(request.image), _Record(request)
    with engine() as client:
        built = build_image(client, _build_request(request), _write)
        if isinstance(built, BuildFailure):
            return _failed(f"{request.image}: the build failed: {built}")
        record.write(built)
        print(f"{request.image}: built from {request.folder}/{DOCKERFILE} ({built.id})", flush=True)
        if not request.push:
            return 0
        print(f"{request.image}: pushing it to {image.registry}", flush=True)
        digest = push_image(client, image, request.image, _write)
    if isinstance(digest, PushFailure):
        return _failed(f"the push failed: {digest}")
    pinned = f"{request.image.rpartition(':')[0]}@{digest}"
    record.write(built, pinned)
    print(f"{request.image}: pushed as {pinned}")
    print(f'use it: container_image = "{pinned}"')
    return 0


class _Record:
    """What a job has made, in its records."""

    def __init__(self, request: ImageRequest) -> None:
        self._request = request
        self._file = Path(os.environ["NEMOTRON_JOB_DIR"]) / "status" / FILE

    def write(self, built: BuiltImage, pinned: str = "") -> None:
        """Written as a whole or not at all. `pinned`: the image by its digest, once it is in its registry."""
        asked = self._request
        known: Mapping[str, Any] = {
            "name": asked.image,
            "id": built.id,
            "digest": pinned,
            "recipe": asked.recipe,
            "platform": asked.platform or "",
            "bases": [asdict(base) for base in built.bases],
        }
        paths.write_private(self._file, json.dumps(known, indent=1) + "\n")


def _build_request(request: ImageRequest) -> BuildRequest:
    return BuildRequest(
        Path(request.folder),
        request.image,
        dict(map(_argument, request.build_args)),
        platform=request.platform,
        no_cache=request.no_cache,
        pull=request.pull,
    )


def _argument(text: str) -> tuple[str, str]:
    """The name and value of an ARG. Raises `UserError` for a variable that the job does not have."""
    name, equals, value = text.partition("=")
    if not equals and name not in os.environ:
        raise UserError(f"--build-arg {name}: the job has no such variable", remedy=f"export {name}=…, and try again")
    return name, value if equals else os.environ[name]


def _check_argument(text: str) -> None:
    name, equals, value = text.partition("=")
    if not _ARGUMENT.fullmatch(name) or (not equals and name not in os.environ):
        raise UserError(f"--build-arg {text}: not KEY=VALUE, and no variable of the environment")
    if value and is_secret_name(name):
        what = f"the value of --build-arg {name} is a secret's, and would be written down with the job"
        raise UserError(what, remedy=f"export {name}=…, and --build-arg {name}: the image's history still shows it")


def _named(text: str) -> ImageReference:
    image = parse_reference(text)
    parts = (image.registry, image.repository, image.version) if image and not image.user else ("", "", "")
    known = (_REGISTRY, _NAME, _TAG)
    if image is None or not all(pattern.fullmatch(part) for pattern, part in zip(known, parts, strict=True)):
        raise UserError(
            f"--tag {text}: no name that an image can be given",
            remedy="such as nvcr.io/ORG/NAME:TAG, its path in small letters",
        )
    return image


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _failed(line: str) -> int:
    print(f"error: {line}", file=sys.stderr)
    return 1

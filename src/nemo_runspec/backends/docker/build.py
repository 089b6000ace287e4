"""Builds an image from a folder with a Dockerfile, and gives the engine's lines on as they come."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_runspec.backends.docker.engine import refusals
from nemo_runspec.backends.docker.images import Layers
from nemo_runspec.lines import text_lines

WriteText = Callable[[str], None]

_BUILDKIT = ("--mount", "BuildKit", "buildkit", "<<")
_FROM = re.compile(r"Step \d+/\d+ : FROM (?:--\S+ )*(?P<image>\S+)(?:\s+AS\s+(?P<stage>\S+))?", re.IGNORECASE)
_STANDS_FOR = re.compile(r"---> (?P<id>[0-9a-f]{12,64})")
_OF_THE_ENGINE = ("Step ", "--->", "Removing intermediate", "Successfully ")
"""How the engine's own lines begin; all others are a step's."""
_ENDED = re.compile(r"The command '.*' returned a non-zero code: (?P<code>\d+)", re.DOTALL)
_LONGEST_STEP = 80
"""Characters of a step in the words for its failure; the log has all of it."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class BuildRequest:
    """What to build.

    Args:
        folder: the context; its `Dockerfile` is built, its `.dockerignore` respected.
        tag: the image's name.
        arguments: values of the Dockerfile's `ARG`s.
        platform: such as `linux/amd64`; None for the engine's own.
        no_cache: build every step again.
        pull: look for a newer base image.
    """

    folder: Path
    tag: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    platform: str | None = None
    no_cache: bool = False
    pull: bool = False


@dataclass(frozen=True, slots=True)
class BaseImage:
    """An image that another one was built from.

    Args:
        named: as the Dockerfile's `FROM` has it.
        id: the engine's own.
        digests: what registries know it by, `NAME@sha256:…`; none of one that was made here.
    """

    named: str
    id: str
    digests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image that was built. `id`: the engine's own; `bases`: what it was built from, in the Dockerfile's order."""

    id: str
    bases: tuple[BaseImage, ...] = ()


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Why a build failed.

    Args:
        step: the Dockerfile's line that did, empty where none was reached.
        said: the last line that this step has written, empty where it was silent.
    """

    step: str
    words: str
    said: str = ""

    def __str__(self) -> str:
        hint = "; BuildKit is needed: docker buildx build" if any(sign in self.words for sign in _BUILDKIT) else ""
        ended = _ENDED.fullmatch(self.words)
        words = f"exit code {ended['code']}" if ended else self.words
        step = self.step if len(self.step) <= _LONGEST_STEP else f"{self.step[:_LONGEST_STEP]}…"
        return ": ".join(filter(None, (step, words, self.said))) + hint


def build_image(client: Any, request: BuildRequest, write: WriteText) -> BuiltImage | BuildFailure:
    """Builds it with the engine's own builder.

    Args:
        client: docker-py's `APIClient`.
        write: takes the build's text as it comes, in pieces that end where the engine's do, without colours.

    Raises:
        UserError: the engine went away, or does not take the Dockerfile.
    """
    found = FromLines()
    with refusals(f"build {request.tag}"):
        # A step may be silent for as long as it takes.
        events = client.build(
            path=str(request.folder),
            tag=request.tag,
            buildargs=dict(request.arguments),
            platform=request.platform,
            nocache=request.no_cache,
            pull=request.pull,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=None,
        )
        failure = follow(events, write, found)
        if failure is not None:
            return failure
        made = str(client.inspect_image(request.tag)["Id"])
        return BuiltImage(made, tuple(_base(client, named, image) for named, image in found.bases))


class FromLines:
    """What the `FROM` lines of a build have led to, read from the engine's own lines."""

    def __init__(self) -> None:
        self.bases: list[tuple[str, str]] = []
        self._stages: set[str] = set()
        self._named = ""

    def take(self, text: str) -> None:
        """A piece of the build's text. Stages of the same Dockerfile are no bases; nor is `scratch`, which is none."""
        begins = _FROM.match(text)
        if begins:
            known = begins["image"].lower() in self._stages
            self._named = "" if known else begins["image"]
            self._stages |= {begins["stage"].lower()} if begins["stage"] else set()
        elif text.startswith("Step "):
            self._named = ""
        elif self._named and (there := _STANDS_FOR.search(text)):
            self.bases.append((self._named, there["id"]))
            self._named = ""


def follow(
    events: Iterable[Mapping[str, Any]], write: WriteText, found: FromLines | None = None
) -> BuildFailure | None:
    """Gives the text of a build on; of the pull of its base image only what is new about its layers."""
    step, said, layers, shown = "", "", Layers(), ""
    for event in events:
        if "error" in event:
            return BuildFailure(step, str(event["error"]).strip(), said)
        if "stream" in event:
            text = _COLOUR.sub("", str(event["stream"]))
            step, said = (text.strip(), "") if text.startswith("Step ") else (step, _last_said(text) or said)
            if found is not None:
                found.take(text)
            write(text)
        elif "status" in event:
            layers.take(event)
            text = f"{layers.text().partition(',')[0]}\n" if event.get("id") and layers.done else f"{event['status']}\n"
            if text != shown:
                write(text)
            shown = text
    return None


def _last_said(text: str) -> str:
    """The last line of what a step has written; '' for the engine's own words."""
    lines = [line.strip() for line in text_lines(text) if line.strip()]
    return lines[-1] if lines and not lines[-1].startswith(_OF_THE_ENGINE) else ""


def _base(client: Any, named: str, image: str) -> BaseImage:
    known = client.inspect_image(image)
    return BaseImage(named, str(known["Id"]), tuple(known.get("RepoDigests") or ()))

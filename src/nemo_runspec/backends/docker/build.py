"""Builds an image from a folder with a Dockerfile, and gives the engine's lines on as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_runspec.backends.docker.engine import engine, refusals
from nemo_runspec.backends.docker.images import Layers

_BUILDKIT = ("--mount", "BuildKit", "buildkit", "<<")


@dataclass(frozen=True)
class BuildRequest:
    """What to build.

    Args:
        folder: the context; its `Dockerfile` is built, its `.dockerignore` respected.
        tag: the image's name. `arguments`: values of the Dockerfile's `ARG`s.
        no_cache: build every step again. `pull`: look for a newer base image.
    """

    folder: Path
    tag: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    no_cache: bool = False
    pull: bool = False


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Why a build failed. `step`: the Dockerfile's line that did, empty where none was reached."""

    step: str
    words: str

    def __str__(self) -> str:
        hint = "; BuildKit is needed: docker buildx build" if any(sign in self.words for sign in _BUILDKIT) else ""
        return f"{self.step}: {self.words}{hint}" if self.step else f"{self.words}{hint}"


def build_image(request: BuildRequest, write: Callable[[str], None]) -> BuildFailure | None:
    """Builds it with the engine's own builder.

    Args:
        write: takes the build's text as it comes, in pieces that end where the engine's do.

    Returns: why it failed, None where it did not.

    Raises:
        UserError: no engine, or it went away.
    """
    with engine() as client, refusals(f"build {request.tag}"):
        # A step may be silent for as long as it takes.
        events = client.build(
            path=str(request.folder),
            tag=request.tag,
            buildargs=dict(request.arguments),
            nocache=request.no_cache,
            pull=request.pull,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=None,
        )
        return follow(events, write)


def follow(events: Iterable[Mapping[str, Any]], write: Callable[[str], None]) -> BuildFailure | None:
    """Gives the text of a build on; of the pull of its base image only what is new about its layers."""
    step, layers, shown = "", Layers(), ""
    for event in events:
        if "error" in event:
            return BuildFailure(step, str(event["error"]).strip())
        if "stream" in event:
            text = str(event["stream"])
            step = text.strip() if text.startswith("Step ") else step
            write(text)
        elif "status" in event:
            layers.take(event)
            text = f"{layers.text().partition(',')[0]}\n" if event.get("id") and layers.done else f"{event['status']}\n"
            if text != shown:
                write(text)
            shown = text
    return None

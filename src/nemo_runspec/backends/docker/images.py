"""The image of a job: the local one where there is one, else pulled, with its progress in lines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.backends.docker.engine import refusals, words_of
from nemo_runspec.console import Say
from nemo_runspec.diagnosis.phrases import ABSENT, BUSY, REFUSED, first_in
from nemo_runspec.errors import UserError
from nemo_runspec.images import HUB, names_registry
from nemo_runspec.spinner import Spinner

_SECONDS_BETWEEN_LINES = 2.0

_REMEDIES: Mapping[str, str] = {
    REFUSED: "docker login {registry}; or correct container_image",
    r"no matching manifest": 'another image, or additional_kwargs = {{ platform = "linux/amd64" }}',
    ABSENT: "correct container_image; docker images lists what is here",
    BUSY: "docker login {registry}, or wait",
}
_NO_NETWORK = "is {registry} reachable from here? docker images lists the images that need no pull"


def ensure_image(client: Any, image: str, say: Say, platform: str | None = None) -> None:
    """Sees to it that the engine has the image. What it has is used as it is.

    Args:
        client: docker-py's `APIClient`.
        say: takes lines of progress.

    Raises:
        UserError: it is not here and cannot be pulled, in the engine's own words.
    """
    if has_image(client, image):
        return
    from docker.errors import APIError
    from docker.utils import parse_repository_tag
    from urllib3.exceptions import HTTPError  # type: ignore[import-untyped,unused-ignore]

    repository, tag = parse_repository_tag(image)
    say(f"pulling {image}")
    try:
        events = client.pull(repository, tag=tag or "latest", stream=True, decode=True, platform=platform)
        with Spinner(f"pulling {image}"):
            for text in progress(image, events):
                say(text)
    except APIError as error:
        raise pull_error(image, words_of(error)) from None
    except (OSError, HTTPError) as error:
        raise UserError(f"the Docker engine went away while it pulled {image}: {error}") from None


def has_image(client: Any, image: str) -> bool:
    """True where the engine has the image already. Raises `UserError` for a name that it does not understand."""
    from docker.errors import ImageNotFound

    with refusals("look for the image"):
        try:
            client.inspect_image(image)
        except ImageNotFound:
            return False
    return True


def progress(image: str, events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Lines about a pull, one every two seconds at most.

    Args:
        events: what `POST /images/create` answers, one table each.

    Raises:
        UserError: the pull failed.
    """
    layers = Layers()
    said = time.monotonic()
    for event in events:
        if "error" in event:
            raise pull_error(image, str(event["error"]))
        layers.take(event)
        if time.monotonic() - said >= _SECONDS_BETWEEN_LINES and layers.done:
            said = time.monotonic()
            yield f"pulling {image}: {layers.text()}"
    yield f"pulled {image}: {layers.text()}" if layers.done else f"pulled {image}"


@dataclass
class Layers:
    """How far the layers of an image are. `done` by layer; `bytes`: (here, in all) of those that say so."""

    done: dict[str, bool] = field(default_factory=dict)
    bytes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of the engine's."""
        layer, status = event.get("id"), str(event.get("status", ""))
        if not layer or status.startswith("Pulling from"):
            return
        self.done[layer] = status in ("Pull complete", "Already exists")
        detail = event.get("progressDetail") or {}
        if status == "Downloading" and detail.get("total"):
            self.bytes[layer] = (detail.get("current") or 0, detail["total"])
        elif status != "Waiting" and layer in self.bytes:
            self.bytes[layer] = (self.bytes[layer][1],) * 2

    def text(self) -> str:
        """`3 of 7 layers, 120.0 of 1200.0 MB`."""
        layers = f"{sum(self.done.values())} of {len(self.done)} layers"
        here, whole = (sum(pair[i] for pair in self.bytes.values()) for i in (0, 1))
        return f"{layers}, {here / 1e6:.1f} of {whole / 1e6:.1f} MB" if whole else layers


def pull_error(image: str, words: str) -> UserError:
    """Why an image cannot be pulled, in the engine's words, and what helps."""
    remedy = first_in(words, _REMEDIES) or _NO_NETWORK
    return UserError(
        f"image '{image}' is not here, and Docker cannot pull it: {words}",
        remedy=remedy.format(registry=registry_of(image)),
    )


def registry_of(image: str) -> str:
    """The registry a name stands for: its first part where that is a host, else Docker Hub."""
    return image.partition("/")[0] if names_registry(image) else HUB

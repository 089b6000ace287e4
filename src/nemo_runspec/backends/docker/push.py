"""Pushes an image to its registry: what the engine says on the way, and the digest that the registry has it under.

Logins are Docker's own: docker-py reads them of `config.json` (`DOCKER_CONFIG`, else `~/.docker`), asks the credential
helpers that it names, and hands them to the engine in a header. None of it comes through here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.backends.docker.engine import refusals
from nemo_runspec.diagnosis.phrases import REFUSED, UNREACHED, first_in
from nemo_runspec.errors import UserError
from nemo_runspec.images import HUB, ImageReference

_DIGEST = re.compile(r": digest: (?P<digest>sha256:[0-9a-f]{64})\b")
_SENT = frozenset({"Pushed", "Layer already exists"})
_REMEDIES: Mapping[str, str] = {
    REFUSED: "docker login {registry}, as somebody who may push {repository}",
    rf"{UNREACHED}|timeout|lookup": "is {registry} reachable from the Docker engine?",
    r"http response to https|certificate": "the engine must trust {registry}: insecure-registries of daemon.json",
}
_AGAIN = "push it again: what the registry has of it already is not sent twice"


@dataclass(frozen=True, slots=True)
class PushFailure:
    """Why an image is not in its registry, in the engine's words. `remedy`: what helps."""

    words: str
    remedy: str = _AGAIN

    def __str__(self) -> str:
        return f"{self.words}; fix: {self.remedy}"


def push_image(client: Any, image: ImageReference, name: str, write: Callable[[str], None]) -> str | PushFailure:
    """The digest that the registry has the image under.

    A push is done once the engine has said this digest, which the registry has confirmed; whatever else ends the
    engine's answer, a silent end too, is a failure.

    Args:
        client: docker-py's `APIClient`.
        name: the image as the engine knows it; `image` is what this means.
    """
    from docker.errors import APIError, DockerException
    from urllib3.exceptions import HTTPError  # type: ignore[import-untyped,unused-ignore]

    client.timeout = None  # the engine is silent while a registry takes its time
    progress = PushProgress()
    try:
        events = client.push(name.rpartition(":")[0], tag=image.version, stream=True, decode=True)
        problem = follow_push(events, progress, write)
    except APIError as error:
        problem = str(error.explanation or error).strip()
    except (DockerException, OSError, HTTPError, ValueError) as error:
        problem = f"the answer of the Docker engine broke off: {error}"
    if problem is None and progress.digest:
        return progress.digest
    return _failure(image, problem or "the Docker engine ended its answer without the digest that says it is there")


def follow_push(
    events: Iterable[Mapping[str, Any]], progress: PushProgress, write: Callable[[str], None]
) -> str | None:
    """Gives on what is new about a push; why it failed in the engine's words, None where it says of no failure."""
    shown = ""
    for event in events:
        if "error" in event:
            return str(event["error"]).strip()
        progress.take(event)
        if (text := progress.text()) and text != shown:
            write(f"{text}\n")
            shown = text
    return None


@dataclass
class PushProgress:
    """How far a push is. `done` by layer; `digest`: that the registry has confirmed, '' before."""

    done: dict[str, bool] = field(default_factory=dict)
    digest: str = ""

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of the engine's."""
        status, layer = str(event.get("status", "")), event.get("id")
        told = event.get("aux")
        if isinstance(told, Mapping) and told.get("Digest"):
            self.digest = str(told["Digest"])
        elif found := _DIGEST.search(status):
            self.digest = found["digest"]
        elif layer and not status.startswith("The push refers"):
            self.done[str(layer)] = status in _SENT or status.startswith("Mounted from")

    def text(self) -> str:
        """`pushed 3 of 7 layers`."""
        return f"pushed {sum(self.done.values())} of {len(self.done)} layers" if self.done else ""


def refuse_wrong_login(client: Any, image: ImageReference) -> None:
    """Asks the registry whether Docker's login for it holds, where there is one with a password.

    A build may take hours: it need not end with this. What cannot be known before the push is left to it.

    Raises:
        UserError: the registry refuses that login.
    """
    from docker.auth import INDEX_URL
    from docker.errors import APIError, DockerException

    with refusals("read Docker's logins"):
        login = client._auth_configs.resolve_authconfig(None if image.registry == HUB else image.registry)
    if not login or not login.get("Password", login.get("password")) or login.get("IdentityToken"):
        return
    name, word = (login.get(key, login.get(key.lower())) for key in ("Username", "Password"))
    server = INDEX_URL if image.registry == HUB else image.registry
    try:
        client.login(name, password=word, registry=server, reauth=True)
    except APIError as error:
        if error.status_code == 401 or "401" in str(error.explanation):
            raise UserError(
                f"{image.registry} refuses the login that Docker has for it (as {name}); nothing was built",
                remedy=f"docker login {image.registry}",
            ) from None
    except (DockerException, OSError):
        return


def _failure(image: ImageReference, words: str) -> PushFailure:
    remedy = first_in(words, _REMEDIES) or _AGAIN
    what = f"{image} is not in {image.registry}: {words}"
    return PushFailure(what, remedy.format(registry=image.registry, repository=image.repository))

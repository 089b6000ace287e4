"""The Docker engine: found, reached, and its refusals put into words. docker-py is imported when it is talked to."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from nemo_runspec.diagnosis.phrases import DENIED, NO_SPACE
from nemo_runspec.errors import UserError
from nemo_runspec.transport.loopback import is_loopback

DEFAULT_HOST = "unix:///var/run/docker.sock"

_START = "start it (sudo systemctl start docker, or Docker Desktop), or set DOCKER_HOST to where it is"
_GROUP = "sudo usermod -aG docker $USER, then log in again; or set DOCKER_HOST to an engine of your own"

_SECONDS = 60.0
_SECONDS_TO_ANSWER = 10.0


@dataclass(frozen=True, slots=True)
class EngineRefusal:
    """A refusal of the engine that is known: a pattern of its message, what that means, and how to mend it."""

    sign: str
    meaning: str
    remedy: str


REFUSALS: tuple[EngineRefusal, ...] = (
    EngineRefusal(
        'exec: "bash"', "the image needs bash: it runs the job script", "use an image with bash and coreutils in it"
    ),
    EngineRefusal(
        "could not select device driver",
        "the engine has no driver for GPUs",
        "install the NVIDIA Container Toolkit on this machine and restart Docker; or set gpus_per_node = 0",
    ),
    EngineRefusal(
        r"unknown (?:or invalid )?runtime",
        "the engine has no such runtime",
        "leave runtime out, or install what brings it",
    ),
    EngineRefusal("docker-init", "the engine has no docker-init", "additional_kwargs = { init = false }"),
    EngineRefusal("invalid reference format", "that is no name of an image", "correct container_image"),
    EngineRefusal("setting rlimit", "the limit is higher than this machine allows", "lower it in ulimits"),
    EngineRefusal(NO_SPACE, "the disk of the engine is full", "docker system prune frees some"),
    EngineRefusal(DENIED, "something may not be read or mounted", "look at the mounts, and at user"),
)
"""Words in which Docker 20.10 to 28 refuses to make or start a container; the first that fits is taken."""


def engine_host() -> str:
    """`DOCKER_HOST`, else the default socket."""
    return os.environ.get("DOCKER_HOST") or DEFAULT_HOST


@contextmanager
def engine(host: str | None = None) -> Iterator[Any]:
    """A docker-py `APIClient`, closed at the end. Raises `UserError` as `connect`."""
    client = connect(host)
    try:
        yield client
    finally:
        client.close()


def connect(host: str | None = None) -> Any:
    """A docker-py `APIClient` that has had an answer.

    Args:
        host: another engine than the one of this environment, as `DOCKER_HOST` would name it.

    Raises:
        UserError: no engine, no permission for its socket, or one of another machine.
    """
    named = host or engine_host()
    _refuse_other_machines(named)
    _try_socket(named)
    from docker import APIClient
    from docker.errors import DockerException
    from docker.utils import kwargs_from_env

    settings = kwargs_from_env(environment={**os.environ, "DOCKER_HOST": named})
    try:
        client = APIClient(**settings, version="auto", timeout=_SECONDS_TO_ANSWER)
    except (DockerException, OSError, ValueError) as error:
        raise _no_engine(named, last_line(error)) from None
    client.timeout = _SECONDS
    return client


def is_there() -> bool:
    """True if something listens where the engine of this environment should. Quick: the engine is not asked."""
    try:
        _refuse_other_machines(engine_host())
        _try_socket(engine_host())
    except UserError:
        return False
    return engine_host().startswith("unix://")


@contextmanager
def refusals(doing: str) -> Iterator[None]:
    """Turns what the engine refuses inside into a `UserError` with the engine's own words.

    Args:
        doing: what could not be done, such as `make the container`.
    """
    from docker.errors import APIError, DockerException

    try:
        yield
    except APIError as error:
        raise refused(doing, words_of(error)) from None
    except (DockerException, OSError) as error:  # requests' own errors are OSErrors
        raise UserError(
            f"the Docker engine went away (cannot {doing}): {last_line(error)}", where=engine_host(), remedy=_START
        ) from None


def refused(doing: str, words: str, image: str | None = None) -> UserError:
    """The error for a refusal in the engine's words, with what is known of it."""
    known = next((refusal for refusal in REFUSALS if re.search(refusal.sign, words, re.IGNORECASE)), None)
    what = f"Docker cannot {doing}: {words}"
    if known is None:
        return UserError(what, where=image)
    return UserError(f"{known.meaning}\n  docker: {words}", where=image, remedy=known.remedy)


def words_of(error: Any) -> str:
    """What the engine said, without docker-py's address and status code around it."""
    return str(getattr(error, "explanation", None) or error).strip()


def last_line(error: BaseException) -> str:
    """The innermost reason of an error that was wrapped several times."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return str(error) or type(error).__name__


def is_gone(error: Any) -> bool:
    """True where the engine says that there is no such thing."""
    return getattr(error, "status_code", None) == 404


def is_rootless(info: Mapping[str, Any]) -> bool:
    """True for an engine whose root is the caller. `info`: what the engine says of itself."""
    return any("rootless" in option for option in info.get("SecurityOptions") or ())


def _refuse_other_machines(host: str) -> None:
    """The job's files are mounted from this machine."""
    parts = urlsplit(host)
    if parts.scheme == "unix" or (parts.scheme in ("tcp", "http") and is_loopback(parts.hostname)):
        return
    known = parts.scheme in ("tcp", "http", "https", "ssh", "npipe")
    what = "names an engine that jobs cannot use" if known else "is not the address of a Docker engine"
    raise UserError(
        f"DOCKER_HOST {what}: {host}",
        remedy="unset it, or name one of this machine: unix:///path, tcp://127.0.0.1:port (a job's files are mounted)",
    )


def _try_socket(host: str) -> None:
    """What the system says of the socket is clearer than what comes back through docker-py."""
    if not host.startswith("unix://"):
        return
    path = host.removeprefix("unix://")
    path = path if path.startswith("/") else f"/{path}"
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_SECONDS_TO_ANSWER)
            probe.connect(path)
    except PermissionError:
        raise UserError(f"no permission to use the Docker engine at {path}", remedy=_GROUP) from None
    except FileNotFoundError:
        raise _no_engine(path, "there is no such socket") from None
    except OSError as error:
        raise _no_engine(path, error.strerror or str(error)) from None


def _no_engine(where: str, why: str) -> UserError:
    return UserError(f"no Docker engine answers at {where}: {why}", remedy=_START)


def quietly() -> Any:
    """Leaves out what an engine refuses or does not answer, where something is only being tidied up."""
    from docker.errors import DockerException

    return suppress(DockerException, OSError)

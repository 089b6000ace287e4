"""A job's container: made, found again, ended, and taken away without leaving anything behind."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_runspec import paths
from nemo_runspec.backends.checks import MOUNTED
from nemo_runspec.backends.docker.engine import engine_host, is_gone, quietly, refusals
from nemo_runspec.backends.docker.identity import is_root
from nemo_runspec.backends.docker.networks import drop_network
from nemo_runspec.backends.docker.owner import hand_over
from nemo_runspec.backends.docker.render import LABEL_JOB, LABEL_JOB_DIR
from nemo_runspec.errors import UserError
from nemo_runspec.regular import read_json

_FILE = "docker.json"
_TICK = 0.1
_SECONDS_TO_DIE = 10.0
"""How long a killed container may take to be gone; it is removed by force then."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job's container is: the engine's address as `DOCKER_HOST` names it, and the container's id."""

    host: str
    container: str


def note_place(folder: Path, container: str) -> None:
    """Writes down in the job's folder where its container is, for whoever looks for it later from another shell."""
    text = json.dumps({"host": engine_host(), "container": container}, indent=1) + "\n"
    paths.write_private(folder / _FILE, text)


def noted_place(folder: Path) -> Place | None:
    """What `note_place` wrote, None where the job came to no container."""
    try:
        data = read_json(folder / _FILE)
        return Place(str(data["host"]), str(data["container"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget_place(folder: Path) -> None:
    """Takes the note away, once there is no container any more."""
    with suppress(OSError):
        (folder / _FILE).unlink(missing_ok=True)


def find_container(client: Any, name: str, folder: Path, place: Place | None) -> dict[str, Any] | None:
    """What the engine knows of a job's container, None where there is none.

    It is found by its id, else by its labels: nemotron may have been killed before it had written the id down, and that
    an id leads to nothing is one answer alone.

    Raises:
        UserError: the engine does not answer.
    """
    with refusals("look for the job's container"):
        known = inspect(client, place.container) if place is not None else None
        if known is not None:
            return known
        labels = [f"{LABEL_JOB}={name}", f"{LABEL_JOB_DIR}={folder}"]
        found = client.containers(all=True, filters={"label": labels})
        return inspect(client, found[0]["Id"]) if found else None


def inspect(client: Any, container: str) -> dict[str, Any] | None:
    """What the engine knows of a container, None where it is gone. Raises what docker-py raises."""
    from docker.errors import APIError

    try:
        known: dict[str, Any] = client.inspect_container(container)
    except APIError as error:
        if is_gone(error):
            return None
        raise
    return known


def has_ended(known: Mapping[str, Any]) -> bool:
    """True once its first process has ended."""
    return known["State"]["Status"] in ("exited", "dead")


def is_running(known: Mapping[str, Any]) -> bool:
    """True where it was started and has not ended, paused or not."""
    return known["State"]["Status"] in ("running", "paused", "restarting")


def end_container(client: Any, container: str, grace: float) -> None:
    """TERM, `grace` seconds, KILL; returns when it has ended. Raises what docker-py raises."""
    for signal, seconds in (("TERM", grace), ("KILL", _SECONDS_TO_DIE)):
        send(client, container, signal)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            known = inspect(client, container)
            if known is None or not known["State"]["Running"]:
                return
            time.sleep(_TICK)


def send(client: Any, container: str, signal: str) -> None:
    """A signal to its first process; nothing where it is gone or has ended."""
    with quietly():
        client.kill(container, f"SIG{signal}")


def remove_container(client: Any, known: Mapping[str, Any], folder: Path) -> str:
    """Removes the container with its unnamed volumes, and its network if we made that and nobody else uses it.

    What root wrote in it is the caller's afterwards.

    Args:
        known: what `inspect` said of it once; it need not be there any more.
        folder: the job's own.

    Returns: what could not be done, in words; '' where all was.
    """
    problems = [_remove(client, known["Id"], folder)]
    if is_root(known["Config"].get("User") or "0"):
        problems.append(_give_to_caller(client, known))
    drop_network(client, str(known["HostConfig"].get("NetworkMode") or "default"))
    return "; ".join(filter(None, problems))


def _remove(client: Any, container: str, folder: Path) -> str:
    try:
        with refusals(f"remove container {container[:12]}"):
            _removed(client, container)
    except UserError as error:
        return error.what
    forget_place(folder)
    return ""


def _removed(client: Any, container: str) -> None:
    """Nothing where it is gone, or somebody else is removing it."""
    from docker.errors import APIError

    try:
        client.remove_container(container, v=True, force=True)
    except APIError as error:
        if not is_gone(error) and "already in progress" not in str(error):
            raise


def _give_to_caller(client: Any, known: Mapping[str, Any]) -> str:
    folders = _own_folders(known)
    try:
        with refusals("hand over what the container's root has written"):
            hand_over(client, known["Image"], folders)
    except UserError as error:
        return f"files of the container's root stay root's in {', '.join(folders)}: {error.what}"
    return ""


def _own_folders(known: Mapping[str, Any]) -> dict[str, str]:
    """The job's directory and the directory for jobs: path of this machine → path in the container."""
    own = {MOUNTED, str(paths.run_dir())}
    return {mount["Source"]: mount["Destination"] for mount in known["Mounts"] if mount["Destination"] in own}

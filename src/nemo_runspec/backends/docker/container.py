"""A job's container: made, found again, ended, and taken away without leaving anything behind."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
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

_FILE = "docker.json"
_TICK = 0.1


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
        data = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        return Place(str(data["host"]), str(data["container"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_container(client: Any, name: str, folder: Path, place: Place | None) -> dict[str, Any] | None:
    """What the engine knows of a job's container, None where there is none.

    It is found by its id, or by its labels where nemotron was killed before it had written that down.

    Raises:
        UserError: the engine does not answer.
    """
    with refusals("look for the job's container"):
        if place is not None:
            return inspect(client, place.container)
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


def end_container(client: Any, container: str, grace: float) -> None:
    """TERM, `grace` seconds, KILL; returns when it has ended. Raises what docker-py raises."""
    send(client, container, "TERM")
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline:
        known = inspect(client, container)
        if known is None or not known["State"]["Running"]:
            return
        time.sleep(_TICK)
    send(client, container, "KILL")


def send(client: Any, container: str, signal: str) -> None:
    """A signal to its first process; nothing where it is gone or has ended."""
    with quietly():
        client.kill(container, f"SIG{signal}")


def take_away(client: Any, known: Mapping[str, Any]) -> None:
    """Removes the container with its unnamed volumes, and its network if we made that and nobody else uses it.

    What root wrote in it is the caller's afterwards.

    Args:
        known: what `inspect` said of it once; it need not be there any more.
    """
    with quietly():
        client.remove_container(known["Id"], v=True, force=True)
    if is_root(known["Config"].get("User") or "0"):
        with quietly():
            hand_over(client, known["Image"], _own_folders(known))
    drop_network(client, str(known["HostConfig"].get("NetworkMode") or "default"))


def _own_folders(known: Mapping[str, Any]) -> dict[str, str]:
    """The job's directory and the directory for jobs: path of this machine → path in the container."""
    own = {MOUNTED, str(paths.run_dir())}
    return {mount["Source"]: mount["Destination"] for mount in known["Mounts"] if mount["Destination"] in own}

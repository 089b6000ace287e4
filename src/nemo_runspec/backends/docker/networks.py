"""The network of a job: made when it is missing, and removed with the last job that used it if we made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nemo_runspec import paths
from nemo_runspec.backends.docker.engine import is_gone, quietly, refusals
from nemo_runspec.errors import UserError
from nemo_runspec.locks import locked_file

LABEL = "nemotron/made"
_GIVEN = ("host", "none", "bridge", "default")


def ensure_network(client: Any, name: str) -> None:
    """Makes the network if there is none of that name. The engine itself has no lock for this, so we take one.

    Raises:
        UserError: it cannot be made, in the engine's words.
    """
    if not is_made(name):
        return
    with _one_at_a_time(), refusals(f"make the network {name}"):
        if not _find(client, name):
            client.create_network(name, driver="bridge", check_duplicate=True, labels={LABEL: "1"})
        _keep_one(client, name)


def drop_network(client: Any, name: str) -> None:
    """Removes a network that we made and nobody uses. Not being able to is no error: others may use it still."""
    if not is_made(name):
        return
    with _one_at_a_time(), quietly():
        for network in _find(client, name):
            if (network.get("Labels") or {}).get(LABEL) and not _users(client, name):
                client.remove_network(network["Id"])


def is_made(name: str) -> bool:
    """False for networks that every engine has, and for another container's."""
    return name not in _GIVEN and not name.startswith("container:")


def _find(client: Any, name: str) -> list[dict[str, Any]]:
    """The networks of exactly that name (the engine's filter also takes parts of one), oldest first."""
    found = [network for network in client.networks(names=[name]) if network["Name"] == name]
    return sorted(found, key=lambda network: (network["Created"], network["Id"]))


def _keep_one(client: Any, name: str) -> None:
    """Where two users made one at the same moment, the older stays: a name that is not unique cannot be joined."""
    from docker.errors import APIError

    for network in _find(client, name)[1:]:
        try:
            client.remove_network(network["Id"])
        except APIError as error:
            if not is_gone(error):
                raise


def _users(client: Any, name: str) -> list[Any]:
    """Containers that name the network, also those not started yet, which the engine does not count."""
    found: list[Any] = client.containers(all=True, filters={"network": [name]})
    return found


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Between processes of one user."""
    paths.private_dir(paths.home())
    with locked_file(paths.home() / ".docker-network.lock"):
        yield


def address_of(known: Mapping[str, Any], job: str) -> str:
    """Where a container listens, as this machine reaches it.

    Args:
        known: what the engine says of it.

    Raises:
        UserError: it has no network, or one that this machine does not reach.
    """
    mode = str((known.get("HostConfig") or {}).get("NetworkMode") or "")
    if mode == "host":
        return "127.0.0.1"
    networks = ((known.get("NetworkSettings") or {}).get("Networks") or {}).values()
    found = next((str(each["IPAddress"]) for each in networks if each.get("IPAddress")), "")
    if not found:
        raise UserError(
            f"the container of job '{job}' has no address that this machine reaches", remedy='network = "host"'
        )
    return found

"""The run:ai server, and a program that speaks to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from labs.runai import RunaiLab
from labs.runai.fixtures import runai_lab
from runai_client import Client

from nemo_runspec.backends.cloud import connections
from nemo_runspec.backends.dgxcloud import api, credentials

__all__ = ["client", "runai_lab"]


@pytest.fixture(autouse=True)
def as_a_new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test finds, and leaves, no secret, token or connection: another one's may be wrong, or not patient."""
    monkeypatch.setattr(credentials, "_GIVEN", {})
    forget_connections()
    yield
    forget_connections()


def forget_connections() -> None:
    api._TOKENS.clear()
    connections.kept().clear()


@pytest.fixture
def client(runai_lab: RunaiLab) -> Client:
    """Logged in at a server that does not wait for long for containers to end."""
    runai_lab.timing.grace = runai_lab.timing.clean = 0.3
    made = Client(runai_lab)
    made.login()
    return made

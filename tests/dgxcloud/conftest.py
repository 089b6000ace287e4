"""The run:ai server, and a program that speaks to it."""

from __future__ import annotations

import pytest
from labs.runai import RunaiLab
from labs.runai.fixtures import runai_lab
from runaiclient import Client

__all__ = ["client", "runai_lab"]


@pytest.fixture
def client(runai_lab: RunaiLab) -> Client:
    """Logged in at a server that does not wait for long for containers to end."""
    runai_lab.timing.grace = runai_lab.timing.clean = 0.3
    made = Client(runai_lab)
    made.login()
    return made

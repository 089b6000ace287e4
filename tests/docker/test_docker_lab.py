"""The lab is what the other tests take it for: one engine for all of a process, and nothing of it outlives it."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_docker import Engine, needs_docker, own_engine
from lab_docker import docker_engine as another_suites_engine

pytestmark = needs_docker

__all__ = ["another_suites_engine"]


def bridge_of(engine: Engine, network: str) -> Path:
    """The bridge of a new network, as the machine sees it."""
    client = engine.client()
    bridge = Path("/sys/class/net", f"br-{client.create_network(network)['Id'][:12]}")
    client.close()
    assert bridge.exists()
    return bridge


def test_one_engine_serves_all_suites_of_a_process(docker_engine: Engine, another_suites_engine: Engine):
    assert another_suites_engine is docker_engine


def test_an_emptied_engine_has_no_network(docker_engine: Engine):
    bridge = bridge_of(docker_engine, "left")
    docker_engine.empty()
    assert docker_engine.networks() == set()
    assert not bridge.exists()


def test_no_bridge_outlives_an_engine_that_could_not_take_it_away(monkeypatch: pytest.MonkeyPatch):
    def refuse(_: Engine) -> None:
        raise RuntimeError("it is busy")

    monkeypatch.setattr(Engine, "empty", refuse)
    with pytest.raises(RuntimeError, match="it is busy"), own_engine() as engine:
        bridge = bridge_of(engine, "left")
    assert not bridge.exists()
    assert not engine.folder.exists()

"""Pulls: their progress in lines, and what the engine says when they fail."""

from __future__ import annotations

import pytest

from nemo_runspec.backends.docker.images import Layers, progress, pull_error, registry_of
from nemo_runspec.errors import UserError


def event(layer: str, status: str, current: int = 0, total: int = 0) -> dict[str, object]:
    return {"id": layer, "status": status, "progressDetail": {"current": current, "total": total} if total else {}}


def test_layers_and_bytes_are_counted():
    layers = Layers()
    for said in (
        {"status": "Pulling from lab/python", "id": "latest"},
        event("a", "Pulling fs layer"),
        event("b", "Already exists"),
        event("c", "Pulling fs layer"),
        event("a", "Downloading", 1_000_000, 4_000_000),
        event("c", "Downloading", 2_000_000, 2_000_000),
        event("c", "Download complete"),
        event("c", "Extracting", 10, 2_000_000),
        event("c", "Pull complete"),
    ):
        layers.take(said)
    assert layers.text() == "2 of 3 layers, 3.0 of 6.0 MB"


def test_the_end_is_said_and_an_error_ends_it():
    assert list(progress("i", [event("a", "Pull complete")])) == ["pulled i: 1 of 1 layers"]
    with pytest.raises(UserError, match="cannot pull it: boom"):
        list(progress("i", [event("a", "Pulling fs layer"), {"error": "boom"}]))


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("unauthorized: authentication required", "docker login reg.example.com:5000"),
        ("manifest for x not found: manifest unknown", "correct container_image"),
        ("no matching manifest for linux/arm64", "platform"),
        ("dial tcp: lookup reg: no such host", "is reg.example.com:5000 reachable"),
    ],
)
def test_a_refusal_has_a_remedy(words, remedy):
    error = pull_error("reg.example.com:5000/team/image:1", words)
    assert words in error.what
    assert remedy in (error.remedy or "")


@pytest.mark.parametrize(
    ("image", "registry"),
    [("python:3.11", "docker.io"), ("team/x", "docker.io"), ("localhost/x", "localhost"), ("nvcr.io/n/x:1", "nvcr.io")],
)
def test_the_registry_of_a_name(image, registry):
    assert registry_of(image) == registry

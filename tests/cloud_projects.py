"""What the tests of all clouds share: a pod's command that tells how it ended, and how a sweep's runs have ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from support import Outcome, Project

POD = """
trap 'echo "nemotron-end: node=0 exit_code=143 received=TERM phase=command reason="; exit 143' TERM
echo 'step 1'
{{ {command}
}} & wait $!; code=$?
[ "$code" = 0 ] || echo "nemotron-end: node=0 exit_code=$code phase=command reason="
exit "$code"
"""
"""What a pod does, as far as it matters here: it runs a command, and says how that ended."""

LARGE = "python3 -c 'import time; much = bytearray(50_000_000); time.sleep(600)'"
RAISES = """python3 -c 'raise ValueError("a shape is wrong")'"""
GAVE_UP = (
    "echo 'error: data_dir /nowhere holds no whole dataset' >&2; "
    "python3 -c 'class ChildFailedError(Exception): pass\nraise ChildFailedError(\"main.py FAILED\")'; exit 1"
)
"""As torchrun ends whose process has."""

READY = {"when": "step 1"}
"""Strikes once the pod has said so: before that it heeds no signal."""


class Site(Protocol):
    """A project whose jobs go to a cloud of a lab."""

    project: Project

    def nemotron(self, *args: str, **environment: str) -> Outcome:
        """`nemotron ARGS`."""

    def record(self, name: str) -> dict[str, Any]:
        """A job as it is on record."""


def group_of(site: Site) -> str:
    """The only sweep's name."""
    folders: list[Path] = list((site.project.state / "sweeps").iterdir())
    assert len(folders) == 1, folders
    return folders[0].name


def ends(site: Site, group: str) -> list[tuple[str, int]]:
    """State and exit code of the sweep's runs that count, sorted."""
    found = {row["name"]: row for row in site.nemotron("jobs", "list", "--json").succeeds().json}
    assert found[group]["kind"] == "sweep"
    rows = site.nemotron("jobs", "list", "--group", group, "--json").succeeds().json
    records = [site.record(row["name"]) for row in rows if row["kind"] == "job"]
    return sorted((record["states"][-1]["state"], record["exit_code"]) for record in records)

"""Tests that one process runs one after another: what takes long to make, they have in common."""

from __future__ import annotations

import re
from typing import Any

import pytest

RECIPES = "tests/recipes/"
TOGETHER = {
    "a Ray cluster": ("test_data_prep.py", "test_data_prep_rows.py", "test_nano3_sft.py", "test_rl_tiny.py"),
    "a Python that has loaded torch": (
        "test_pretrain_tiny.py", "test_pretrain_small.py", "test_nano3_eval.py", "test_chain_report.py",
    ),
}  # fmt: skip
_GROUP_OF = {f"{RECIPES}{name}": group for group, names in TOGETHER.items() for name in names}
_IN_DOCKER = re.compile(r"tests/docker/|tests/(behaviour|reliability|remote/test_first)\S*\[(.+-)?docker[]-]")
"""What a process needs an engine of its own for, with images of its own."""


def group_of(node: str) -> str:
    """The tests that a test stays with: a name of the table, the engine, or its file."""
    file = node.partition("::")[0]
    return "a Docker engine" if _IN_DOCKER.match(node) else _GROUP_OF.get(file, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Called by xdist in the controller of a parallel run: how tests are handed out to its processes."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        """A file at a time, or several that belong together."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Files(config, log) if config.getvalue("dist") == "loadfile" else None

"""Fixtures of the tests that run jobs: nemotron's state kept out of the user's home, and an environment with torch.

A suite takes them by importing them into its own `conftest.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from labs.cache import CACHE

from nemo_runspec.envs import ensure_env
from nemo_runspec.plans.model import PythonEnv

WITH_TORCH = PythonEnv(("torch==2.13.0", "numpy"))


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [n for n in os.environ if n.startswith(("SLURM_", "NEMOTRON_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="session")
def torch_bin() -> Path:
    """The `bin` folder of an environment with torch, made as a recipe's is: once, in the tests' cache, for all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEMOTRON_HOME", str(CACHE))
        made = ensure_env(WITH_TORCH, print)
    assert made is not None
    return made

"""Makes `jobkit` importable and keeps nemotron's state out of the user's home."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "script"))


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [n for n in os.environ if n.startswith(("SLURM_", "NEMOTRON_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="session")
def torch_bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment with torch, made as a recipe's is."""
    from nemo_runspec.envs import ensure_env
    from nemo_runspec.plan.model import PythonEnv

    before = os.environ.get("NEMOTRON_HOME")
    os.environ["NEMOTRON_HOME"] = str(tmp_path_factory.mktemp("torch-home"))
    try:
        made = ensure_env(PythonEnv(("torch==2.13.0", "numpy")), print)
    finally:
        if before is None:
            del os.environ["NEMOTRON_HOME"]
        else:
            os.environ["NEMOTRON_HOME"] = before
    assert made is not None
    return made

"""What the tests of steps share: `nemotron steps run` as a process of a project, and what a job has made, checked."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from labs.cache import CACHE
from support import Outcome, Project

STEPS = Path(__file__).resolve().parents[2] / "recipes" / "steps"
SHARED = STEPS / "_shared"
EXAMPLES = SHARED / "nemo_steps" / "examples"

sys.path.insert(0, str(SHARED))


@dataclass(frozen=True)
class Made:
    """What a step has made: its only output's folder, and what it said."""

    folder: Path
    outcome: Outcome


@pytest.fixture(autouse=True)
def environments(request: pytest.FixtureRequest) -> None:
    """The steps' Python environments, made once for all tests and runs: compiling one anew takes half a minute."""
    if "project" in request.fixturenames:
        kept = CACHE / "step-environments"
        kept.mkdir(parents=True, exist_ok=True)
        state = request.getfixturevalue("project").state
        state.mkdir(parents=True, exist_ok=True)
        (state / "envs").symlink_to(kept)


@pytest.fixture
def run_step(project: Project, nemotron_process: Callable[..., Outcome]) -> Callable[..., Made]:
    """`run_step("data_prep/sft_packing", "tiny", "sequence_length=128", type="packed_parquet")`, from another folder.

    The step ends well, and what it made passes the checker of its type.
    """

    def run(step: str, config: str, *overrides: str, type: str) -> Made:
        elsewhere = project.folder / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        words = ("steps", "run", step, "-c", config, *overrides)
        outcome = nemotron_process(*words, cwd=elsewhere, timeout=900, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
        assert outcome.code == 0, outcome.out[-4000:] + outcome.err[-4000:]
        folder = Path(re.findall(r"^  \w+: (/.+)$", outcome.out + outcome.err, re.MULTILINE)[-1])
        found = nemotron_process("artifacts", "check", str(folder), "--type", type).succeeds()
        assert "nothing wrong" in found.out, found.out
        return Made(folder, outcome)

    return run


def metrics_of(project: Project) -> list[dict[str, Any]]:
    """The metrics that the project's jobs have written, in order."""
    import json

    files = sorted(project.state.glob("jobs/*/**/metrics*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]

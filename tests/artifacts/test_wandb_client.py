"""The program that asks W&B, by a Python that has neither W&B's package nor nemotron's."""

from __future__ import annotations

import json
import subprocess
import sys

from support import REPOSITORY

PROGRAM = REPOSITORY / "src" / "nemo_runspec" / "remote" / "wandb_client.py"


def test_it_needs_nothing_of_nemotron() -> None:
    asked = json.dumps({"action": "look", "project": "team/nemotron", "names": []})
    bare = [sys._base_executable, "-I", "-S", str(PROGRAM)]  # type: ignore[attr-defined]
    done = subprocess.run(bare, input=asked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"failed": "No module named 'wandb'", "kind": "unknown"}

"""A recipe that says how it went, for jobs started from Python."""

from __future__ import annotations

import pytest
from support import HEADER, Project

BODY = """
import json, os, pathlib, sys, time
rows = (row.partition(":") for row in open(sys.argv[sys.argv.index("--config") + 1]))
given = {key.strip(): value.strip() for key, _, value in rows}
print("lr", given["lr"], flush=True)
with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as metrics:
    metrics.write(json.dumps({"step": 1, "loss": 2 * float(given["lr"])}) + "\\n")
    if "MY_TOKEN" in os.environ:
        metrics.write(json.dumps({"token": len(os.environ["MY_TOKEN"])}) + "\\n")
while given["wait"] != "null" and not pathlib.Path(given["wait"]).exists():
    time.sleep(0.02)
sys.exit(int(given["fail"]))
"""


@pytest.fixture
def trains(project: Project) -> Project:
    """A project with the recipe `mine/train`."""
    project.recipe("mine/train", header=HEADER, body=BODY, default="lr: 0.5\nfail: 0\nwait: null\n")
    return project

"""A recipe that trains nothing and says how that went, for sweeps over it."""

from __future__ import annotations

import pytest
from support import HEADER, Project

BODY = """
import json, math, os, pathlib, signal, sys, time
rows = (row.partition(":") for row in open(sys.argv[sys.argv.index("--config") + 1]))
given = {key.strip(): value.strip() for key, _, value in rows}
lr, seed = float(given["lr"]), int(given["seed"])
floor = 2 + (math.log10(lr) + 3) ** 2 + seed / 100
print("lr", lr, "token", os.environ.get("HF_TOKEN", "none"))
with open(os.environ["NEMOTRON_METRICS_FILE"], "a", buffering=1) as metrics:
    for step in (1, 2, 3):
        metrics.write(json.dumps({"step": step, "total_steps": 3, "loss": floor + 1 / step}) + "\\n")
    if given["metric"] == "true":
        value = float("nan") if given["nan"] == "true" else floor
        metrics.write(json.dumps({"step": 3, "val_loss": value}) + "\\n")
if given["wait"] != "null":
    folder = pathlib.Path(given["wait"])
    (folder / f"started-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
sys.exit(int(given["fail"]))
"""
CONFIG = "lr: 0.001\nseed: 1\nfail: 0\nmetric: true\nnan: false\nwait: null\n"


@pytest.fixture
def trains(project: Project) -> Project:
    """A project with the recipe `mine/train`."""
    project.recipe("mine/train", header=HEADER, body=BODY, default=CONFIG)
    return project

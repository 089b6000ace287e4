"""`nemotron artifacts list` with 10,000 versions, beside what a command takes to start.

    uv run --group dev python benchmarks/artifacts.py        # prints a table, exit code 1 where the aim is missed

Whole processes are timed, in turn, so that what else the machine does is in both.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from nemo_runspec.artifacts import versions

AIM, AIM_ALL = 0.3, 0.6
"""Seconds more than `nemotron artifacts list` of an empty store takes: of the newest, of everything as JSON."""

VERSIONS, ARTIFACTS, ROUNDS = 10_000, 100, 7


def fill(root: Path, count: int, artifacts: int) -> None:
    """Versions as jobs register them."""
    for number in range(count):
        folder = root / f"artifact-{number % artifacts:03}"
        job = f"nano3-pretrain-1120-{number:08x}"
        folder.mkdir(parents=True, exist_ok=True)
        source = f"artifact-{(number + 1) % artifacts:03}"
        manifest = {
            "name": folder.name,
            "path": job,
            "type": "checkpoint_hf",
            "output": "model",
            "digest": "sha256:" + "d" * 64,
            "size": 123_456_789,
            "files": 12,
            "producer": {
                "job": job,
                "recipe": "nano3/pretrain",
                "config": "tiny",
                "profile": "my-cluster",
                "executor": "slurm",
                "overrides": ["train.lr=1e-3"],
                "code": {"bundle": "b" * 64, "package": "c" * 40, "commit": "c" * 40},
            },
            "inputs": [{"input": "data", "name": source, "version": 1, "path": f"/lustre/artifacts/{source}/job-1"}],
        }
        versions.publish(str(folder), versions.add(str(folder), manifest), job)


def timed(words: Sequence[str], folder: Path) -> float:
    """Seconds of a whole process."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "nemotron", *words],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def main() -> int:
    """Prints the figures; 1 where the aim is missed."""
    with tempfile.TemporaryDirectory() as top:
        fill(Path(top, "full"), VERSIONS, ARTIFACTS)
        Path(top, "empty").mkdir()
        store = ["--root", str(Path(top, "full"))]
        calls = {
            "of an empty store": ["--root", str(Path(top, "empty"))],
            f"the newest of each of {ARTIFACTS}": store,
            "--all --json": [*store, "--all", "--json"],
        }
        found: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS + 1):
            for name, words in calls.items():
                found[name].append(timed(["artifacts", "list", *words], Path(top)))
    medians = {name: statistics.median(each[1:]) for name, each in found.items()}
    start = medians["of an empty store"]
    print(
        f"| `nemotron artifacts list` of {VERSIONS:,} versions | s | more than start-up, s | aim |\n|---|--:|--:|--:|"
    )
    for name, seconds in medians.items():
        aim = {"--all --json": f"{AIM_ALL}"}.get(name, f"{AIM}" if "newest" in name else "")
        print(f"| {name} | {seconds:.3f} | {seconds - start:.3f} | {aim} |")
    newest, everything = medians[f"the newest of each of {ARTIFACTS}"], medians["--all --json"]
    return int(newest - start > AIM or everything - start > AIM_ALL)


if __name__ == "__main__":
    sys.exit(main())

"""A sweep of 100 runs that do nothing, against Hydra's own `-m` over the same 100 values, in one go.

    uv run python benchmarks/sweep.py                  # prints a table
    uv run python benchmarks/sweep.py --members 20 --rounds 5

The two do not do the same thing. Hydra's basic launcher calls the task a hundred times inside one process, one after
the other: no process, no record, no log, no cancelling of one of them, and a crash of one is the end of all. nemotron
writes down, starts, watches and concludes a hundred jobs. So the same app is also measured with a bare process for each
task. Whole commands, wall time, median of the rounds; every round runs every case once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HYDRA, PROCESSES = "Hydra -m, in one process", "Hydra -m, a bare process for each"
RECIPE = """\
# /// script
# dependencies = []
# [tool.runspec]
# schema = "1"
# [tool.runspec.run]
# launch = "direct"
# ///
import sys
print(open(sys.argv[2]).read())
"""

APP = """\
import os, subprocess, sys
import hydra

@hydra.main(version_base=None, config_path="recipes/bench/nothing/config", config_name="default")
def main(cfg):
    if os.environ.get("BENCH_PROCESS"):
        subprocess.run([sys.executable, "-c", f"print({cfg.x})"], check=True, stdout=subprocess.DEVNULL)
    else:
        print(cfg.x)

main()
"""


@dataclass
class Case:
    """One command. `environment`: beside the common one."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def cases(members: int) -> list[Case]:
    """What is measured. The first is what the others are compared with."""
    values = f"x=range({members})"
    nemotron = [sys.executable, "-m", "nemotron", "bench", "nothing"]
    hydra = [sys.executable, "app.py"]
    found = [
        Case(HYDRA, [*hydra, "-m", values]),
        Case(PROCESSES, [*hydra, "-m", values], {"BENCH_PROCESS": "1"}),
        Case("nemotron -m --dry-run", [*nemotron, "-m", values, "--dry-run"]),
    ]
    for parallel in (1, 2, 4):
        words = [*nemotron, "-m", values, f"run.env.max_parallel={parallel}"]
        found.append(Case(f"nemotron -m, {parallel} at a time", words))
    return found


def lay_out(folder: Path) -> None:
    """A project whose recipe `bench/nothing` has one value in its configuration, and an app for Hydra that reads it."""
    recipe = folder / "recipes" / "bench" / "nothing"
    (recipe / "config").mkdir(parents=True)
    (recipe / "config" / "default.yaml").write_text("x: 0\n")
    (recipe / "main.py").write_text(RECIPE)
    (folder / "pyproject.toml").write_text("")
    (folder / "app.py").write_text(APP)


def measure(case: Case, folder: Path, environment: dict[str, str]) -> None:
    """Runs a case once and notes its times."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        case.command, cwd=folder, env={**environment, **case.environment}, capture_output=True, check=False
    )
    case.wall.append(time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    case.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    if done.returncode:
        sys.exit(f"{case.name}: exit code {done.returncode}\n{done.stderr.decode()[-2000:]}")


def check_members(folder: Path, members: int) -> None:
    """Every sweep that was measured has really run all its members: a fast sweep that lost some would be no feat."""
    for file in (folder / "home" / "sweeps").glob("*/sweep.json"):
        ended = [member["was"] for member in json.loads(file.read_text())["members"]]
        if ended != ["succeeded"] * members:
            sys.exit(f"{file}: {ended}")


def report(found: list[Case], members: int) -> None:
    """Prints the table."""
    base = statistics.median(found[0].wall)
    print("| command | wall, median s | for each run, ms | ratio | CPU, median s |\n|---|--:|--:|--:|--:|")
    for case in found:
        wall, cpu = statistics.median(case.wall), statistics.median(case.cpu)
        print(f"| {case.name} | {wall:.2f} | {1000 * wall / members:.0f} | {wall / base:.1f} | {cpu:.2f} |")


def main() -> int:
    """Always 0: there is no aim to miss."""
    parser = argparse.ArgumentParser(description="A sweep that does nothing, against Hydra's own -m.")
    parser.add_argument("--members", type=int, default=100, help="runs of the sweep (default 100)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each case runs (default 3)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        lay_out(folder)
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        own = {"HOME": scratch, "NEMOTRON_HOME": f"{scratch}/home"}
        # The same Python for both: a job's `python` is the one on PATH, which may be a slow shim.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**inherited, **own, "PATH": path}
        found = cases(chosen.members)
        for _ in range(chosen.rounds):
            for case in found:
                measure(case, folder, environment)
        check_members(folder, chosen.members)
    print(f"{chosen.members} runs, {chosen.rounds} rounds, {os.cpu_count()} cores, Python {sys.version.split()[0]}\n")
    report(found, chosen.members)
    return 0


if __name__ == "__main__":
    sys.exit(main())

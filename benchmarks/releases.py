"""Two releases side by side: the processor time of the same commands, as the later one's ratio to the earlier one's.

    git worktree add ../before 1a2b3c4 && (cd ../before && uv sync --frozen)
    uv run python benchmarks/releases.py ../before/.venv/bin/nemotron

Both run in turn, in folders of their own that hold the same files. What is compared is each pair of neighbours, and the
median of their ratios is told: a processor that is slow for a while is so for both. Function calls are counted once,
under `cProfile`: a figure without noise, which knows nothing of how long each takes.
Compare fresh checkouts alone: one whose bytecode cannot be written, or is stale, reads its modules anew each time.
"""

from __future__ import annotations

import argparse
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import NEMOTRON, Case, measure, write_profiles

PROFILES = {
    "local": "",
    "docker": 'container_image = "python:3.11"\n',
    "lepton": 'resource_shape = "gpu.8xh100"\nnode_group = "mine"\ncontainer_image = "python:3.11"\n',
    "dgxcloud": (
        'base_url = "https://cloud.example.com/api/v1"\nclient_id = "mine"\nproject_name = "mine"\n'
        'container_image = "python:3.11"\n'
    ),
}
"""A profile of each backend but Slurm, whose profile `bench.py` writes."""

COMMANDS = (
    "--help",
    "list",
    "nano3 pretrain --help",
    "env list",
    "env show my-cluster",
    "env fields slurm",
    "env check many.toml",
    *(f"run ./train.py --run {name} --dry-run" for name in PROFILES),
    "nano3 pretrain -c tiny --dry-run",
    "nano3 pretrain -c tiny --run my-cluster --dry-run",
    "run ./train.py",
    "jobs list",
    "jobs list --json",
    "jobs status",
)
"""What is measured. `run ./train.py` makes a job each time, which the commands after it list."""


def prepare(folder: Path) -> dict[str, str]:
    """Files for the commands, and the environment to run them in."""
    write_profiles(folder)
    with (folder / "env.toml").open("a") as profiles:
        for name, keys in PROFILES.items():
            profiles.write(f'[{name}]\nexecutor = "{name}"\n{keys}')
    (folder / "train.py").write_text("print(1)\n")
    home = folder / "home"
    home.mkdir()
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "HOME": str(home), "NEMOTRON_HOME": f"{home}/.nemotron", "COLUMNS": "100"}


def calls(case: Case, folder: Path, environment: dict[str, str]) -> int:
    """How many functions a command calls, imports included."""
    python = Path(case.command[0]).with_name("python")
    words = case.command[case.command.index("nemotron") + 1 :] if "-m" in case.command[:2] else case.command[1:]
    profile = folder / "profile"
    subprocess.run(
        [str(python), "-m", "cProfile", "-o", str(profile), "-m", "nemotron", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    )
    return int(getattr(pstats.Stats(str(profile)), "total_calls"))  # noqa: B009  # typeshed does not know it


def compare(before: list[str], after: list[str], rounds: int, scratch: Path) -> bool:
    """Prints the table. True where no command has become slower by more than a tenth."""
    sides = [(program, scratch / name) for program, name in ((before, "before"), (after, "after"))]
    environments = []
    for _, folder in sides:
        folder.mkdir()
        environments.append(prepare(folder))
    print("| command | CPU before, median s | after | ratio | calls before | ratio |\n|---|--:|--:|--:|--:|--:|")
    quick = True
    for command in COMMANDS:
        cases = [Case(command, [*program, *command.split()]) for program, _ in sides]
        together = cases, sides, environments
        for turn in range(rounds + 1):
            for case, (_, folder), environment in zip(*together, strict=True):
                measure(case, folder, environment)
                if turn == 0:
                    case.cpu.clear()
        usual = [statistics.median(case.cpu) for case in cases]
        ratio = statistics.median(later / earlier for earlier, later in zip(cases[0].cpu, cases[1].cpu, strict=True))
        quick = quick and ratio <= 1.1
        counts = [calls(case, folder, environment) for case, (_, folder), environment in zip(*together, strict=True)]
        shown = f"{counts[0] / 1000:.0f} k | {counts[1] / counts[0]:.2f}"
        print(f"| `{command}` | {usual[0]:.3f} | {usual[1]:.3f} | {ratio:.2f} | {shown} |", flush=True)
    return quick


def main() -> int:
    """0 where no command has become slower, 1 otherwise."""
    parser = argparse.ArgumentParser(description="The processor time of two releases, command by command.")
    parser.add_argument("before", help="the earlier release's nemotron")
    parser.add_argument("after", nargs="?", help="the later one's (by default that of this environment)")
    parser.add_argument("--rounds", type=int, default=15, help="how often each command runs (default 15)")
    given = parser.parse_args()
    after = [given.after] if given.after else NEMOTRON
    with tempfile.TemporaryDirectory() as scratch:
        quick = compare([str(Path(given.before).absolute())], after, given.rounds, Path(scratch))
    print(f"\n{given.rounds} rounds after one to warm up, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    return 0 if quick else 1


if __name__ == "__main__":
    sys.exit(main())

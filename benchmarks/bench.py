"""Start-up times as whole processes, as ratios within one run: machines are shared and noisy, ratios are steadier.

    uv run python benchmarks/bench.py              # prints a table, exit code 1 where an aim is missed
    uv run python benchmarks/bench.py --rounds 15

Every round runs every case once, so that a busy moment hits all of them. The figure is the median over the rounds of
the processor time (user + system) of the process and its children; wall time is shown beside it.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
NEMOTRON = [PYTHON, "-m", "nemotron"]
PRETRAIN = [*NEMOTRON, "nano3", "pretrain"]
APP = "two-command Typer app, --help"
COMPOSE = "import typer, hydra; compose the same files"
TORCHX = "torchx run --dryrun -s slurm"
REPOSITORY = "repository"


@dataclass
class Case:
    """One command.

    Args:
        against: names the case its ratio is taken to. `aim`: the largest ratio wanted.
        where: the folder it runs in, below the one of all.
    """

    name: str
    command: list[str]
    against: str | None = None
    aim: float | None = None
    codes: tuple[int, ...] = (0,)
    where: str = "."
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def cases(folder: Path) -> list[Case]:
    """What is measured. `folder` holds an env.toml with a Slurm profile and `many.toml` with 500 profiles."""
    torchx = install_torchx(folder)
    dry_run = [*PRETRAIN, "-c", "tiny", "--run", "my-cluster", "--dry-run"]
    found = [
        Case("python -c pass", [PYTHON, "-c", "pass"]),
        Case(APP, [PYTHON, str(HERE / "typer_app.py"), "--help"]),
        Case("nemotron --help", [*NEMOTRON, "--help"], APP, 1.25),
        Case("nemotron nano3 pretrain --help", [*PRETRAIN, "--help"], APP, 1.25),
        Case("nemotron list", [*NEMOTRON, "list"], APP, 1.0),
        Case("nemotron steps list", [*NEMOTRON, "steps", "list"], "nemotron list", 1.2),
        Case(
            "nemotron steps list --produces …",
            [*NEMOTRON, "steps", "list", "--produces", "checkpoint_hf"],
            "nemotron list",
            1.2,
        ),
        Case(COMPOSE, [PYTHON, str(HERE / "compose.py")]),
        Case("nemotron nano3 pretrain … --dry-run", dry_run, COMPOSE, 1.0),
        Case("nemotron env check, 500 profiles, 50 deep", [*NEMOTRON, "env", "check", "many.toml"]),
    ]
    if torchx is not None:
        echo = [str(torchx), "run", "--dryrun", "-s", "slurm", "utils.echo", "--msg", "hello"]
        found.append(Case(TORCHX, echo))
        again = "nemotron nano3 pretrain … --dry-run"
        found.append(Case(f"{again}, again", dry_run, TORCHX, 1.2))
        found.append(Case(f"{again}, in a repository", dry_run, TORCHX, 1.2, where=REPOSITORY))
        changed = [*dry_run, "train.train_iters=5", "run.env.nodes=4"]
        found.append(Case(f"{again}, there, two overrides", changed, TORCHX, 1.2, where=REPOSITORY))
    return found


def install_torchx(folder: Path) -> Path | None:
    """torchx in an environment of its own (NeMo-Run takes its `slurm` scheduler away); None where it cannot be had."""
    venv = folder / "torchx"
    from nemo_runspec.uv_process import find_uv

    uv = find_uv()
    made = subprocess.run([uv, "venv", "--quiet", "--python", PYTHON, str(venv)], check=False)
    words = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", f"{venv}/bin/python", "torchx==0.7.0"]
    if made.returncode or subprocess.run([*words, "setuptools<81"], check=False).returncode:
        print("torchx could not be installed and is left out", file=sys.stderr)
        return None
    return venv / "bin" / "torchx"


def measure(case: Case, folder: Path, environment: dict[str, str]) -> None:
    """Runs a case once and notes its times."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(case.command, cwd=folder / case.where, env=environment, capture_output=True, check=False)
    case.wall.append(time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    case.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    if done.returncode not in case.codes:
        sys.exit(f"{case.name}: exit code {done.returncode}\n{done.stderr.decode()}")


def write_profiles(folder: Path, profiles: int = 500, depth: int = 50) -> None:
    """An env file of that many Slurm profiles in chains of that depth, and the small one of the dry run."""
    (folder / "pyproject.toml").write_text("")
    (folder / "env.toml").write_text(
        '[my-cluster]\nexecutor = "slurm"\naccount = "a"\npartition = "batch"\nnodes = 2\nntasks_per_node = 8\n'
        'gpus_per_node = 8\ntime = "04:00:00"\nremote_job_dir = "/lustre/run"\nmounts = ["/lustre:/lustre"]\n'
    )
    blocks = []
    for number in range(profiles):
        parent = f'extends = "p{number - 1}"\n' if number % depth else 'executor = "slurm"\naccount = "a"\n'
        blocks.append(f'[p{number}]\n{parent}nodes = {number % 7 + 1}\nenv_vars = {{ V{number} = "{number}" }}\n')
    (folder / "many.toml").write_text("\n".join(blocks))


def make_repository(folder: Path) -> None:
    """A git repository with the profiles and a script: a dry run on Slurm looks at what of it would be sent."""
    folder.mkdir()
    write_profiles(folder)
    (folder / "train.py").write_text("print(1)\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    for words in (["init"], ["add", "--all"], ["commit", "--message=first"]):
        command = ["git", *identity, "-C", str(folder), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def report(found: list[Case]) -> bool:
    """Prints the table. True where every aim is met."""
    by_name = {case.name: case for case in found}
    met = True
    print("| command | CPU, median s | wall, median s | ratio | aim | |\n|---|--:|--:|--:|--:|---|")
    for case in found:
        cpu, wall = statistics.median(case.cpu), statistics.median(case.wall)
        ratio, aim, verdict = "", "", ""
        if case.against and case.aim:
            value = cpu / statistics.median(by_name[case.against].cpu)
            ratio, aim = f"{value:.2f} x {case.against}", f"{case.aim:.2f}"
            verdict = "met" if value <= case.aim else "MISSED"
            met = met and value <= case.aim
        print(f"| {case.name} | {cpu:.3f} | {wall:.3f} | {ratio} | {aim} | {verdict} |")
    return met


def main() -> int:
    """0 where every aim is met, 1 otherwise."""
    parser = argparse.ArgumentParser(description="Start-up times of nemotron, as ratios.")
    parser.add_argument("--rounds", type=int, default=9, help="how often each case runs (default 9)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_profiles(folder)
        make_repository(folder / REPOSITORY)
        # Bytecode is kept, as on a user's machine; the warm-up round writes it.
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment = {**inherited, "HOME": scratch, "NEMOTRON_HOME": f"{scratch}/home", "COLUMNS": "100"}
        found = cases(folder)
        for turn in range(rounds + 1):
            for case in found:
                measure(case, folder, environment)
                if turn == 0:
                    case.cpu.clear()
                    case.wall.clear()
    print(f"{rounds} rounds after one to warm up, {os.cpu_count()} cores, Python {sys.version.split()[0]}\n")
    return 0 if report(found) else 1


if __name__ == "__main__":
    sys.exit(main())

"""nano3's tiny chain as a user starts it: one command from an empty home; the seconds of each step and of all.

    uv run python benchmarks/chain.py             # prints a table, exit code 1 where it takes 12 minutes or more
    uv run python benchmarks/chain.py --no-cache  # with all packages downloaded anew

The steps' environments are made in it, of what uv has in its cache. Beside the whole the same command is run again, in
which nothing runs. `recipes/nano3/pipe/README.md` is to tell what this prints on two quiet cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

AIM = 12 * 60
PIPE = ("nano3", "pipe", "-c", "tiny")


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="Measure nano3's tiny chain.")
    parser.add_argument("--no-cache", action="store_true", help="with a cache of uv's that is empty too")
    cold = parser.parse_args().no_cache
    with tempfile.TemporaryDirectory() as top:
        project, environment = make_project(Path(top), cold)
        print(
            f"{os.cpu_count()} processors, a load of {os.getloadavg()[0]:.0f}, {time.strftime('%Y-%m-%d')}", flush=True
        )
        whole, text = timed(project, environment, *PIPE)
        steps = json.loads(timed(project, environment, "jobs", "show", "last", "--json")[1])["steps"]
        again, _ = timed(project, environment, *PIPE)
    print_table(steps, whole, again)
    print(text[text.index("\nstage ") :].rstrip())
    print(f"\nthe whole {whole / 60:.1f} min, the aim {AIM / 60:.0f}: {'met' if whole < AIM else 'missed'}")
    return int(whole >= AIM)


def make_project(top: Path, cold: bool) -> tuple[Path, dict[str, str]]:
    """An empty project, and the environment of a user whose home is empty."""
    project, home = top / "project", top / "home"
    project.mkdir()
    home.mkdir()
    (project / "pyproject.toml").write_text("[project]\nname = 'bench'\nversion = '0'\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NEMOTRON_", "XDG_", "WANDB_"))}
    cache = home / "uv" if cold else Path(os.environ.get("UV_CACHE_DIR") or Path.home() / ".cache" / "uv")
    return project, {**kept, "HOME": str(home), "UV_CACHE_DIR": str(cache), "HF_HUB_OFFLINE": "1"}


def timed(project: Path, environment: dict[str, str], *words: str) -> tuple[float, str]:
    """How long a command took, and what it printed; ends the benchmark where it fails."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "nemotron", *words]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return time.perf_counter() - start, done.stdout


def print_table(steps: list[dict[str, Any]], whole: float, again: float) -> None:
    """The seconds of each job, and of the command beside them: planning, environments, and what runs at a time."""
    print("\n| step | seconds |\n|---|--:|")
    for step in steps:
        print(f"| {step['step']} | {step['elapsed'] or 0:.0f} |")
    print(f"| all of it, from an empty home | {whole:.0f} |\n| the same command again | {again:.0f} |")


if __name__ == "__main__":
    sys.exit(main())

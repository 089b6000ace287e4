"""How long it takes to package a repository of 100,000 files, against `git archive HEAD | gzip` in the same run.

    uv run python benchmarks/package.py              # prints a table, exit code 1 where an aim is missed
    uv run python benchmarks/package.py --files 10000 --rounds 5

Every round runs every case once, as a process of its own, so that a busy moment hits all of them. The figure is the
median of the processor time of the process and its children, as in `bench.py`; wall time is shown beside it. A ratio is
taken to git and gzip.
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

THEIRS = "`git archive HEAD`, `gzip`"
WORDS = [b"import torch", b"def forward(self, x):", b"return self.layer(x)", b"# why", b"class Model(Module):", b""]


@dataclass
class Case:
    """One way. `stage`: what of ours runs, None for git's; `aim`: the largest ratio wanted."""

    name: str
    stage: str | None
    aim: float | None = None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def make_repository(folder: Path, files: int) -> None:
    """A repository with that many different files of about 2 kB, 100 in a folder, all committed."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    importer = subprocess.Popen(["git", "-C", str(folder), "fast-import", "--quiet"], stdin=subprocess.PIPE)
    assert importer.stdin is not None
    importer.stdin.write(b"commit refs/heads/main\ncommitter a <a@b> 1700000000 +0000\ndata 5\nfirst\n")
    for number in range(files):
        lines = [b"%s  # %d" % (WORDS[(number * 7 + line) % len(WORDS)], number * line) for line in range(80)]
        text = b"\n".join(lines)
        path = b"package_%03d/file_%05d.py" % (number // 100, number)
        importer.stdin.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(text), text))
    importer.stdin.close()
    if importer.wait():
        sys.exit("git fast-import failed")
    subprocess.run(["git", "-C", str(folder), "reset", "-q", "--hard"], check=True)


def measure(case: Case, folder: Path, home: Path) -> None:
    """Runs a case once and notes its times."""
    ours = [sys.executable, __file__, "--stage", case.stage or "", "--folder", str(folder)]
    theirs = ["sh", "-c", f"git -C '{folder}' archive --format=tar HEAD | gzip > '{home}/theirs.tar.gz'"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(ours if case.stage else theirs, env={**os.environ, "NEMOTRON_HOME": str(home)}, check=True)
    case.wall.append(time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    case.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def run_stage(stage: str, folder: Path) -> None:
    """`plan`: what a dry run does about the package; `pack`: that, and the archive."""
    from nemo_runspec.packaging.pack import pack
    from nemo_runspec.packaging.project_context import ProjectContext
    from nemo_runspec.packaging.summary import summarise_package

    package = summarise_package({"packager": "git"}, "local", ProjectContext(folder))
    if stage == "pack":
        pack(package, lambda line: None)


def report(cases: list[Case]) -> bool:
    """Prints the table. True where every aim is met."""
    walls, cpus = statistics.median(cases[0].wall), statistics.median(cases[0].cpu)
    met = True
    print("| way | CPU, median s | ratio | aim | | wall, median s | ratio |\n|---|--:|--:|--:|---|--:|--:|")
    for case in cases:
        wall, cpu = statistics.median(case.wall), statistics.median(case.cpu)
        good = case.aim is None or cpu / cpus <= case.aim
        met = met and good
        aim, verdict = (f"{case.aim:.2f}", "met" if good else "MISSED") if case.aim else ("", "")
        print(f"| {case.name} | {cpu:.2f} | {cpu / cpus:.2f} | {aim} | {verdict} | {wall:.2f} | {wall / walls:.2f} |")
    return met


def main() -> int:
    """0 where every aim is met, 1 otherwise."""
    parser = argparse.ArgumentParser(description="Packaging of a large repository, as ratios.")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="how often each case runs (default 3)")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stage:
        run_stage(asked.stage, asked.folder)
        return 0
    cases = [
        Case(THEIRS, None),
        Case("ours, first: plan and archive", "pack", 1.0),
        Case("ours, unchanged again", "pack", 0.25),
        Case("ours, the plan alone", "plan"),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        repository = Path(scratch) / "repository"
        make_repository(repository, asked.files)
        for turn in range(asked.rounds):
            home = Path(scratch) / f"home-{turn}"
            home.mkdir()
            for case in cases:
                measure(case, repository, home)
    return 0 if report(cases) else 1


if __name__ == "__main__":
    sys.exit(main())

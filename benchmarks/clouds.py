"""Jobs on clouds: a plan to a job id, `jobs status` of 1,000 jobs, a log that is fetched; requests are counted.

    uv run --group dev python benchmarks/clouds.py        # as root; prints a table, exit code 1 where an aim is missed
    uv run --group dev python benchmarks/clouds.py --megabytes 20 --rounds 3

Runs against the servers of the tests, which take no time of their own to speak of: a real platform adds its own for
every request, so that their number is what counts.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "lepton"), str(TESTS / "dgxcloud")]

from job_records import copies, record  # noqa: E402
from labs.lepton.lab import LeptonLab  # noqa: E402
from labs.runai.server import RunaiLab  # noqa: E402
from labs.web import WebLab  # noqa: E402
from lepton_jobs import planted  # noqa: E402
from runai_workloads import handle, workload  # noqa: E402

from nemo_runspec.records import JobStore  # noqa: E402

SUBMISSION_AIM, STATUS_AIM, JOBS = 8, 5, 1000
"""Requests of a submission; of the state of so many jobs."""

FOLLOW_AIM = 1.0
"""Megabytes per second."""

HEAVY = ("nemo_run", "leptonai", "ray", "torch", "pydantic", "rich")
"""What a submission must not import."""

LOADED = """
import atexit, sys
atexit.register(lambda: print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr))
from nemotron.cli.main import run
sys.exit(run(sys.argv[1:]))
"""

WRITES = """
import hashlib, os, sys
line = ("x" * 91 + "\\n")
whole = hashlib.sha256()
for number in range(int(sys.argv[1]) * 10_000):
    text = f"{number:07} {line}".encode()
    whole.update(text)
    os.write(1, text)
print(whole.hexdigest(), file=sys.stderr)
"""

LEPTON = """\
[cloud]
executor = "lepton"
container_image = "ubuntu:24.04"
node_group = "h100-pool"
resource_shape = "cpu.small"
nemo_run_dir = "/mnt/lustre/run"
mounts = [{ path = "/", mount_path = "/mnt/lustre", from = "node-nfs:lustre" }]
"""

RUNAI = """\
[cloud]
executor = "dgxcloud"
base_url = "{lab.base_url}"
kube_apiserver_url = "{lab.kube_url}"
client_id = "{lab.client_id}"
client_secret = "${{oc.env:RUNAI_CLIENT_SECRET}}"
project_name = "{lab.project}"
container_image = "ubuntu:24.04"
pvc_nemo_run_dir = "/data/run"
pvcs = [{{ claimName = "data", path = "/data" }}]
"""

Row = tuple[str, str, str, bool]
"""What was done, the figure, the aim, whether it is met."""


@dataclass(frozen=True)
class Cloud:
    """One platform: its server, a project's `env.toml` and environment, and jobs that run there, by their handles."""

    name: str
    executor: str
    labs: Sequence[WebLab]
    profile: str
    environment: Mapping[str, str]
    running: Callable[[int], list[dict[str, Any]]]

    def requests(self) -> int:
        """How many the server has had."""
        return sum(len(lab.calls) for lab in self.labs)


def seconds_of(action: Callable[[], object]) -> float:
    """How long it takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


class Project:
    """A folder with a script, whose jobs go to a cloud."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        folder.mkdir()
        (folder / "env.toml").write_text(cloud.profile)
        (folder / "train.py").write_text(WRITES)
        self.folder = folder
        self.environment = {**os.environ, **cloud.environment, "NEMOTRON_HOME": str(folder / "home")}

    def nemotron(self, *words: str, program: Sequence[str] = ("-m", "nemotron")) -> subprocess.CompletedProcess[str]:
        """`nemotron WORDS`, which must succeed."""
        done = subprocess.run(
            [sys.executable, *program, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"nemotron {' '.join(words)}: {done.stderr}")
        return done


def bench_submission(cloud: Cloud, project: Project, rounds: int) -> list[Row]:
    """From Enter to the job id, beside the dry run of the same command."""
    words = ("run", "./train.py", "--batch", "cloud")
    dry = [seconds_of(lambda: project.nemotron(*words, "--dry-run")) for _ in range(rounds)]
    before, sent = cloud.requests(), []
    for _ in range(rounds):
        sent.append(seconds_of(lambda: project.nemotron(*words, "--", "0")))
    requests = (cloud.requests() - before) / rounds
    loaded = project.nemotron(*words, "--", "0", program=("-c", LOADED)).stderr.rpartition("LOADED ")[2].split()
    found = [name for name in HEAVY if name in loaded]
    ratio = statistics.median(sent) / statistics.median(dry)
    return [
        (f"{cloud.name}: Enter to job id", f"{statistics.median(sent):.2f} s", "", True),
        (f"{cloud.name}: beside the dry run of the same command", f"{ratio:.1f} x", "", True),
        (f"{cloud.name}: its requests", f"{requests:g}", f"{SUBMISSION_AIM}", requests <= SUBMISSION_AIM),
        (f"{cloud.name}: heavy modules it imports", " ".join(found) or "none", "none", not found),
    ]


def bench_status(cloud: Cloud, project: Project, rounds: int) -> list[Row]:
    """How 1,000 jobs that run are: the whole command."""
    profile = {"profile": "cloud", "env_file": str(project.folder / "env.toml")}
    handles = [{**each, **profile} for each in cloud.running(JOBS)]
    one = record("one-1123-aaaaaaaa", ("planned", "running"), executor=cloud.executor, handle=handles[0])
    names = copies(JobStore(project.folder / "home" / "jobs"), one, handles)
    project.nemotron("jobs", "status", *names)
    before = cloud.requests()
    times = [seconds_of(lambda: project.nemotron("jobs", "status", *names)) for _ in range(rounds)]
    requests = (cloud.requests() - before) / rounds
    return [
        (f"{cloud.name}: jobs status of {JOBS:,} jobs", f"{statistics.median(times):.2f} s", "", True),
        (f"{cloud.name}: its requests", f"{requests:g}", f"{STATUS_AIM}", requests <= STATUS_AIM),
    ]


def bench_log(cloud: Cloud, project: Project, megabytes: int) -> list[Row]:
    """The log of a job that is over, every byte compared with what the job says it has written."""
    project.nemotron("run", "./train.py", "--batch", "cloud", "--", str(megabytes))
    project.nemotron("jobs", "wait", "last")
    taken: list[str] = []
    rate = megabytes / seconds_of(lambda: taken.append(project.nemotron("jobs", "logs", "last").stdout))
    *lines, said = taken[0].splitlines(keepends=True)
    whole = hashlib.sha256("".join(lines).encode()).hexdigest()
    if whole not in said:
        sys.exit(f"{cloud.name}: the log of {megabytes} MB is not what was written: {said}")
    return [(f"{cloud.name}: a log of {megabytes} MB", f"{rate:.1f} MB/s", f"{FOLLOW_AIM:g} MB/s", rate >= FOLLOW_AIM)]


def lepton(lab: LeptonLab) -> Cloud:
    """The Lepton workspace."""
    return Cloud("Lepton", "lepton", [lab], LEPTON, lab.environment(), lambda count: planted(lab, count, "Running"))


def runai(lab: RunaiLab) -> Cloud:
    """The run:ai project."""

    def running(count: int) -> list[dict[str, Any]]:
        made = [workload(lab, f"job-{n}", "Running") for n in range(count)]
        return [handle(lab, item.name, id=item.id) for item in made]

    environment = {"RUNAI_CLIENT_SECRET": lab.client_secret}
    return Cloud("DGX Cloud", "dgxcloud", [lab, lab.kube], RUNAI.format(lab=lab), environment, running)


def main() -> int:
    """0 where every aim is met, 1 otherwise."""
    parser = argparse.ArgumentParser(description="Jobs on clouds.")
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        labs = (LeptonLab(scratch / "lepton"), RunaiLab(scratch / "runai"))
        try:
            for cloud in (lepton(labs[0]), runai(labs[1])):
                project = Project(cloud, scratch / f"{cloud.name} project")
                rows += bench_submission(cloud, project, options.rounds)
                rows += bench_log(cloud, project, options.megabytes)
                rows += bench_status(cloud, project, options.rounds)
        finally:
            for lab in labs:
                lab.close()
    print(f"{options.rounds} rounds, {os.cpu_count()} cores, Python {sys.version.split()[0]}\n")
    print("| what | figure | aim | |\n|---|--:|--:|---|")
    for what, figure, aim, met in rows:
        print(f"| {what} | {figure} | {aim} | {('met' if met else 'MISSED') if aim else ''} |")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

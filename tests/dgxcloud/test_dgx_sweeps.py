"""Sweeps of jobs on run:ai, and what a submission must not import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from cloud_projects import ends, group_of
from dgx_project import Site, make_site, var, written
from labs.pods import needs_mounts

pytestmark = needs_mounts

SCRIPT = """\
import os, pathlib, sys
code = int(os.environ.get("CODE", "0"))
print("code", code, flush=True)
sys.exit(0 if pathlib.Path("/data/mended").exists() else code)
"""


@pytest.fixture
def site(runai_lab, project) -> Iterator[Site]:
    with make_site(runai_lab, project, SCRIPT) as found:
        yield found


def sweep(site: Site, mode: str, *codes: int):
    """Runs the script once with each exit code."""
    values = ",".join(f"'{code}'" for code in codes)
    return site.nemotron("run", "./train.py", "-m", mode, "dgx", f"++run.env.env_vars.CODE={values}")


def submissions(site: Site) -> int:
    """How many workloads were asked for."""
    return len(site.lab.calls_of("POST /workloads/*"))


def test_an_attached_sweep(site):
    """Each run is a workload by itself; the exit code is that of the first that has failed."""
    told = sweep(site, "--run", 0, 7, 0)
    assert told.code == 7, told.err
    assert "each run is a job by itself" in told.err
    assert submissions(site) == len({job.name for job in site.lab.jobs}) == 3
    assert sorted(job.phase for job in site.lab.jobs) == ["Completed", "Completed", "Failed"]
    assert ends(site, group_of(site)) == [("failed", 7), ("succeeded", 0), ("succeeded", 0)]
    assert site.lab.pods.running == []


def test_only_the_failed_runs_of_a_detached_sweep_run_again(site):
    group = sweep(site, "--batch", 0, 7, 9).succeeds().out.strip()
    assert group == group_of(site)
    waited = site.nemotron("jobs", "wait", group)
    assert waited.code in (7, 9), waited.err
    assert ends(site, group) == [("failed", 7), ("failed", 9), ("succeeded", 0)]
    site.opened("mended")
    again = site.nemotron("jobs", "retry", group).succeeds()
    assert f"{group}: 2 runs of 3 again" in again.err
    assert again.out.strip() == group, "what it can be waited for by"
    site.nemotron("jobs", "wait", group).succeeds()
    assert submissions(site) == len(site.lab.jobs) == 5
    assert sorted(written(job).partition("code ")[2][0] for job in site.lab.jobs[3:]) == ["7", "9"]
    assert ends(site, group) == [("failed", 7), ("failed", 9)] + [("succeeded", 0)] * 3
    site.nemotron("jobs", "retry", group).refuses(f"no run of sweep '{group}' has failed")
    assert (submissions(site), site.lab.pods.running) == (5, [])


HEAVY = {"nemo_run", "leptonai", "ray", "torch", "pydantic", "transformers", "numpy", "paramiko", "fabric", "wandb"}
REPORT = """
import sys
from nemotron.cli.main import run
try:
    code = run(sys.argv[1:])
finally:
    print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(code)
"""


def test_a_submission_imports_nothing_heavy(site):
    """Attached: nor does following the job to its end."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, "run", "./train.py", "--run", "dgx", *var(CODE=0)],
        cwd=site.project.folder,
        env=site.project.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert submissions(site) == len(site.lab.jobs) == 1
    loaded = set(done.stderr.rpartition("LOADED ")[2].split())
    assert "requests" in loaded, "what was asked was asked from this very process"
    assert loaded & HEAVY == set()
    assert (site.lab.jobs[0].phase, site.lab.pods.running) == ("Completed", [])

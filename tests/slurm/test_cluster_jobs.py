"""The rendered scripts of a plan, staged, submitted and run on a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, put, slurm_plan, start, tasks_said, wait
from support import contents

from nemo_runspec.backends.slurm.cluster.stage import probe

pytestmark = needs_slurm

WHO = """
import os
print(*(os.environ[name] for name in ("NEMOTRON_NODE_RANK", "RANK", "WORLD_SIZE", "NEMOTRON_NUM_NODES")), os.uname()[1])
"""


@pytest.fixture
def lab(slurm_lab: SlurmLab) -> SlurmLab:
    return slurm_lab


@pytest.fixture
def host(lab: SlurmLab) -> LabHost:
    return LabHost(lab)


def test_two_nodes(host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, WHO, nodes=2)
    assert not probe(host, plan.job_dir).job
    job = start(host, plan)
    seen = wait(host, job)
    assert (seen.state, seen.exit_code, seen.nodes) == ("succeeded", 0, "n[1-2]")
    assert sorted(tasks_said(plan, job).splitlines()) == ["[rank0] 0 0 2 2 n1", "[rank1] 1 1 2 2 n2"]
    assert [marker.host for marker in seen.markers] == ["n1", "n2"]
    found = probe(host, plan.job_dir)
    assert (found.job, found.home) == (True, host.environment["HOME"])


def test_processes_of_a_node_are_tasks_under_direct(host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, WHO, nodes=2, processes=2)
    job = start(host, plan)
    assert wait(host, job).state == "succeeded"
    said = sorted(tasks_said(plan, job).splitlines())
    assert [line.split()[1:3] for line in said] == [["0", "0"], ["0", "1"], ["1", "2"], ["1", "3"]]


def test_how_it_ended_arrives(slurm_lab_plain: SlurmLab, tmp_path: Path):
    """Exit codes, a signal that is not one, and `exec` in a startup command."""
    host = LabHost(slurm_lab_plain)
    jobs = {}
    for code in (1, 42, 143):
        script = f"import os, sys; sys.exit({code} if os.environ['RANK'] == '1' else 0)"
        jobs[code] = start(host, slurm_plan(tmp_path / str(code), script, nodes=2))
    script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    killed = start(host, slurm_plan(tmp_path / "killed", script))
    never = start(host, slurm_plan(tmp_path / "never", "print('never')", setup=("exec true",)))
    for code, job in jobs.items():
        seen = wait(host, job)
        assert (seen.state, seen.exit_code, "rank 1" in seen.reason) == ("failed", code, True)
    seen = wait(host, killed)
    assert (seen.state, seen.exit_code, seen.signal) == ("failed", 139, 11)
    seen = wait(host, never)
    assert (seen.slurm_state, seen.state, seen.exit_code) == ("FAILED", "failed", 1)
    assert "ended the script before the command" in seen.reason


def test_secrets_arrive_and_are_gone_afterwards(host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, "import os; print(len(os.environ['TOKEN']), os.environ['TOKEN'][:2])", nodes=2)
    value = "q'" + "s3cr3t" * 5 + ' $HOME "x"\nline'
    put(host, plan, secrets={"TOKEN": value})
    file = Path(plan.job_dir) / "secrets.env"
    assert file.stat().st_mode & 0o777 == 0o600
    job = start(host, plan)
    assert wait(host, job).state == "succeeded"
    assert sorted(tasks_said(plan, job).splitlines()) == [f"[rank{rank}] {len(value)} q'" for rank in (0, 1)]
    assert not file.exists()
    assert [path for path, content in contents(Path(plan.job_dir)).items() if b"s3cr3t" in content] == []


def test_in_a_container(host: LabHost, lab: SlurmLab, tmp_path: Path):
    image = lab.base / "images" / "job.sqsh"
    if not image.exists():
        lab.image("job", {"/etc/lab-release": "made for tests\n"})
    script = "import os; print(open('/etc/lab-release').read().strip(), os.getcwd(), os.environ['NEMOTRON_JOB_DIR'],"
    script += "len(os.environ['NEMOTRON_NODE_IPS'].split()), os.environ['NEMOTRON_SETUP_DONE'])"
    plan = slurm_plan(tmp_path, script, {"container_image": str(image)}, nodes=2)
    job = start(host, plan, secrets={"TOKEN": "x"})
    seen = wait(host, job)
    assert (seen.state, seen.reason) == ("succeeded", ""), tasks_said(plan, job)
    expected = "made for tests /nemo_run/code /nemo_run 2 1"
    assert sorted(tasks_said(plan, job).splitlines()) == [f"[rank{rank}] {expected}" for rank in (0, 1)]
    assert not (Path(plan.job_dir) / "secrets.env").exists()


def test_a_node_that_is_done_early_does_not_end_the_others(host: LabHost, tmp_path: Path):
    """NeMo-Run's `srun --wait=60` would kill them a minute later; here, after two seconds."""
    script = "import os, time; time.sleep(6 if os.environ['RANK'] == '1' else 0); print('done')"
    plan = slurm_plan(tmp_path, script, nodes=2)
    put(host, plan)
    for file in Path(plan.job_dir).glob("*_sbatch.sh"):
        text = file.read_text()
        assert "--wait=60" in text
        file.write_text(text.replace("--wait=60", "--wait=2"))
    job = start(host, plan)
    seen = wait(host, job)
    assert (seen.state, seen.exit_code) == ("succeeded", 0), seen


def test_a_failed_job_is_tried_again(host: LabHost, tmp_path: Path):
    script = f"""
    import pathlib, sys
    mark = pathlib.Path({str(tmp_path)!r}, "tried")
    tried = mark.exists()
    mark.touch()
    print("attempt", int(tried))
    sys.exit(0 if tried else 9)
    """
    plan = slurm_plan(tmp_path, script, {"retries": 1})
    job = start(host, plan)
    seen = wait(host, job)
    assert (seen.state, seen.restarts, seen.exit_code) == ("succeeded", 1, 0)
    for attempt in (0, 1):
        assert f"attempt {attempt}\n" in tasks_said(plan, job, attempt)

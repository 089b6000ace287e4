"""What programs of a site say beside their answers: notices, a library that is missing, numbers of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, Login, command, job_of, jobs_called, put, slurm_plan, talking, wait

from nemo_runspec.backends.slurm.client import SlurmProvider
from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.backends.slurm.cluster.stop import request_stop
from nemo_runspec.backends.slurm.cluster.submit import NotSubmitted, SlurmSubmission, Submitted, find, submit
from nemo_runspec.backends.slurm.executor import job_name
from nemo_runspec.backends.slurm.observe import collect_results, job_statuses
from nemo_runspec.backends.slurm.preflight.checks import fast_checks
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan

pytestmark = needs_slurm

PRELOAD = {"LD_PRELOAD": "/opt/site/lib/libnone.so"}
"""Every program there begins with a line `ERROR: ld.so: object … cannot be preloaded` on its error stream."""

KINDS = ("preload", "errors-before", "errors-after", "errors-late", "output-before", "output-after")


def noisy(lab: SlurmLab, top: Path, kind: str, number: str) -> LabHost:
    """A login node where each program says something of its own, the id of another job too."""
    if kind == "preload":
        return LabHost(lab, **PRELOAD)
    said = f"NOTICE: {number} PENDING RUNNING COMPLETED maintenance on Friday\n{number}\n{number}|RUNNING|n1"
    where, when = kind.split("-")
    line = f"printf '%s\\n' '{said}'" + (" >&2" if where == "errors" else "")
    # A process that goes on for a moment says it once the program has ended.
    line = f"(sleep 0.3; {line}) &" if when == "late" else line
    return LabHost(lab, talking(top / kind, **{"after" if when == "after" else "before": line}))


@pytest.fixture
def plan(slurm_lab: SlurmLab, tmp_path: Path) -> Plan:
    made = slurm_plan(tmp_path, "import time; time.sleep(600)")
    put(LabHost(slurm_lab), made)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_goes_its_way(slurm_lab: SlurmLab, plan: Plan, tmp_path: Path, kind: str):
    """Submitted once, found, seen and ended, whatever is said beside the answers; no other job is touched."""
    bystander = slurm_lab.submit("sleep 600")
    host = noisy(slurm_lab, tmp_path, kind, bystander)
    assert find(host, SlurmSubmission(job_name(plan), plan.job_dir)) is None
    assert fast_checks(host, plan) == []
    first = submit(host, job_of(plan))
    assert jobs_called(slurm_lab, job_name(plan)) == [first.id]
    job = SlurmJobRef(first.id, plan.job_dir)
    wait(host, job, "running")
    slurm_lab.wait_for(bystander, "RUNNING")
    note = Path(plan.job_dir, ".slurm_id")
    for doubt in ("", "ERROR:\n", "\n", f"NOTICE: {bystander}\n"):  # no note of its own, and one that holds no id
        note.write_text(doubt) if doubt else note.unlink()
        assert find(host, SlurmSubmission(job_name(plan), plan.job_dir)) == Submitted(first.id, adopted=True)
        assert note.read_text() == f"{first.id}\n"
        assert slurm_lab.state(first.id) == "RUNNING", "a job that was only looked for has been cancelled"
    request_stop(host, [job], "the test")
    assert wait(host, job).state == "cancelled"
    assert slurm_lab.state(bystander) == "RUNNING"


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_two_by_its_name_is_ended(slurm_lab: SlurmLab, plan: Plan, tmp_path: Path, kind: str):
    """As after an answer that was lost: the first one stays, and nothing but the second is cancelled."""
    bystander = slurm_lab.submit("sleep 600")
    host = noisy(slurm_lab, tmp_path, kind, bystander)
    both = [slurm_lab.submit("sleep 600", f"--job-name={job_name(plan)}") for _ in range(2)]
    assert submit(host, job_of(plan)) == Submitted(both[0], adopted=True)
    slurm_lab.wait_for(both[1], "CANCELLED")
    assert [slurm_lab.state(job) in ("RUNNING", "PENDING") for job in (both[0], bystander)] == [True, True]


def test_what_sbatch_has_to_say_is_said_once(slurm_lab: SlurmLab, plan: Plan, tmp_path: Path):
    folder = talking(tmp_path / "site", "echo 'sbatch: this job costs 12 credits' >&2", programs=("sbatch",))
    host, said = LabHost(slurm_lab, folder, **PRELOAD), list[str]()
    submit(host, job_of(plan), said.append)
    submit(host, job_of(plan), said.append)
    assert said == ["sbatch on lab: sbatch: this job costs 12 credits"]


def test_an_id_that_is_hidden_is_found(slurm_lab: SlurmLab, plan: Plan, tmp_path: Path):
    """A wrapper that prints no id, or one around it; the job's name says which it is."""
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    command(hiding / "sbatch", '/usr/bin/sbatch "$@" > /dev/null && echo "thank you for job 1"')
    first = submit(LabHost(slurm_lab, str(hiding)), job_of(plan))
    assert jobs_called(slurm_lab, job_name(plan)) == [first.id]


def test_a_job_that_nobody_names_is_not_submitted(slurm_lab: SlurmLab, plan: Plan, tmp_path: Path):
    refusing = tmp_path / "refusing"
    refusing.mkdir()
    command(refusing / "sbatch", 'case "$*" in *test-only*) exec /usr/bin/sbatch "$@" ;; esac; echo "closed today"')
    with pytest.raises(NotSubmitted, match="named no job, and Slurm lists none by this name: closed today"):
        submit(LabHost(slurm_lab, str(refusing)), job_of(plan))
    assert jobs_called(slurm_lab, job_name(plan)) == []
    submit(LabHost(slurm_lab), job_of(plan))
    assert len(jobs_called(slurm_lab, job_name(plan))) == 1


@pytest.mark.parametrize("kind", ["preload", "errors-before"])
def test_chatter_is_no_reason(slurm_lab: SlurmLab, tmp_path: Path, kind: str):
    plan = slurm_plan(tmp_path, "", {"account": "nobody"})
    host = noisy(slurm_lab, tmp_path, kind, "4711")
    put(host, plan)
    with pytest.raises(UserError) as caught:
        submit(host, job_of(plan))
    checked = fast_checks(host, plan)
    for said in (str(caught.value), str(checked[0].error())):
        assert "you may not use the account" in said
        assert "your accounts: acme" in said
        assert not any(word in said for word in ("ld.so", "LD_PRELOAD", "NOTICE", "4711"))


def test_chatter_is_no_evidence(slurm_lab: SlurmLab, tmp_path: Path):
    """The job has the login shell's variables: its log is full of it. What its program said last is shown."""
    host = LabHost(slurm_lab, **PRELOAD)
    plan = slurm_plan(tmp_path, "print('no data for 2019'); raise SystemExit(7)")
    put(host, plan)
    handle = {**SlurmProvider().make_handle(plan), "id": submit(host, job_of(plan)).id}
    assert wait(host, SlurmJobRef(handle["id"], plan.job_dir)).exit_code == 7
    found = collect_results(host, [handle], job_statuses(host, [handle]))[0].diagnosis
    assert found is not None
    assert "no data for 2019" in found.evidence
    assert "LD_PRELOAD" not in f"{found.evidence} {found.what}"
    log = (Path(plan.job_dir) / f"log-{job_name(plan)}_{handle['id']}_0.out").read_text()
    assert "LD_PRELOAD" in log, "the job has no such lines, so that nothing was seen"


def test_over_ssh(slurm_lab: SlurmLab, plan: Plan, tmp_path: Path):
    """As a user's own machine reaches it: a banner, a profile that writes, wrappers in `PATH`."""
    said = "printf 'Welcome to the cluster\\n4711\\n' >&2; printf '4711\\n'"
    with Login(slurm_lab, path=talking(tmp_path / "site", said)) as login:
        first = submit(login, job_of(plan))
        assert jobs_called(slurm_lab, job_name(plan)) == [first.id]
        assert wait(login, SlurmJobRef(first.id, plan.job_dir), "running").state == "running"
        request_stop(login, [SlurmJobRef(first.id, plan.job_dir)], "the test")
        assert wait(login, SlurmJobRef(first.id, plan.job_dir)).state == "cancelled"


@pytest.mark.parametrize("squeue", ["exit 1", "exit 0", "echo"])
def test_two_numbers_and_a_squeue_that_does_not_say_which(slurm_lab: SlurmLab, plan: Plan, tmp_path: Path, squeue: str):
    """Neither is believed before the job's name confirms it: the other one may be a job that runs."""
    bystander = slurm_lab.submit("sleep 600")
    site, seen = tmp_path / "site", tmp_path / "asked"
    site.mkdir()
    command(site / "sbatch", f'echo {bystander}; /usr/bin/sbatch "$@"; touch {seen}')
    once = f"[ -e {seen} ] && [ ! -e {seen}.twice ] && {{ touch {seen}.twice; {squeue}; exit; }}"
    command(site / "squeue", f'{once}\nexec /usr/bin/squeue "$@"')
    first = submit(LabHost(slurm_lab, str(site)), job_of(plan), pauses=(0.0, 0.0), sleep=lambda _: None)
    assert jobs_called(slurm_lab, job_name(plan)) == [first.id]
    assert first.id != bystander
    assert Path(plan.job_dir, ".slurm_id").read_text() == f"{first.id}\n"

"""Attempts of a job: what it is told before an end, whether it is started again, and what stays meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from job_fixtures import torch_bin
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, closed, command, configured, see, slurm_plan, start, tasks_said, wait
from waiting import until

from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.plans.model import Plan

__all__ = ["torch_bin"]

pytestmark = needs_slurm

SECRETS = {"TOKEN": "s3cr3t"}
COUNTS = """
import os, pathlib, signal, sys, time
me = os.environ["NEMOTRON_ATTEMPT"] + "-" + os.environ["RANK"]
heard = []

def hear(number, _):
    heard.append(signal.Signals(number).name)
    print("heard", heard[-1], flush=True)

for name in ("SIGTERM", "SIGUSR1"):
    signal.signal(getattr(signal, name), hear)
print("begun", os.environ["NEMOTRON_ATTEMPT"], len(os.environ["TOKEN"]), flush=True)
pathlib.Path({folder!r}, "begun-" + me).touch()
end = time.time() + ({seconds} if me.startswith("0-") else {again})
while not heard and time.time() < end:
    time.sleep(0.1)
until = time.time() + {pause}
while time.time() < until:
    time.sleep(0.1)
sys.exit({code} if heard else 0)
"""


@pytest.fixture(scope="module")
def lab(slurm_lab_plain: SlurmLab) -> Iterator[SlurmLab]:
    """With time: what is seen here is what a batch script does between its TERM and its KILL."""
    with configured(slurm_lab_plain, KillWait=20):
        yield slurm_lab_plain


@pytest.fixture
def host(lab: SlurmLab) -> LabHost:
    return LabHost(lab)


def attempts(plan: Plan) -> list[str]:
    """What became of each attempt."""
    file = Path(plan.job_dir) / "status" / "attempts"
    lines = file.read_text().splitlines() if file.exists() else []
    return [dict(word.split("=", 1) for word in line.split()[:3])["fate"] for line in lines]


def secrets_of(plan: Plan) -> Path:
    return Path(plan.job_dir) / "secrets.env"


def counting(
    folder: Path, profile: dict[str, Any], *, again: float = 600, pause: float = 1, code: int = 0, **values: Any
) -> Plan:
    """A plan whose command says what signals it hears, and ends some time (`pause`) after the first one.

    Args:
        again: seconds after which a later attempt ends without one.
    """
    folder.mkdir(exist_ok=True)
    script = COUNTS.format(folder=str(folder), seconds=600, again=again, pause=pause, code=code)
    values = {"nodes": 2, **values}
    return slurm_plan(folder, script, profile, **values)


def begun(folder: Path, attempt: int = 0) -> None:
    """Waits for both commands of an attempt."""
    until(lambda: len(list(folder.glob(f"begun-{attempt}-*"))) == 2, f"attempt {attempt}")


def heard(plan: Plan, job: SlurmJobRef, attempt: int = 0) -> list[str]:
    """What each rank heard."""
    return sorted(line for line in tasks_said(plan, job, attempt).splitlines() if " heard " in line)


def end_at(lab: SlurmLab, job: SlurmJobRef, seconds: int) -> None:
    """Moves a running job's end."""
    lab.run("scontrol", "update", f"JobId={job.id}", f"EndTime=now+{seconds}")


@pytest.mark.parametrize("image", ["", "attempts"], ids=["plain", "container"])
def test_a_failed_job_keeps_its_secrets_until_its_last_attempt(
    host: LabHost, lab: SlurmLab, tmp_path: Path, image: str
):
    script = """
    import os, sys
    print("attempt", os.environ["NEMOTRON_ATTEMPT"], os.environ["TOKEN"][:2])
    sys.exit(9)
    """
    plan = slurm_plan(tmp_path, script, {"retries": 1, "container_image": image and lab.image(image)})
    job = start(host, plan, secrets=SECRETS)
    seen = wait(host, job)
    assert (seen.state, seen.restarts, seen.exit_code) == ("failed", 1, 9)
    assert [marker.attempt for marker in seen.markers] == [1]
    assert tasks_said(plan, job).splitlines() == ["attempt 0 s3"]
    assert tasks_said(plan, job, 1).splitlines() == ["nemotron: attempt 2 of 2", "attempt 1 s3"]
    assert attempts(plan) == ["retried", "over"]
    assert not secrets_of(plan).exists()


def test_before_a_time_limit_the_command_is_signalled_once(host: LabHost, lab: SlurmLab, tmp_path: Path):
    """Four jobs at once, as Slurm looks at its clocks twice a minute. With `resume`, 0 is a checkpoint, not the end.

    What is continued has the limit that ended it: it does not begin again before it is given another.
    """
    plans = {
        "step": counting(tmp_path / "step", {"signal": "TERM@30"}, code=3),
        "batch": counting(tmp_path / "batch", {"signal": "B:USR1@30", "retries": 1}),
        "resume": counting(tmp_path / "resume", {"resume": True, "signal": "TERM@30"}),
        "deaf": counting(tmp_path / "deaf", {"resume": True, "max_restarts": 1}, pause=600),
    }
    jobs = {name: start(host, plan, secrets=SECRETS) for name, plan in plans.items()}
    for name in plans:
        begun(tmp_path / name)
        assert secrets_of(plans[name]).stat().st_mode & 0o777 == 0o600
    with closed(lab):
        for name, job in jobs.items():
            end_at(lab, job, 70 if name != "deaf" else 1)
        for name in ("deaf", "resume"):
            until(lambda plan=plans[name]: attempts(plan) == ["continued"], f"the end of {name}", seconds=240)
            # That is written before Slurm is asked; until then the job is over, and its limit cannot be changed.
            until(lambda job=jobs[name]: see(host, job).restarts == 1, f"{name} in the queue again")
            lab.run("scontrol", "update", f"JobId={jobs[name].id}", "TimeLimit=60")

    seen = wait(host, jobs["step"], seconds=240)
    assert (seen.slurm_state, seen.exit_code, seen.restarts) == ("FAILED", 3, 0)
    seen = wait(host, jobs["batch"], seconds=240)
    assert (seen.slurm_state, seen.exit_code, seen.restarts) == ("COMPLETED", 0, 0)
    for name, signal in (("step", "SIGTERM"), ("batch", "SIGUSR1"), ("resume", "SIGTERM")):
        assert heard(plans[name], jobs[name]) == [f"[rank{rank}] heard {signal}" for rank in (0, 1)]
    for name in ("step", "batch"):
        assert attempts(plans[name]) == ["over"]
        assert not secrets_of(plans[name]).exists()

    for name, most in (("resume", 11), ("deaf", 2)):
        begun(tmp_path / name, 1)
        assert attempts(plans[name]) == ["continued"]
        assert secrets_of(plans[name]).exists()
        said = f"nemotron: attempt 2 of {most}\n"  # on its way to the log still, while the command has begun
        until(lambda name=name: tasks_said(plans[name], jobs[name], 1), said, lambda log, said=said: said in log)
        assert heard(plans[name], jobs[name], 1) == []
    lab.run("scancel", jobs["resume"].id, jobs["deaf"].id)
    for name in ("resume", "deaf"):
        wait(host, jobs[name])
        assert attempts(plans[name]) == ["continued", "over"]
        assert not secrets_of(plans[name]).exists()


def test_a_command_that_ends_with_0_is_not_always_done(host: LabHost, lab: SlurmLab, tmp_path: Path):
    """With `resume` it may have written a checkpoint only. The same is said once Slurm has forgotten the jobs."""
    refusing = tmp_path / "refusing"
    refusing.mkdir()
    command(refusing / "scontrol", '[ "$1" != requeue ] && exec /usr/bin/scontrol "$@"')
    profiles: dict[str, dict[str, Any]] = {
        "spent": {"resume": True, "max_restarts": 0},
        "refused": {"resume": True, "setup_lines": f"PATH={refusing}:$PATH"},
        "chosen": {},
    }
    plans = {name: counting(tmp_path / name, {"signal": "TERM@215", **each}) for name, each in profiles.items()}
    jobs = {name: start(host, plan, secrets=SECRETS) for name, plan in plans.items()}
    for name, job in jobs.items():
        begun(tmp_path / name)
        # As Slurm does it 215 s before the end, or up to a minute earlier.
        lab.run(
            "scancel", "--batch", "--signal=TERM", job.id, check=False
        )  # Slurm may have done it, and the job be over
    for name in ("squeue", "sacct"):
        command(tmp_path / name, "")
    seen = {name: wait(host, job) for name, job in jobs.items()}
    assert [job.slurm_state for job in seen.values()] == ["FAILED", "FAILED", "COMPLETED"]
    cut = "SIGTERM before the time limit"
    for name, job in jobs.items():
        for found in (seen[name], see(LabHost(lab, path=str(tmp_path)), job)):
            assert (found.state, found.exit_code, found.reason) == {
                "spent": ("failed", 124, f"{cut}; max_restarts = 0 is reached, exit code 124"),
                "refused": ("failed", 124, f"{cut}; the job is continued, but it cannot be requeued, exit code 124"),
                "chosen": ("succeeded", 0, f"done, though cut short: {cut}"),
            }[name]
        assert not secrets_of(plans[name]).exists()
    assert [attempts(plan) for plan in plans.values()] == [["over"], ["continued", "over"], ["over"]]


def test_a_job_is_put_back_though_the_call_for_it_is_struck(host: LabHost, lab: SlurmLab, tmp_path: Path):
    """At their time limit, three at once for its clock. Slurm sends TERM to every process of a job, and twice."""
    strikes = {
        "ended": 'kill -TERM $$; exec /usr/bin/scontrol "$@"',
        "unanswered": '/usr/bin/scontrol "$@"; exit 1',
        "refused": 'mkdir "$0.1" || mkdir "$0.2" || exec /usr/bin/scontrol "$@"; exit 1',
    }
    plans = {}
    for name, strike in strikes.items():
        folder = tmp_path / name
        folder.mkdir()
        command(folder / "scontrol", f'[ "$1" = requeue ] || exec /usr/bin/scontrol "$@"; {strike}')
        if name == "ended":
            command(folder / "squeue", 'mkdir "$0.1" 2> /dev/null && kill -TERM $$; exec /usr/bin/squeue "$@"')
        profile = {"resume": True, "setup_lines": f"PATH={folder}:$PATH"}
        plans[name] = counting(folder, profile, pause=600)
    jobs = {name: start(host, plan, secrets=SECRETS) for name, plan in plans.items()}
    for name, job in jobs.items():
        begun(tmp_path / name)
        end_at(lab, job, 1)
    for name, job in jobs.items():
        until(lambda job=job: see(host, job).restarts == 1, f"{name} in the queue again")
        assert attempts(plans[name]) == ["continued"]
        assert secrets_of(plans[name]).exists()
    assert (tmp_path / "ended" / "squeue.1").exists()


def test_setup_lines_that_end_the_batch_script(host: LabHost, tmp_path: Path):
    plans = {code: slurm_plan(tmp_path / str(code), "", {"setup_lines": f"exit {code}"}) for code in (5, 0)}
    jobs = {code: start(host, plan) for code, plan in plans.items()}
    for code, job in jobs.items():
        seen = wait(host, job)
        assert (seen.state, seen.slurm_state, seen.exit_code) == ("failed", "FAILED", code or 1)
        assert seen.reason == f"setup_lines ended the batch script before its command, exit code {code or 1}"
        batch = next(Path(plans[code].job_dir).glob("sbatch_*.out")).read_text()
        assert "nemotron_batch" not in batch
        assert batch.splitlines()[-1] == "nemotron: attempt 1: setup_lines ended the batch script before its command"


@pytest.mark.parametrize("way", ["--signal=TERM", "--batch"])
def test_a_signal_to_the_job_reaches_the_command_once(host: LabHost, lab: SlurmLab, tmp_path: Path, way: str):
    """Sent to the step it reaches every process there. Far from the time limit it is no checkpoint's: it ends there."""
    image = lab.image(f"signals{way[2]}")
    profile = {"resume": True, "time": "01:00:00", "container_image": image, "mounts": [f"{tmp_path}:{tmp_path}"]}
    plan = counting(tmp_path, profile)
    job = start(host, plan, secrets=SECRETS)
    begun(tmp_path)
    lab.run("scancel", "--signal=TERM", way, job.id)
    assert (wait(host, job).state, attempts(plan)) == ("succeeded", ["over"])
    assert heard(plan, job) == [f"[rank{rank}] heard SIGTERM" for rank in (0, 1)]


def test_a_preempted_job_is_continued_until_max_restarts(host: LabHost, lab: SlurmLab, tmp_path: Path):
    """In a partition that cancels what it preempts; where it requeues, Slurm does it itself."""
    lab.run("scontrol", "update", "PartitionName=backfill", "PreemptMode=CANCEL")
    try:
        profile = {"resume": True, "max_restarts": 1, "partition": "backfill", "exclusive": True}
        plan = counting(tmp_path, profile)
        job = start(host, plan, secrets=SECRETS)
        for attempt in (0, 1):
            begun(tmp_path, attempt)
            assert secrets_of(plan).exists()
            lab.submit("true", "--nodes=4", "--exclusive", "--partition=batch")
            until(lambda n=attempt: len(attempts(plan)) == n + 1, "the preemption")
        seen = wait(host, job)
    finally:
        lab.run("scontrol", "update", "PartitionName=backfill", "PreemptMode=REQUEUE")
    assert (seen.slurm_state, attempts(plan)) == ("PREEMPTED", ["continued", "over"])
    assert not secrets_of(plan).exists()


def test_slurms_own_requeue_keeps_the_secrets(host: LabHost, lab: SlurmLab, tmp_path: Path):
    """A node that is set down. The second attempt ends by itself, with 0."""
    plan = counting(tmp_path, {}, again=0)
    job = start(host, plan, secrets=SECRETS)
    begun(tmp_path)
    lab.set_node_down("n2")
    seen = wait(host, job)
    assert (seen.state, seen.restarts) == ("succeeded", 1)
    assert attempts(plan) == ["slurm", "over"]
    assert sum(" begun 1 6" in line for line in tasks_said(plan, job, 1).splitlines()) == 2
    assert not secrets_of(plan).exists()


def test_a_cancelled_job_is_not_tried_again(host: LabHost, lab: SlurmLab, tmp_path: Path):
    """Not after its command has failed; nor where Slurm's end of it did not come through while it waited."""
    script = """
    import pathlib, time
    pathlib.Path({folder!r}, "begun").touch()
    while not pathlib.Path({folder!r}, "go").exists():
        time.sleep(0.1)
    raise SystemExit(5)
    """
    folders = (tmp_path / "failing", tmp_path / "waiting")
    failing, waiting = (slurm_plan(top, script.format(folder=str(top)), {"retries": 3}) for top in folders)
    first, second = start(host, failing, secrets=SECRETS), start(host, waiting, secrets=SECRETS)
    for folder in folders:
        until((folder / "begun").exists, "the command's begin")
    (Path(failing.job_dir) / "status" / "cancelled").write_text("a test\n")
    with closed(lab):
        for folder in folders:
            (folder / "go").touch()
        until(lambda: attempts(waiting) == ["retried"], "the second job's requeue")
        (Path(waiting.job_dir) / "status" / "cancelled").write_text("a test\n")
    assert (wait(host, first).restarts, attempts(failing)) == (0, ["over"])
    seen = wait(host, second)
    assert (seen.state, seen.reason, attempts(waiting)) == ("cancelled", "cancelled by a test", ["retried", "over"])
    assert tasks_said(waiting, second, 1) == ""
    assert not secrets_of(failing).exists()
    assert not secrets_of(waiting).exists()


def test_the_ranks_of_torchrun_are_signalled_once_and_torchrun_is_not(lab: SlurmLab, torch_bin: Path, tmp_path: Path):
    """It would send TERM on, kill its ranks 30 s later, and die of USR1 itself."""
    host = LabHost(lab, path=str(torch_bin))
    shape = {"launch": "torchrun", "nodes": 1, "processes": 2, "pause": 3}
    plans = [counting(tmp_path / name, {}, **shape) for name in ("USR1", "TERM")]
    jobs = [start(host, plan, secrets=SECRETS) for plan in plans]
    for job, name in zip(jobs, ("USR1", "TERM"), strict=True):
        begun(tmp_path / name)
        lab.run("scancel", "--batch", f"--signal={name}", job.id)
    for plan, job, name in zip(plans, jobs, ("USR1", "TERM"), strict=True):
        assert wait(host, job).state == "succeeded", tasks_said(plan, job)
        assert heard(plan, job) == [f"[rank{rank}] heard SIG{name}" for rank in (0, 1)]


def test_a_failing_rank_leaves_the_others_time_to_end(host: LabHost, tmp_path: Path):
    """srun's --kill-on-bad-exit=1 would end them at once."""
    script = """
    import os, pathlib, signal, sys, time
    ready = pathlib.Path({ready!r})
    def save(*_):
        time.sleep(4)
        print("saved", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    if os.environ["RANK"] == "1":
        while not ready.exists():
            time.sleep(0.1)
        sys.exit(7)
    ready.touch()
    time.sleep(600)
    """
    plan = slurm_plan(tmp_path, script.format(ready=str(tmp_path / "ready")), nodes=2)
    job = start(host, plan)
    seen = wait(host, job)
    assert (seen.state, seen.exit_code) == ("failed", 7)
    assert [(marker.node, marker.exit_code) for marker in seen.markers] == [(0, 0), (1, 7)]
    assert "saved" in tasks_said(plan, job)


def test_a_node_that_dies_without_a_word_ends_the_job(host: LabHost, tmp_path: Path):
    script = """
    import os, pathlib, signal, time
    if os.environ["RANK"] == "1":
        rank = os.getppid()
        node = int(pathlib.Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])
        for pid in (node, rank, os.getpid()):
            os.kill(pid, signal.SIGKILL)
    time.sleep(600)
    """
    plan = slurm_plan(tmp_path, script, nodes=2)
    job = start(host, plan, secrets=SECRETS)
    seen = wait(host, job)
    assert (seen.state, seen.exit_code != 0) == ("failed", True)
    assert 1 not in [marker.node for marker in seen.markers]
    assert not secrets_of(plan).exists()


def test_the_secrets_of_an_array_go_with_its_last_task(host: LabHost, tmp_path: Path):
    script = """
    import os, sys, time
    while os.environ["SLURM_ARRAY_TASK_ID"] == "1" and not os.path.exists({go!r}):
        time.sleep(0.1)
    sys.exit(len(os.environ["TOKEN"]) - 6)
    """
    plan = slurm_plan(tmp_path, script.format(go=str(tmp_path / "go")), {"array": "0-1"})
    job = start(host, plan, secrets=SECRETS)
    over = Path(plan.job_dir) / "status" / "over-0"
    wait(host, SlurmJobRef(f"{job.id}_0"))
    assert over.exists()
    assert secrets_of(plan).exists()
    (tmp_path / "go").touch()
    assert wait(host, job).state == "succeeded"
    assert not secrets_of(plan).exists()

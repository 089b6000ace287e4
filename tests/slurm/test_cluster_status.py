"""What becomes of jobs is seen in one round trip, whichever of Slurm's parts is away, late or has forgotten them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, closed, configured, see, slurm_plan, start, tasks_said, wait
from waiting import until

from nemo_runspec.backends.slurm.array import stop_tasks as end_tasks
from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.backends.slurm.cluster.stage import probe
from nemo_runspec.backends.slurm.cluster.status import query_jobs
from nemo_runspec.backends.slurm.cluster.stop import request_stop
from nemo_runspec.backends.slurm.observe import job_statuses as look_at_handles
from nemo_runspec.errors import UserError

pytestmark = needs_slurm
WAITS = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def lab(slurm_lab: SlurmLab) -> Iterator[SlurmLab]:
    """With time: what a job leaves is what it writes between its TERM and its KILL."""
    with configured(slurm_lab, KillWait=20):
        yield slurm_lab


@pytest.fixture
def host(lab: SlurmLab) -> LabHost:
    return LabHost(lab)


def blind(lab: SlurmLab, folder: Path, *commands: str, says: str = "", code: int = 0) -> LabHost:
    """A login node where some of Slurm's commands know of no job, or say this and fail."""
    folder.mkdir(exist_ok=True)
    for command in commands:
        (folder / command).write_text(f"#!/bin/sh\n[ -z '{says}' ] || echo '{says}' >&2\nexit {code}\n")
        (folder / command).chmod(0o755)
    return LabHost(lab, str(folder))


def test_many_in_one_round_trip(lab: SlurmLab, host: LabHost):
    running = lab.submit("sleep 600")
    waiting = [lab.submit("true", f"--dependency=afterok:{running}") for _ in range(20)]
    over = lab.submit("exit 3")
    lab.wait_for(over, "FAILED")
    lab.wait_for(running, "RUNNING")
    made_up = [str(number) for number in range(10_000, 10_978)]
    host.calls = 0
    seen = query_jobs(host, [SlurmJobRef(id) for id in (running, *waiting, over, *made_up)])
    assert (host.calls, len(seen)) == (1, 1000)
    assert (seen[running].state, seen[running].nodes) == ("running", "n1")
    assert {(seen[id].state, seen[id].reason) for id in waiting} == {("queued", "waits for another job")}
    assert (seen[over].state, seen[over].exit_code) == ("failed", 3)
    assert seen[over].started is not None
    assert seen[over].ended is not None
    assert seen[over].elapsed == seen[over].ended - seen[over].started
    assert {seen[id].state for id in made_up} == {"lost"}


def test_no_jobs_no_round_trip(host: LabHost):
    assert query_jobs(host, []) == {}
    assert host.calls == 0


def test_a_place_in_the_queue_and_an_estimate(slurm_lab_plain: SlurmLab):
    """An array is one in the queue; who waits in two partitions has the better of the two places."""
    lab, host = slurm_lab_plain, LabHost(slurm_lab_plain)
    first = lab.submit("sleep 600", "--nodes=4", "--exclusive", "--time=60")
    lab.wait_for(first, "RUNNING")
    waits = ("--nodes=4", "--exclusive", "--time=60")
    ids = [first, lab.submit("true", *waits), lab.submit("true", "--array=1-9", *waits), lab.submit("true", *waits)]
    both = lab.submit("true", "--partition=cpu,batch", *waits)
    host.calls = 0
    seen = query_jobs(host, [*map(SlurmJobRef, ids), SlurmJobRef(both), SlurmJobRef(f"{ids[2]}_3")], positions=True)
    assert host.calls == 1
    assert [job.position for job in seen.values()] == [None, 1, 2, 3, 1, 2]
    assert (seen[first].estimated, seen[first].state) == (None, "running")
    second = until(lambda: see(host, SlurmJobRef(ids[1])), "an estimate", lambda job: job.estimated is not None)
    assert second.estimated is not None
    assert 3000 < second.estimated - time.time() < 3700
    assert second.reason in ("", "waits for nodes", "waits behind jobs of higher priority")


def test_an_array_and_its_tasks(lab: SlurmLab, host: LabHost):
    job = lab.submit("[ $SLURM_ARRAY_TASK_ID != 2 ] && sleep 600", "--array=1-4%2")
    asked = [SlurmJobRef(job), SlurmJobRef(f"{job}_1"), SlurmJobRef(f"{job}_2"), SlurmJobRef(f"{job}_4")]
    there = "4 tasks: 2 running, 1 queued, 1 failed"
    until(
        lambda: query_jobs(host, asked)[job].reason, "the second task's end, and the third", lambda said: said == there
    )
    seen = query_jobs(host, asked)
    whole = seen[job]
    assert whole.state == "running"
    assert [(task.task, task.id) for task in whole.tasks] == [(n, f"{job}_{n}") for n in (1, 2, 3, 4)]
    assert [seen[f"{job}_{n}"].state for n in (1, 2, 4)] == ["running", "failed", "queued"]
    assert seen[f"{job}_2"].exit_code == 1


def test_what_was_cancelled_before_it_began(lab: SlurmLab, host: LabHost, tmp_path: Path):
    began = tmp_path / "began"  # a task that is cancelled while it is launched is killed at once, and ends with 137
    job = lab.submit(f"touch {began}; exec sleep 600", "--array=1-2%1")
    single = lab.submit("true", f"--dependency=afterok:{job}")
    until(lambda: began.exists() and see(host, SlurmJobRef(f"{job}_1")).state == "running", "the first task's begin")
    lab.run("scancel", job, single)
    asked = [SlurmJobRef(f"{job}_1"), SlurmJobRef(f"{job}_2"), SlurmJobRef(single)]
    until(lambda: {one.state for one in query_jobs(host, asked).values()} == {"cancelled"}, "the end of all")
    ran, *others = query_jobs(host, asked).values()
    assert (ran.exit_code, ran.elapsed is not None) == (143, True)
    assert [(one.exit_code, one.elapsed, one.started) for one in others] == [(143, None, None)] * 2


def test_the_tasks_of_an_array_have_folders_of_their_own(lab: SlurmLab, host: LabHost, tmp_path: Path):
    """Their markers name the cause; and are all that is left once Slurm has forgotten them."""
    script = f"""
    status={tmp_path}/$SLURM_ARRAY_TASK_ID/status
    mkdir -p $status/gates-$SLURM_JOB_ID-0
    printf '%s\\n' node=0 host=n1 phase=command exit_code=$SLURM_ARRAY_TASK_ID signal= rank=7 oom=0 received= \\
        reason= started=1 ended=2 attempt=0 > $status/node-0
    exit $SLURM_ARRAY_TASK_ID
    """
    job = lab.submit(script, "--array=0-2")
    lab.wait_for(job, "COMPLETED,FAILED")
    asked = [SlurmJobRef(f"{job}_{n}", f"{tmp_path}/{n}") for n in range(3)]
    for told in (host, blind(lab, tmp_path / "blind", "squeue", "sacct")):
        seen = query_jobs(told, asked)
        assert [(seen[one.id].state, seen[one.id].exit_code) for one in asked] == [
            ("succeeded", 0), ("failed", 1), ("failed", 2),
        ]  # fmt: skip
        assert seen[f"{job}_2"].reason == "rank 7 ended with exit code 2"


def test_what_an_earlier_attempt_left_is_not_believed(lab: SlurmLab, host: LabHost, tmp_path: Path):
    """It was requeued by hand, and cancelled while it waited again."""
    plan = slurm_plan(tmp_path, WAITS)
    job = start(host, plan)
    until(lambda: "begun" in tasks_said(plan, job), "the command's begin")
    with closed(lab):  # or it waits for some seconds only
        lab.run("scontrol", "requeue", job.id)
        seen = until(lambda: see(host, job), "the job in the queue again", lambda seen: seen.state == "queued")
        assert (seen.restarts, seen.exit_code, seen.markers) == (1, None, ())
        until((Path(plan.job_dir) / "status" / "node-0").exists, "the first attempt's marker")
        lab.run("scancel", job.id)
        seen = wait(host, job)
    assert (seen.state, seen.reason, seen.signal, seen.markers) == ("cancelled", "cancelled in Slurm", None, ())


@pytest.mark.parametrize(
    ("attempt", "state", "restarts"), [("0", "lost", 2), ("2", "failed", 2), ("", "failed", 2), (None, "failed", 2)]
)
def test_a_marker_counts_for_its_attempt(
    slurm_lab_plain: SlurmLab, tmp_path: Path, attempt: str | None, state: str, restarts: int
):
    """Slurm has forgotten the job; the last attempt that began is the one that counts."""
    for name in ("gates-4242-0", "gates-4242-2", "gates-17-5"):
        (tmp_path / "status" / name).mkdir(parents=True)
    words = "node=0 host=n1 phase=command exit_code=3 signal= rank= oom=0 received= reason= started=1 ended=2"
    words += "" if attempt is None else f" attempt={attempt}"
    (tmp_path / "status" / "node-0").write_text(words.replace(" ", "\n"))
    seen = see(LabHost(slurm_lab_plain), SlurmJobRef("4242", str(tmp_path)))
    assert (seen.state, seen.restarts) == (state, restarts)


def test_a_node_that_goes_down_ends_a_job_that_may_not_move(lab: SlurmLab, host: LabHost, tmp_path: Path):
    job = start(host, slurm_plan(tmp_path, WAITS))
    wait(host, job, "running")
    lab.run("scontrol", "update", f"JobId={job.id}", "Requeue=0")
    lab.set_node_down("n1")
    seen = wait(host, job)
    assert (seen.state, seen.slurm_state) == ("failed", "NODE_FAIL")
    assert seen.reason.startswith("a node failed")
    assert seen.exit_code != 0


def test_a_time_limit_and_somebody_elses_scancel(lab: SlurmLab, host: LabHost, tmp_path: Path):
    plans = [slurm_plan(tmp_path, WAITS) for _ in range(2)]
    late, cancelled = (start(host, plan) for plan in plans)
    for plan, job in zip(plans, (late, cancelled), strict=True):
        until(lambda plan=plan, job=job: "begun" in tasks_said(plan, job), "the command's begin")
    lab.run("scontrol", "update", f"JobId={late.id}", "TimeLimit=0")
    lab.run("scancel", cancelled.id)
    seen = wait(host, cancelled)
    assert (seen.state, seen.exit_code != 0) == ("cancelled", True)
    seen = wait(host, late, seconds=240)  # Slurm looks for it twice a minute
    assert (seen.slurm_state, seen.state, seen.exit_code != 0) == ("TIMEOUT", "failed", True)
    assert seen.reason.startswith("its time limit was reached")


def test_forgotten_by_the_queue_and_then_by_all(lab: SlurmLab, host: LabHost, tmp_path: Path):
    """What happens MinJobAge after a job's end, and where there are no accounts or they are purged."""
    plans = {code: slurm_plan(tmp_path / str(code), f"raise SystemExit({code})", nodes=2) for code in (0, 7)}
    jobs = {code: start(host, plan) for code, plan in plans.items()}
    for job in jobs.values():
        wait(host, job)
        until(lambda id=job.id: lab.accounted(id) not in ("", "PENDING 0:0", "RUNNING 0:0"), "sacct")
    queue_forgets = blind(lab, tmp_path / "blind", "squeue")
    all_forget = blind(lab, tmp_path / "blinder", "squeue", "sacct")
    for code, job in jobs.items():
        for told in (queue_forgets, all_forget):
            seen = see(told, job)
            assert (seen.state, seen.exit_code) == ("failed" if code else "succeeded", code)
        assert see(queue_forgets, job).nodes.startswith("n")
        assert see(all_forget, job).slurm_state == ""
    (Path(plans[0].job_dir) / "status" / "node-1").unlink()
    seen = see(all_forget, jobs[0])
    assert (seen.state, seen.exit_code) == ("lost", None)
    assert seen.reason == "Slurm no longer knows it, and it left no exit marker of node 1"
    shutil.rmtree(plans[0].job_dir)
    assert see(all_forget, jobs[0]).reason == "Slurm no longer knows it, and it left no directory"


def test_accounts_alone_do_not_end_a_job_that_may_be_requeued(lab: SlurmLab, tmp_path: Path):
    """sacct knows how the last attempt ended that it has heard of; whether there is another one, squeue knows."""
    job = lab.submit("exit 3")
    lab.wait_for(job, "FAILED")
    until(lambda: lab.accounted(job), "sacct", lambda said: said == "FAILED 3:0")
    silent = blind(lab, tmp_path / "blind", "squeue", says="Socket timed out", code=1)
    seen = see(silent, SlurmJobRef(job))
    assert seen.state == "unknown"
    assert seen.reason == "Slurm does not answer (Socket timed out); sacct last said FAILED"


def test_an_accounting_that_does_not_answer_is_not_a_lost_job(slurm_lab: SlurmLab, tmp_path: Path):
    host = LabHost(slurm_lab)
    slurm_lab.stop_daemon("slurmdbd")
    unknown = see(host, SlurmJobRef("4242"))
    assert unknown.state == "unknown"
    assert "sacct does not answer" in unknown.reason
    job = start(host, slurm_plan(tmp_path, "raise SystemExit(3)"))
    seen = wait(host, job)
    assert (seen.state, seen.exit_code) == ("failed", 3)


def test_an_accounting_that_lags(slurm_lab: SlurmLab, tmp_path: Path):
    """squeue has forgotten the job, and sacct still says that it waits: the marker decides, else nobody knows."""
    host = LabHost(slurm_lab)
    job = start(host, slurm_plan(tmp_path, "raise SystemExit(3)"))
    wait(host, job)
    lags = blind(slurm_lab, tmp_path / "blind", "squeue")
    row = "\x1f".join((job.id, "PENDING", "", "0:0", "None assigned", "Unknown", "Unknown", "0"))
    (tmp_path / "blind" / "sacct").write_text(f"#!/bin/sh\ncat <<'E'\n{row}\nE\n")
    (tmp_path / "blind" / "sacct").chmod(0o755)
    assert (see(lags, job).state, see(lags, job).exit_code) == ("failed", 3)
    seen = see(lags, SlurmJobRef(job.id))
    assert (seen.state, seen.reason) == ("unknown", "squeue no longer lists it, and sacct still says PENDING")


def test_an_id_of_a_federation(slurm_lab: SlurmLab):
    host = LabHost(slurm_lab)
    job = slurm_lab.submit("exit 4")
    slurm_lab.wait_for(job, "FAILED")
    seen = query_jobs(host, [SlurmJobRef(f"{job};lab"), SlurmJobRef(job), SlurmJobRef(f"{job};elsewhere")])
    assert [one.state for one in seen.values()] == ["failed", "failed", "unknown"]
    assert seen[f"{job};lab"].exit_code == 4


@pytest.fixture
def elsewhere(slurm_lab_plain: SlurmLab, tmp_path: Path) -> LabHost:
    """The lab as a cluster of another name, which has jobs of the same ids."""
    text = Path(slurm_lab_plain.environment()["SLURM_CONF"]).read_text()
    (tmp_path / "slurm.conf").write_text(text.replace("ClusterName=lab", ' clustername = "Elsewhere" # a comment'))
    return LabHost(slurm_lab_plain, SLURM_CONF=str(tmp_path / "slurm.conf"))


def test_a_job_of_another_cluster(slurm_lab_plain: SlurmLab, elsewhere: LabHost, tmp_path: Path):
    """It is neither lost nor the job of the same id that is there; an old handle names no cluster."""
    lab, host = slurm_lab_plain, LabHost(slurm_lab_plain)
    name = probe(host, str(tmp_path)).slurm
    assert (name, probe(elsewhere, str(tmp_path)).slurm) == ("lab", "elsewhere")
    id = lab.submit("sleep 600")
    lab.wait_for(id, "RUNNING")
    job, made_up = (SlurmJobRef(number, slurm=name) for number in (id, "4242"))
    assert (see(host, job).state, see(host, made_up).state) == ("running", "lost")
    reason = "this is cluster elsewhere, and the job was submitted to lab"
    elsewhere.calls = 0
    seen = query_jobs(elsewhere, [job, made_up])
    assert [(one.state, one.reason) for one in seen.values()] == [("unknown", reason)] * 2
    assert elsewhere.calls == 1
    assert (see(elsewhere, SlurmJobRef(id)).state, see(elsewhere, SlurmJobRef("4242")).state) == ("running", "lost")
    task = {"id": f"{id}_0", "array": str(tmp_path), "task": 0, "slurm": name}
    for stop in (
        lambda: request_stop(elsewhere, [job], "a test", hard=True),
        lambda: end_tasks(elsewhere, [task], "a test", hard=True),
    ):
        with pytest.raises(UserError, match=reason):
            stop()
    assert see(host, job).state == "running"


def test_handles_of_another_cluster(slurm_lab_plain: SlurmLab, elsewhere: LabHost, tmp_path: Path):
    """One whose submission was not heard of is not taken for one that never was, or what was sent would be removed."""
    handle = {"name": "nobody", "job_dir": str(tmp_path), "slurm": "lab"}
    (seen,) = look_at_handles(elsewhere, [{**handle, "id": "4242"}])
    assert (seen.state, seen.gone) == ("unknown", False)
    with pytest.raises(UserError, match="this is cluster elsewhere, and the job was to be submitted to lab"):
        look_at_handles(elsewhere, [handle])
    (seen,) = look_at_handles(LabHost(slurm_lab_plain), [handle])
    assert seen.gone
    (seen,) = look_at_handles(elsewhere, [{**handle, "id": "4242;lab"}])
    assert "this is cluster" not in seen.reason, "in a federation the id says where"


def test_the_clusters_name_behind_an_include(slurm_lab_plain: SlurmLab, tmp_path: Path):
    (tmp_path / "slurm.conf").write_text(f"Include {slurm_lab_plain.environment()['SLURM_CONF']}\n")
    host = LabHost(slurm_lab_plain, SLURM_CONF=str(tmp_path / "slurm.conf"))
    assert probe(host, str(tmp_path)).slurm == "lab"


def test_no_slurm_there(slurm_lab_plain: SlurmLab, tmp_path: Path):
    lab = slurm_lab_plain
    for command in ("bash", "timeout", "awk", "ls"):
        found = shutil.which(command)
        assert found is not None
        (tmp_path / command).symlink_to(found)
    host = LabHost(lab)
    host.environment["PATH"] = str(tmp_path)
    seen = see(host, SlurmJobRef("1"))
    assert seen.state == "unknown"
    assert "squeue" in seen.reason
    with pytest.raises(UserError, match="cannot be asked about jobs"):
        see(Mute(lab), SlurmJobRef("1"))


class Mute(LabHost):
    """A login node that runs nothing."""

    def run(self, script: str, **values):
        return super().run("exit 1", **values)

"""What becomes of jobs is seen in one round trip, whichever of Slurm's parts is away, late or has forgotten them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusterkit import LabHost, see, slurm_plan, start, until_seen, wait
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from labs.slurm.process import until

from nemo_runspec.backends.slurm.cluster.job import Asked
from nemo_runspec.backends.slurm.cluster.status import look
from nemo_runspec.errors import UserError

pytestmark = needs_slurm
WAITS = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture(params=["slurm_lab", "slurm_lab_plain"], ids=["accounting", "plain"])
def lab(request: pytest.FixtureRequest) -> Iterator[SlurmLab]:
    """Either lab; mended here, as `mended_slurm` does not see what is asked for by name."""
    made = request.getfixturevalue(request.param)
    yield made
    made.reset()


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
    seen = look(host, [Asked(id) for id in (running, *waiting, over, *made_up)])
    assert (host.calls, len(seen)) == (1, 1000)
    assert (seen[running].state, seen[running].nodes) == ("running", "n1")
    assert {(seen[id].state, seen[id].reason) for id in waiting} == {("queued", "waits for another job")}
    assert (seen[over].state, seen[over].exit_code, seen[over].elapsed) == ("failed", 3, 0.0)
    assert {seen[id].state for id in made_up} == {"lost"}


def test_no_jobs_no_round_trip(host: LabHost):
    assert look(host, []) == {}
    assert host.calls == 0


def test_a_place_in_the_queue_and_an_estimate(lab: SlurmLab, host: LabHost):
    first = lab.submit("sleep 600", "--nodes=4", "--exclusive", "--time=60")
    lab.wait_for(first, "RUNNING")
    second, third = (lab.submit("true", "--nodes=4", "--exclusive", "--time=60") for _ in range(2))

    def both() -> list:
        seen = look(host, [Asked(first), Asked(second), Asked(third)], places=True)
        return [seen[id] for id in (first, second, third)]

    until(lambda: both()[1].estimated is not None, "an estimate", 30)
    seen = both()
    assert [job.position for job in seen] == [None, 1, 2]
    assert seen[0].estimated is None
    assert seen[1].estimated is not None
    assert 3000 < seen[1].estimated - time.time() < 3700
    assert seen[1].reason in ("waits for nodes", "waits behind jobs of higher priority")


def test_an_array_and_its_tasks(lab: SlurmLab, host: LabHost):
    job = lab.submit("[ $SLURM_ARRAY_TASK_ID != 2 ] && sleep 600", "--array=1-4%2")
    asked = [Asked(job), Asked(f"{job}_1"), Asked(f"{job}_2"), Asked(f"{job}_4")]

    def failed() -> bool:
        return look(host, asked)[f"{job}_2"].state == "failed"

    until(failed, "the second task's end")
    until(lambda: look(host, asked)[job].reason == "4 tasks: 2 running, 1 queued, 1 failed", "the third task")
    seen = look(host, asked)
    whole = seen[job]
    assert whole.state == "running"
    assert [(task.task, task.id) for task in whole.tasks] == [(n, f"{job}_{n}") for n in (1, 2, 3, 4)]
    assert [seen[f"{job}_{n}"].state for n in (1, 2, 4)] == ["running", "failed", "queued"]
    assert seen[f"{job}_2"].exit_code == 1


def test_a_requeued_job_waits_again(lab: SlurmLab, host: LabHost, tmp_path: Path):
    job = start(host, slurm_plan(tmp_path, WAITS))
    wait(host, job, "running")
    lab.run("scontrol", "requeue", job.id)
    seen = until_seen(lambda: see(host, job), lambda seen: seen.state == "queued")
    assert (seen.restarts, seen.exit_code) == (1, None)
    assert "requeue" in seen.reason or seen.slurm_reason == "None"
    assert wait(host, job, "running").restarts == 1


def test_a_node_that_goes_down_takes_the_job_elsewhere(lab: SlurmLab, host: LabHost, tmp_path: Path):
    """NeMo-Run submits with `--requeue`, which wins over a `no_requeue` of the profile's."""
    job = start(host, slurm_plan(tmp_path, WAITS, {"additional_parameters": {"no_requeue": True}}))
    assert wait(host, job, "running").nodes == "n1"
    lab.set_node_down("n1")
    seen = until_seen(lambda: see(host, job), lambda seen: seen.restarts == 1 and seen.state == "running")
    assert seen.nodes == "n2"


def test_a_node_that_goes_down_ends_a_job_that_may_not_move(lab: SlurmLab, host: LabHost, tmp_path: Path):
    job = start(host, slurm_plan(tmp_path, WAITS))
    wait(host, job, "running")
    lab.run("scontrol", "update", f"JobId={job.id}", "Requeue=0")
    lab.set_node_down("n1")
    seen = wait(host, job)
    assert (seen.state, seen.slurm_state) == ("failed", "NODE_FAIL")
    assert seen.reason.startswith("a node failed")
    assert seen.exit_code != 0


def test_a_time_limit(lab: SlurmLab, host: LabHost, tmp_path: Path):
    job = start(host, slurm_plan(tmp_path, WAITS))
    wait(host, job, "running")
    lab.run("scontrol", "update", f"JobId={job.id}", "TimeLimit=0")
    seen = wait(host, job, "failed", "succeeded", "cancelled", seconds=90)
    assert (seen.slurm_state, seen.state) == ("TIMEOUT", "failed")
    assert seen.reason.startswith("its time limit was reached")
    assert seen.exit_code != 0


def test_somebody_elses_scancel(lab: SlurmLab, host: LabHost, tmp_path: Path):
    job = start(host, slurm_plan(tmp_path, WAITS))
    wait(host, job, "running")
    lab.run("scancel", job.id)
    seen = until_seen(lambda: see(host, job), lambda seen: seen.state not in ("running", "queued"))
    assert seen.state == "cancelled"
    assert seen.exit_code != 0


def test_a_stopped_controller_leaves_nothing_known(lab: SlurmLab, host: LabHost, tmp_path: Path):
    job = start(host, slurm_plan(tmp_path, WAITS))
    wait(host, job, "running")
    lab.stop_daemon("slurmctld")
    seen = see(host, job)
    assert seen.state == "unknown"
    assert "Unable to contact slurm controller" in seen.reason
    lab.start_daemon("slurmctld")
    assert wait(host, job, "running").state == "running"


def test_a_frozen_controller_leaves_nothing_known(slurm_lab_plain: SlurmLab, tmp_path: Path):
    host = LabHost(slurm_lab_plain)
    job = start(host, slurm_plan(tmp_path, WAITS))
    wait(host, job, "running")
    slurm_lab_plain.freeze("slurmctld")
    seen = see(host, job)
    assert seen.state == "unknown"
    assert "Socket timed out" in seen.reason
    slurm_lab_plain.thaw("slurmctld")


@pytest.mark.parametrize("code", [0, 7])
def test_without_the_queue_accounting_knows_the_end(slurm_lab: SlurmLab, tmp_path: Path, code: int):
    """What happens MinJobAge after a job's end."""
    host = LabHost(slurm_lab)
    job = start(host, slurm_plan(tmp_path, f"raise SystemExit({code})"))
    wait(host, job)
    until(lambda: slurm_lab.accounted(job.id) not in ("", "PENDING 0:0", "RUNNING 0:0"), "sacct", 30)
    forgets = blind(slurm_lab, tmp_path / "blind", "squeue")
    seen = see(forgets, job)
    assert (seen.state, seen.exit_code, seen.nodes) == ("failed" if code else "succeeded", code, "n1")


@pytest.mark.parametrize("code", [0, 7])
def test_forgotten_by_both_the_markers_know(lab: SlurmLab, host: LabHost, tmp_path: Path, code: int):
    plan = slurm_plan(tmp_path, f"raise SystemExit({code})", nodes=2)
    job = start(host, plan)
    wait(host, job)
    forgets = blind(lab, tmp_path / "blind", "squeue", "sacct")
    seen = see(forgets, job)
    assert (seen.state, seen.exit_code, seen.slurm_state) == ("failed" if code else "succeeded", code, "")
    if code == 0:
        (Path(plan.job_dir) / "status" / "node-1").unlink()
        seen = see(forgets, job)
        assert (seen.state, seen.exit_code) == ("lost", None)
        assert seen.reason == "Slurm no longer knows it, and it left no exit marker of node 1"
    shutil.rmtree(plan.job_dir)
    assert see(forgets, job).reason == "Slurm no longer knows it, and it left no directory"


def test_an_accounting_that_does_not_answer_is_not_a_lost_job(slurm_lab: SlurmLab, tmp_path: Path):
    host = LabHost(slurm_lab)
    slurm_lab.stop_daemon("slurmdbd")
    unknown = see(host, Asked("4242"))
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
    seen = see(lags, Asked(job.id))
    assert (seen.state, seen.reason) == ("unknown", "squeue no longer lists it, and sacct still says PENDING")


def test_an_id_of_a_federation(slurm_lab: SlurmLab):
    host = LabHost(slurm_lab)
    job = slurm_lab.submit("exit 4")
    slurm_lab.wait_for(job, "FAILED")
    seen = look(host, [Asked(f"{job};lab"), Asked(job), Asked(f"{job};elsewhere")])
    assert [one.state for one in seen.values()] == ["failed", "failed", "unknown"]
    assert seen[f"{job};lab"].exit_code == 4


def test_no_slurm_there(lab: SlurmLab, tmp_path: Path):
    for command in ("bash", "timeout", "awk", "ls"):
        found = shutil.which(command)
        assert found is not None
        (tmp_path / command).symlink_to(found)
    host = LabHost(lab)
    host.environment["PATH"] = str(tmp_path)
    seen = see(host, Asked("1"))
    assert seen.state == "unknown"
    assert "squeue" in seen.reason
    with pytest.raises(UserError, match="cannot be asked about jobs"):
        see(Mute(lab), Asked("1"))


class Mute(LabHost):
    """A login node that runs nothing."""

    def run(self, script: str, **values):
        return super().run("exit 1", **values)

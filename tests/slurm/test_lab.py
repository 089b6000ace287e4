"""The Slurm lab is what the other tests take it for: a cluster that schedules, counts, refuses, breaks and recovers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from labs.slurm.cluster import NODES, USER, SlurmLab
from labs.slurm.fixtures import labs_of, needs_slurm
from waiting import until

pytestmark = needs_slurm


def output(lab: SlurmLab, *words: str) -> list[str]:
    """The sorted lines that a command of Slurm's printed."""
    return sorted(lab.run(*words).stdout.splitlines())


@pytest.fixture(params=["slurm_lab", "slurm_lab_plain"], ids=["accounting", "plain"])
def lab(request: pytest.FixtureRequest) -> SlurmLab:
    return request.getfixturevalue(request.param)


def test_a_lab_got_by_its_name_is_mended_and_shown_too(lab: SlurmLab, request: pytest.FixtureRequest):
    assert labs_of(request.node) == [lab]


class TestScheduling:
    def test_four_idle_nodes_of_eight_gpus(self, lab: SlurmLab):
        shown = output(lab, "sinfo", "--noheader", "--Node", "--partition=batch", "--format=%N %T %c %m %G")
        assert shown == [f"{name} idle 64 1000000 gpu:8" for name in NODES]

    def test_the_partitions(self, slurm_lab_plain: SlurmLab):
        assert output(slurm_lab_plain, "sinfo", "--noheader", "--summarize", "--format=%P") == [
            "backfill", "batch*", "cpu", "interactive",
        ]  # fmt: skip

    def test_two_nodes_have_names_and_addresses_of_their_own(self, slurm_lab_plain: SlurmLab):
        script = 'echo "$SLURM_NODEID $(hostname) $(ip -4 -o address show eth0 | tr -s " " | cut -d" " -f4)"'
        first, second = output(slurm_lab_plain, "srun", "--nodes=2", "bash", "-c", script)
        assert [first.split()[1], second.split()[1]] == ["n1", "n2"]
        assert first.split()[2] != second.split()[2]

    def test_nodes_reach_each_other_by_name(self, slurm_lab_plain: SlurmLab):
        listen = "import socket; s = socket.create_server(('0.0.0.0', 7777)); c = s.accept()[0]; c.sendall(b'from n1')"
        ask = (
            "import socket, time\n"
            "while True:\n"
            "    try: c = socket.create_connection(('n1', 7777)); break\n"
            "    except ConnectionRefusedError: time.sleep(0.1)\n"
            "print(c.recv(99).decode(), 'to', socket.gethostname())"
        )
        script = f'if [ $SLURM_NODEID = 0 ]; then python3 -c "{listen}"; else python3 -c "{ask}"; fi'
        assert output(slurm_lab_plain, "srun", "--nodes=2", "bash", "-c", script) == ["from n1 to n2"]

    def test_gpus_are_counted_and_shown(self, slurm_lab_plain: SlurmLab):
        words = ("srun", "--gres=gpu:3", "bash", "-c", "echo $CUDA_VISIBLE_DEVICES")
        assert output(slurm_lab_plain, *words) == ["0,1,2"]
        too_many = slurm_lab_plain.run("srun", "--gres=gpu:9", "true", check=False)
        assert too_many.returncode != 0
        assert "Requested node configuration is not available" in too_many.stderr

    def test_more_than_there_is_is_refused_at_once(self, lab: SlurmLab):
        refused = lab.run("sbatch", "--nodes=5", "--wrap=true", check=False)
        assert refused.returncode != 0
        assert "More processors requested than permitted" in refused.stderr or "Node count" in refused.stderr


class TestEnding:
    def test_an_exit_code_arrives(self, lab: SlurmLab):
        assert lab.run("srun", "bash", "-c", "exit 7", check=False).returncode == 7

    def test_failed_and_completed(self, slurm_lab: SlurmLab):
        good, bad = slurm_lab.submit("true"), slurm_lab.submit("exit 3")
        assert slurm_lab.wait_for(good, "COMPLETED", "FAILED") == "COMPLETED"
        assert slurm_lab.wait_for(bad, "COMPLETED", "FAILED") == "FAILED"
        until(lambda: slurm_lab.accounted(good), "sacct COMPLETED", lambda said: said == "COMPLETED 0:0")
        until(lambda: slurm_lab.accounted(bad), "sacct FAILED", lambda said: said == "FAILED 3:0")

    def test_without_accounting_sacct_has_nothing_to_say(self, slurm_lab_plain: SlurmLab):
        asked = slurm_lab_plain.run("sacct", check=False)
        assert asked.returncode == 1
        assert "accounting storage is disabled" in asked.stderr

    def test_scancel(self, slurm_lab_plain: SlurmLab):
        job = slurm_lab_plain.submit("sleep 600")
        slurm_lab_plain.wait_for(job, "RUNNING")
        slurm_lab_plain.run("scancel", job)
        slurm_lab_plain.wait_for(job, "CANCELLED")

    def test_an_array_is_one_job_with_a_state_for_each_task(self, slurm_lab_plain: SlurmLab, tmp_path: Path):
        script = f"echo task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_JOB_ID > {tmp_path}/$SLURM_ARRAY_TASK_ID"
        job = slurm_lab_plain.submit(f"{script}; [ $SLURM_ARRAY_TASK_ID != 2 ]", "--array=1-3")
        until(lambda: slurm_lab_plain.state(job), "array", lambda states: states == "COMPLETED,FAILED")
        assert [(tmp_path / str(task)).read_text() for task in (1, 2, 3)] == [f"task {n} of {job}\n" for n in (1, 2, 3)]

    def test_a_requeued_job_runs_again_soon(self, slurm_lab_plain: SlurmLab, tmp_path: Path):
        log = tmp_path / "log"
        script = f'echo "attempt ${{SLURM_RESTART_COUNT:-0}}" >> {log}; [ -n "$SLURM_RESTART_COUNT" ] || sleep 600'
        job = slurm_lab_plain.submit(script, "--requeue")
        until(lambda: log.exists() and log.read_text(), "a first attempt")
        slurm_lab_plain.run("scontrol", "requeue", job)
        slurm_lab_plain.wait_for(job, "COMPLETED")
        assert log.read_text() == "attempt 0\nattempt 1\n"

    def test_backfill_gives_way(self, slurm_lab_plain: SlurmLab, tmp_path: Path):
        low = slurm_lab_plain.submit("sleep 600", "--partition=backfill", "--nodes=4", "--exclusive", "--requeue")
        slurm_lab_plain.wait_for(low, "RUNNING")
        high = slurm_lab_plain.submit("true", "--nodes=4", "--exclusive")
        slurm_lab_plain.wait_for(high, "COMPLETED")
        restarts = slurm_lab_plain.run("scontrol", "show", "job", low).stdout
        assert "Restarts=1" in restarts


class TestRefusals:
    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ("--account=nobody", "Invalid account or account/partition combination"),
            ("--account=idle", "Invalid account or account/partition combination"),
            ("--qos=huge", "Invalid qos specification"),
            ("--qos=none-such", "Invalid qos specification"),
            ("--partition=none-such", "invalid partition specified"),
        ],
    )
    def test_as_on_a_real_site(self, slurm_lab: SlurmLab, option: str, message: str):
        refused = slurm_lab.run("sbatch", option, "--wrap=true", check=False)
        assert refused.returncode != 0
        assert message in refused.stderr
        assert output(slurm_lab, "squeue", "--noheader", "--states=PENDING") == []

    def test_a_limit_of_the_partition(self, slurm_lab: SlurmLab):
        refused = slurm_lab.run("sbatch", "--partition=interactive", "--time=05:00:00", "--wrap=true", check=False)
        assert "Requested time limit is invalid" in refused.stderr

    def test_a_limit_of_the_qos(self, slurm_lab: SlurmLab):
        refused = slurm_lab.run("sbatch", "--qos=short", "--time=00:30:00", "--wrap=true", check=False)
        assert refused.returncode != 0
        assert "Job violates accounting/QOS policy" in refused.stderr


class TestOverSsh:
    def test_a_job_is_submitted(self, lab: SlurmLab):
        before = lab.sshd.connections(), lab.sshd.commands()
        done = subprocess.run(lab.ssh.command("sbatch --parsable --wrap hostname"), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        lab.wait_for(done.stdout.strip().split(";")[0], "COMPLETED")
        assert (lab.sshd.connections(), lab.sshd.commands()) == (before[0] + 1, before[1] + 1)

    def test_the_home_there_is_not_the_home_here(self, slurm_lab_plain: SlurmLab):
        done = subprocess.run(slurm_lab_plain.ssh.command("hostname; echo ~"), capture_output=True, text=True)
        assert done.stdout.split() == ["login", f"{slurm_lab_plain.base}/home/root"]

    def test_a_plain_user(self, slurm_lab: SlurmLab):
        ssh = slurm_lab.ssh.as_user(USER)
        script = "cd ~ && srun --account=acme bash -c 'id --user --name; hostname'"
        done = subprocess.run(ssh.command(script), capture_output=True, text=True)
        assert done.stdout.split() == [USER, "n1"], done.stderr

    def test_an_unknown_host_key_is_refused(self, slurm_lab_plain: SlurmLab, tmp_path: Path):
        words = slurm_lab_plain.ssh.command("true")
        strange = [word.replace(str(slurm_lab_plain.ssh.known_hosts), f"{tmp_path}/none") for word in words]
        done = subprocess.run(strange, capture_output=True, text=True)
        assert done.returncode == 255
        assert "Host key verification failed" in done.stderr

    def test_a_dropped_connection_leaves_the_command_alive(self, slurm_lab_plain: SlurmLab, tmp_path: Path):
        mark, wait = tmp_path / "mark", f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
        script = f"touch {tmp_path}/begun; {wait}; echo done > {mark}"
        client = subprocess.Popen(slurm_lab_plain.ssh.command(f"nohup bash -c '{script}' > /dev/null 2>&1"))
        until((tmp_path / "begun").exists, "a connection")
        assert slurm_lab_plain.drop_ssh_connections() > 0
        assert client.wait(120) == 255
        (tmp_path / "go").touch()
        until(mark.exists, "the command's end")

    def test_a_frozen_connection_says_nothing(self, slurm_lab_plain: SlurmLab, tmp_path: Path):
        words = slurm_lab_plain.ssh.command(f"touch {tmp_path}/begun; read line; echo $line")
        client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        until((tmp_path / "begun").exists, "a connection")
        assert slurm_lab_plain.sshd.freeze() > 0
        with pytest.raises(subprocess.TimeoutExpired):
            client.communicate("hello\n", timeout=1)
        slurm_lab_plain.sshd.thaw()
        assert client.communicate(timeout=120)[0] == "hello\n"

    def test_no_sshd_no_connection(self, slurm_lab_plain: SlurmLab):
        slurm_lab_plain.stop_ssh()
        assert subprocess.run(slurm_lab_plain.ssh.command("true"), capture_output=True).returncode == 255
        slurm_lab_plain.start_ssh()
        assert subprocess.run(slurm_lab_plain.ssh.command("true"), capture_output=True).returncode == 0


class TestFolders:
    def test_what_is_shared_and_what_is_not(self, slurm_lab_plain: SlurmLab, tmp_path: Path):
        script = (
            f"echo $(hostname) > {slurm_lab_plain.unshared}/who; cat {slurm_lab_plain.unshared}/who {tmp_path}/shared"
        )
        (tmp_path / "shared").write_text("shared\n")
        shown = output(slurm_lab_plain, "srun", "--nodes=2", "bash", "-c", script)
        assert shown == ["n1", "n2", "shared", "shared"]
        assert not (slurm_lab_plain.unshared / "who").exists()

    def test_a_disk_that_gets_full(self, slurm_lab_plain: SlurmLab):
        script = f"head -c 9M /dev/zero > {slurm_lab_plain.small}/big; rm {slurm_lab_plain.small}/big"
        full = slurm_lab_plain.run("srun", "bash", "-c", script, check=False)
        assert "No space left on device" in full.stderr

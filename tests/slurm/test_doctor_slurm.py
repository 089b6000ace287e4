"""`nemotron doctor PROFILE` against a real Slurm over a real SSH: what is wrong is named, each with its mend."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labs.slurm.cluster import USER, SlurmLab
from labs.slurm.fixtures import needs_slurm
from labs.slurm.sshd import SshAccess
from slurm_jobs import LabHost, command, slurm_plan
from support import Outcome, Project, call

from nemo_runspec.backends.slurm import preflight
from nemo_runspec.backends.slurm.preflight import NEEDED
from nemo_runspec.backends.slurm.preflight.checks import fast_checks
from nemo_runspec.transport.connect import close_all

pytestmark = needs_slurm

Doctor = Callable[..., Outcome]

GOOD = {
    "account": "acme", "qos": "normal", "partition": "batch", "run_partition": "interactive", "nodes": 2,
    "gpus_per_node": 8, "time": "01:00:00",
}  # fmt: skip


def reach(folder: Path, access: SshAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `ssh` in this process read a settings file of the test's own: it never looks at `$HOME`."""
    settings = folder / "ssh_config"
    settings.write_text(
        f"Host lab-*\n  HostName 127.0.0.1\n  Port {access.port}\n  User {access.user}\n"
        f"  IdentityFile {access.identity}\n  IdentitiesOnly yes\n  UserKnownHostsFile {access.known_hosts}\n"
        f"  GlobalKnownHostsFile /dev/null\n"
    )
    wrapper = folder / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {settings} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")


def doctor_of(lab: SlurmLab, project: Project, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """`doctor("--json", nodes=9)`: the doctor's word on a profile that is good but for what is given."""
    reach(project.folder, lab.ssh, monkeypatch)
    monkeypatch.setattr(preflight, "SECONDS", 120)  # what Slurm says late is not what these tests are about
    for left in ("run", ".nemotron"):  # by another test, in this lab's only home
        shutil.rmtree(lab.base / "home" / "root" / left, ignore_errors=True)

    def ask(*options: str, **keys: object) -> Outcome:
        values = {"executor": "slurm", "tunnel": "ssh", "host": f"lab-{project.folder.parent.name}", **GOOD}
        values |= {"remote_job_dir": f"{lab.base}/home/root/run", **keys}
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
        project.write("env.toml", "\n".join(("[c]", *lines, "")))
        return call("doctor", "c", *options)

    return ask


@pytest.fixture
def doctor(slurm_lab: SlurmLab, project: Project, monkeypatch: pytest.MonkeyPatch):
    yield doctor_of(slurm_lab, project, monkeypatch)
    close_all()


@pytest.fixture
def plain(slurm_lab_plain: SlurmLab, project: Project, monkeypatch: pytest.MonkeyPatch):
    yield doctor_of(slurm_lab_plain, project, monkeypatch)
    close_all()


def found(outcome: Outcome, name: str) -> dict[str, str]:
    """One check of a report in JSON."""
    checks = {check["name"]: check for check in outcome.json["checks"]}
    assert name in checks, list(checks)
    return checks[name]


def wrong(outcome: Outcome) -> set[str]:
    """The names of what failed; the exit code agrees."""
    names = {check["name"] for check in outcome.json["checks"] if check["verdict"] == "failed"}
    assert outcome.code == (2 if names else 0), outcome.out
    return names


def test_a_good_profile_in_one_round_trip(doctor: Doctor, slurm_lab: SlurmLab):
    before = slurm_lab.sshd.connections(), slurm_lab.sshd.commands()
    told = doctor("--json", startup_commands=["true"])
    assert (slurm_lab.sshd.connections(), slurm_lab.sshd.commands()) == (before[0] + 1, before[1] + 1)
    assert told.code == 0
    verdicts = {check["name"]: check["verdict"] for check in told.json["checks"]}
    unknown = {name for name, verdict in verdicts.items() if verdict != "ok"}
    assert unknown == {"shared", "python", "W&B", "Hugging Face"}, told.out
    assert {"host key", "login", "run partition", "batch shape", "account", "QoS", "accounting", "room"} <= set(
        verdicts
    )
    assert slurm_lab.run("squeue", "--noheader").stdout == ""
    assert not (slurm_lab.base / "home" / "root" / "run").exists()


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            {
                "partition": "none", "mounts": ["/none/such:/data", "/tmp:/tmp"], "secrets": ["MY_TOKEN"],
                "container_image": "/none/such.sqsh",
            },
            {
                "batch partition": ("no partition 'none'", "partitions: batch (4 nodes"),
                "mounts": ("not there: /none/such", "correct mounts"),
                "image": ("/none/such.sqsh", "correct container_image"),
                "secrets": ("not found here: MY_TOKEN", "export MY_TOKEN="),
            },
        ),
        (
            {"qos": "huge", "time": "05:00:00"},
            {
                "QoS": ("may not use QoS 'huge'", "your QoS: normal, short"),
                "run shape": ("time limit is above", "set time in the profile; partitions: batch"),
            },
        ),
        (
            {"account": "idle", "qos": "none-such", "nodes": 3},
            {
                "account": ("may not use account 'idle'", "your accounts: acme"),
                "QoS": ("no QoS 'none-such'", "set qos"),
                "run shape": ("more nodes than the partition has", "set nodes"),
            },
        ),
        (
            {"qos": "short", "run_partition": "batch"},
            {"shape": ("a limit of the account or QoS", "set time, nodes or qos")},
        ),
        (
            {"gpus_per_node": 9, "run_partition": "batch"},
            {"shape": ("no node of the partition is like that", "set gpus_per_node")},
        ),
    ],
    ids=["partition and paths", "QoS and time", "account and nodes", "limit of a QoS", "GPUs"],
)  # fmt: skip
def test_what_is_wrong_is_named(doctor: Doctor, keys: dict, told: dict[str, tuple[str, str]]):
    report = doctor("--json", **keys)
    assert wrong(report) == set(told), report.out
    for name, (seen, mend) in told.items():
        assert seen in found(report, name)["seen"]
        assert mend in found(report, name)["mend"]


def test_an_account_that_is_wrong_hides_no_shape_that_is_right(doctor: Doctor):
    told = doctor("--json", account="nobody")
    assert wrong(told) == {"account"}
    assert "but for account and QoS" in found(told, "batch shape")["seen"]


def test_an_account_of_another_partition(doctor: Doctor, slurm_lab: SlurmLab):
    slurm_lab.run("sacctmgr", "--immediate", "add", "user", "root", "account=idle", "partition=cpu")
    try:
        told = doctor("--json", account="idle", run_partition="cpu")
    finally:
        slurm_lab.run("sacctmgr", "--immediate", "remove", "user", "root", "where", "account=idle")
    assert wrong(told) == {"batch shape"}
    assert "may not use the account, or not in this partition" in found(told, "batch shape")["seen"]


def test_two_ways_to_run_that_are_one(doctor: Doctor):
    told = doctor("--json", run_partition=None, remote_job_dir=None)
    assert "/home/root/.nemotron/run can be made" in found(told, "remote_job_dir")["seen"]
    assert "up to 7-00:00:00" in found(told, "partition")["seen"]
    assert found(told, "shape")["verdict"] == "ok"


def test_nodes_that_are_down_are_waited_for(doctor: Doctor, slurm_lab: SlurmLab):
    slurm_lab.set_node_down("n4")
    told = doctor("--json", nodes=4, run_partition="batch")
    assert wrong(told) == set()
    assert found(told, "shape")["verdict"] == "warning"
    assert "1 of 4 are not" in found(told, "shape")["seen"]
    never = doctor("--json", gpus_per_node=99, run_partition="batch")
    assert wrong(never) == {"shape"}
    assert "99 GPUs on a node are asked for, and none has more than 8" in found(never, "shape")["seen"]


def test_a_controller_that_is_away(doctor: Doctor, slurm_lab: SlurmLab):
    slurm_lab.stop_daemon("slurmctld")
    told = doctor("--json", mounts=["/none/such:/data"])
    assert wrong(told) == {"controller", "mounts"}
    assert found(told, "shape")["verdict"] == found(told, "account")["verdict"] == "skipped"


def test_a_host_key_that_nobody_knows(doctor: Doctor, project: Project, slurm_lab: SlurmLab):
    settings = project.folder / "ssh_config"
    settings.write_text(settings.read_text().replace(str(slurm_lab.ssh.known_hosts), f"{project.folder}/none"))
    told = doctor("--json")
    assert wrong(told) == {"host key"}
    assert found(told, "host")["verdict"] == "ok"
    assert found(told, "login")["verdict"] == "skipped"
    assert "accept_new_host_key = true" in found(told, "host key")["mend"]
    assert not (project.folder / "none").exists()


def test_a_key_that_is_not_let_in(doctor: Doctor, project: Project, slurm_lab: SlurmLab):
    settings = project.folder / "ssh_config"
    settings.write_text(settings.read_text().replace(str(slurm_lab.ssh.identity), f"{project.folder}/none"))
    told = doctor("--json")
    assert wrong(told) == {"login"}
    assert found(told, "host key")["verdict"] == "ok"


def test_a_jump_host_that_refuses_says_nothing_of_the_host_behind_it(
    doctor: Doctor, project: Project, slurm_lab: SlurmLab
):
    settings = project.folder / "ssh_config"
    gate = settings.read_text().replace("Host lab-*", "Host gate").replace(str(slurm_lab.ssh.identity), "/none")
    settings.write_text(settings.read_text().replace("\n", "\n  ProxyJump gate\n", 1) + gate)
    told = doctor("--json")
    assert wrong(told) == {"host"}
    assert "refused to let us in" in found(told, "host")["seen"]
    assert {found(told, step)["verdict"] for step in ("host key", "login")} == {"skipped"}


def test_nothing_listens(doctor: Doctor):
    told = doctor("--json", port=1)
    assert wrong(told) == {"host"}
    assert "refused the connection" in found(told, "host")["seen"]
    assert found(told, "the rest")["verdict"] == "skipped"


def test_a_directory_of_somebody_else(doctor: Doctor, slurm_lab: SlurmLab):
    told = doctor("--json", user=USER, remote_job_dir=f"{slurm_lab.base}/etc/mine")
    assert wrong(told) == {"remote_job_dir"}
    assert "Permission denied" in found(told, "remote_job_dir")["seen"]


def test_hardly_any_room(doctor: Doctor, slurm_lab: SlurmLab):
    told = doctor("--json", remote_job_dir=f"{slurm_lab.small}/run")
    assert wrong(told) == {"room"}
    assert "of 4.2 MB free" in found(told, "room")["seen"]


def test_an_image_file_and_containers(doctor: Doctor, slurm_lab: SlurmLab):
    told = doctor("--json", container_image=slurm_lab.image("doctor"))
    assert wrong(told) == set()
    assert found(told, "image")["verdict"] == found(told, "containers")["verdict"] == "ok"


class TestJob:
    def test_nodes_share_the_directory_and_see_what_is_mounted(
        self, doctor: Doctor, slurm_lab: SlurmLab, project: Project
    ):
        programs = project.folder / "programs"
        programs.mkdir()
        (programs / "python").symlink_to(sys.executable)
        brought = ["set -- of no use", f"export PATH={programs}:$PATH", "sleep 300 &"]
        told = doctor("--json", "--job", mounts=[f"{slurm_lab.base}/home:/home"], startup_commands=brought)
        assert wrong(told) == set()
        assert found(told, "python")["seen"] == f"{programs}/python after startup_commands"
        assert found(told, "shared")["seen"] == "n1, n2 and the login node see the same remote_job_dir"
        assert "mounts" in found(told, "on nodes")["seen"]
        assert found(told, "python3")["seen"] == "on all of them, for batch scripts"
        assert list((slurm_lab.base / "home" / "root" / "run").iterdir()) == []

    def test_no_node_is_free(self, doctor: Doctor, slurm_lab: SlurmLab, monkeypatch: pytest.MonkeyPatch):
        slurm_lab.wait_for(slurm_lab.submit("sleep 600", "--nodes=4", "--exclusive", "--time=60"), "RUNNING")
        monkeypatch.setattr("nemo_runspec.backends.slurm.preflight.checks._WAIT", 2)
        told = doctor("--json", "--job")
        assert wrong(told) == set()
        assert "no nodes were free" in found(told, "shared")["seen"]
        assert "it would wait for some" in found(told, "run shape")["seen"]

    @pytest.mark.parametrize("keys", [{}, {"retries": 2, "resume": True}], ids=["plain", "needed"])
    def test_nodes_have_no_python3(
        self, doctor: Doctor, slurm_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
    ):
        for name in ("python3", "python"):
            command(tmp_path / name, "exit 127")
        for name, value in slurm_lab.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        told = doctor("--json", "--job", tunnel="local", host=None, **keys)
        assert wrong(told) == ({"python3"} if keys else set())
        said = found(told, "python3")["seen"]
        assert said.startswith(
            "none on n1, n2: " + ("with resume, retries in the profile" if keys else "resume, retries")
        )

    def test_nodes_do_not(self, doctor: Doctor, slurm_lab: SlurmLab):
        keys = {"mounts": ["/none/such:/x"], "startup_commands": ["PATH=/none"]}
        told = doctor("--json", "--job", remote_job_dir=f"{slurm_lab.unshared}/run", **keys)
        assert wrong(told) == {"shared", "on nodes"}
        assert "none on n1, n2 after startup_commands" in found(told, "python")["seen"]
        assert "export PATH=" in found(told, "python")["mend"]
        assert "not the same directory on n1, n2" in found(told, "shared")["seen"]
        assert "/none/such is not there on n1, n2" in found(told, "on nodes")["seen"]


def test_without_accounting_accounts_are_not_known(plain: Doctor):
    told = plain("--json")
    assert wrong(told) == set()
    assert found(told, "accounting")["verdict"] == "warning"
    assert "squeue and exit markers" in found(told, "accounting")["mend"]
    assert "keeps no accounts" in found(told, "account")["seen"]
    assert found(told, "QoS")["verdict"] == "skipped"


def test_on_the_login_node_itself(slurm_lab_plain: SlurmLab, project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLURM_CONF", slurm_lab_plain.environment()["SLURM_CONF"])
    project.write("env.toml", '[here]\nexecutor = "slurm"\npartition = "batch"\ntime = "01:00:00"\n')
    told = call("doctor", "here", "--json")
    assert wrong(told) == set()
    assert found(told, "host")["seen"].startswith("this machine")
    assert str(project.home) in found(told, "remote_job_dir")["seen"]
    assert not project.state.exists()


def test_as_a_table(doctor: Doctor, monkeypatch: pytest.MonkeyPatch):
    for columns in ("80", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        told = doctor(partition="none")
        assert told.code == 2
        lines = told.out.splitlines()
        assert max(map(len, lines)) <= int(columns)
        assert "\x1b" not in told.out
        assert any(line.endswith("there is no partition 'none'") for line in lines)
        assert lines[-1].endswith("1 failed")
    assert doctor().code == 0


class TestBeforeASubmission:
    def plan(self, lab: SlurmLab, folder: Path, **keys: object):
        return slurm_plan(folder, "true", {"account": "acme", "partition": "batch", **keys})

    def test_nothing_is_wrong_with_a_good_plan(self, slurm_lab: SlurmLab, tmp_path: Path):
        host = LabHost(slurm_lab)
        plan = self.plan(slurm_lab, tmp_path, container_image=slurm_lab.image("fast"), mounts=["/tmp:/x"])
        assert fast_checks(host, plan) == []
        assert host.calls == 1

    def test_what_slurm_would_refuse_fails(self, slurm_lab: SlurmLab, tmp_path: Path):
        (problem,) = fast_checks(LabHost(slurm_lab), self.plan(slurm_lab, tmp_path, account="idle"))
        assert problem.verdict == "failed"
        assert "your accounts: acme" in str(problem.error())

    def test_what_the_login_node_does_not_see_may_be_there(self, slurm_lab: SlurmLab, tmp_path: Path):
        keys = {"container_image": "/none/such.sqsh", "mounts": ["/none/such:/x", "$NO_SUCH/x:/y"]}
        problems = fast_checks(LabHost(slurm_lab), self.plan(slurm_lab, tmp_path, **keys))
        assert {(problem.name, problem.verdict) for problem in problems} == {
            ("mounts", "warning"),
            ("image", "warning"),
        }

    @pytest.mark.parametrize(
        ("srun", "verdict"),
        [
            ('{srun} "$@" | grep -v -e container', "failed"),
            ("echo 'Usage: srun [OPTIONS...]'", "warning"),
            ("echo 'srun: fatal: Could not establish a configuration source' >&2; exit 1", "warning"),
        ],
        ids=["its help lacks them", "no help of srun's", "no answer"],
    )
    def test_a_cluster_without_containers(self, slurm_lab: SlurmLab, tmp_path: Path, srun: str, verdict: str):
        """Refused where srun's help is certain of it, with how a job goes without the image that its recipe names."""
        host = LabHost(slurm_lab)
        host.environment["PATH"] = f"{srun_that(tmp_path / 'bin', srun)}:{os.environ['PATH']}"
        (check,) = fast_checks(host, self.plan(slurm_lab, tmp_path, container_image="nvcr.io/nvidia/nemo:25.11"))
        assert (check.name, check.verdict) == ("containers", verdict)
        assert "run.env.container_image=null" in check.remedy
        assert fast_checks(host, self.plan(slurm_lab, tmp_path)) == []

    def test_nodes_that_are_down_are_no_refusal(self, slurm_lab: SlurmLab, tmp_path: Path):
        slurm_lab.set_node_down("n4")
        plan = self.plan(slurm_lab, tmp_path, exclude="n1,n2,n3")
        assert [problem.verdict for problem in fast_checks(LabHost(slurm_lab), plan)] == ["warning"]
        (never,) = fast_checks(LabHost(slurm_lab), self.plan(slurm_lab, tmp_path, gpus_per_node=99))
        assert never.verdict == "failed"
        assert "none has more than 8" in never.seen

    def test_no_slurm_on_the_path(self, slurm_lab: SlurmLab, tmp_path: Path):
        host = LabHost(slurm_lab, HOME=str(tmp_path))
        host.environment["PATH"] = str(tools_without_slurm(tmp_path))
        (tmp_path / ".bash_profile").write_text("PATH=/usr/bin\n")
        (problem,) = fast_checks(host, self.plan(slurm_lab, tmp_path))
        assert problem.verdict == "failed"
        assert "a login shell has it in /usr/bin: put the line" in problem.remedy


def srun_that(folder: Path, does: str) -> Path:
    """A folder with an srun that does something else; `{srun}` is the real one."""
    folder.mkdir()
    (folder / "srun").write_text(f"#!/bin/sh\n{does.format(srun=shutil.which('srun'))}\n")
    (folder / "srun").chmod(0o755)
    return folder


def tools_without_slurm(folder: Path) -> Path:
    """A folder with the programs a login node has, apart from Slurm's."""
    made = folder / "tools"
    made.mkdir()
    for name in NEEDED:
        (made / name).symlink_to(shutil.which(name) or "/none")
    return made

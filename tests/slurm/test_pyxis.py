"""The stand-in for Pyxis takes, checks and refuses what the real one does, and shuts a task into its container."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from labs.slurm.cluster import USER, SlurmLab
from labs.slurm.fixtures import needs_slurm

pytestmark = needs_slurm


@pytest.fixture(scope="session")
def image(slurm_lab_plain: SlurmLab) -> str:
    """A `.sqsh` path."""
    files = {"/etc/lab-release": "made for tests\n", "/workspace/hello": "#!/bin/sh\necho hello from the image\n"}
    return slurm_lab_plain.image("base", files, {"NCCL_VERSION": "image"})


@pytest.fixture
def inside(slurm_lab_plain: SlurmLab, image: str):
    """`inside("--container-mounts=…", script="…")`: how that step ended."""

    def run(*options: str, script: str = "true"):
        words = ("srun", f"--container-image={image}", *options, "bash", "-c", script)
        return slurm_lab_plain.run(*words, check=False)

    return run


def test_the_image_is_the_root(inside, tmp_path: Path):
    done = inside(script=f"cat /etc/lab-release; /workspace/hello; pwd; python -c 'print(6*7)'; ls -d {tmp_path} /work")
    assert done.stdout.splitlines() == ["made for tests", "hello from the image", "/", "42"]
    assert "No such file or directory" in done.stderr


def test_what_is_written_stays_inside(inside):
    assert inside(script="echo x > /usr/written-by-test && cat /usr/written-by-test").stdout == "x\n"
    assert not Path("/usr/written-by-test").exists()


def test_mounts(inside, tmp_path: Path):
    (tmp_path / "file").write_text("from outside\n")
    mounts = f"--container-mounts={tmp_path}:/data/in,{tmp_path}/file:/one,{tmp_path}:/safe:ro"
    script = "cat /data/in/file /one; echo back > /data/in/back; echo no > /safe/no || echo refused"
    done = inside(mounts, "--container-workdir=/data/in", script=f"pwd; {script}")
    assert done.stdout.splitlines() == ["/data/in", "from outside", "from outside", "refused"], done.stderr
    assert (tmp_path / "back").read_text() == "back\n"


def test_the_images_variables_win_unless_named(inside, monkeypatch):
    script = "echo $NCCL_VERSION $MINE"
    given = "--export=ALL,NCCL_VERSION=job,MINE=job"
    assert inside(given, script=script).stdout == "image job\n"
    assert inside(given, "--container-env=NCCL_VERSION,MINE", script=script).stdout == "job job\n"


def test_an_image_of_a_registry(slurm_lab_plain: SlurmLab):
    name = slurm_lab_plain.image("nvcr.io/nvidia/nemo:25.11", {"/etc/lab-release": "nemo\n"})
    assert slurm_lab_plain.run("srun", f"--container-image={name}", "cat", "/etc/lab-release").stdout == "nemo\n"


def test_a_plain_user_stays_one_unless_remapped(slurm_lab_plain: SlurmLab, image: str):
    def who(*options: str) -> list[str]:
        words = ["srun", f"--container-image={image}", *options, "id", "--user", "--name"]
        ssh = slurm_lab_plain.ssh.as_user(USER).command(shlex.join(words))
        done = subprocess.run(ssh, capture_output=True, text=True)
        return [*done.stdout.split(), *done.stderr.splitlines()]

    assert who() == [USER]
    assert who("--container-remap-root") == ["root"]


def test_a_whole_batch_script(slurm_lab_plain: SlurmLab, image: str, tmp_path: Path):
    mounts = f"--container-mounts={tmp_path}"
    job = slurm_lab_plain.submit(f"cat /etc/lab-release > {tmp_path}/out", f"--container-image={image}", mounts)
    assert slurm_lab_plain.wait_for(job, "COMPLETED", "FAILED") == "COMPLETED"
    assert (tmp_path / "out").read_text() == "made for tests\n"


def test_a_named_container_is_kept(slurm_lab_plain: SlurmLab, inside):
    inside("--container-name=kept", "--nodelist=n1", script="echo before > /opt/note")
    words = ("srun", "--nodelist=n1", "--container-name=kept", "cat", "/opt/note")
    assert slurm_lab_plain.run(*words).stdout == "before\n"


def test_read_only(inside):
    done = inside("--container-readonly", script="touch /opt/x /usr/x; true")
    assert done.stderr.count("Read-only file system") == 2, done.stderr


def test_the_home_is_mounted_when_asked_for(slurm_lab_plain: SlurmLab, inside):
    note = slurm_lab_plain.base / "home" / "root" / "note"
    note.write_text("at home\n")
    assert inside("--container-mount-home", script=f"cat {note}").stdout == "at home\n"
    assert inside("--no-container-mount-home", script=f"cat {note}").stdout == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--container-image=/none/such.sqsh"], "No such file or directory: /none/such.sqsh"),
        (["--container-image=nvcr.io/none/such:1"], "pyxis: failed to import docker image"),
        (["--container-mounts=/none/such:/data"], "enroot-mount: failed to mount: /none/such at"),
        (["--container-mounts=data:/data"], "pyxis: mount source must be a relative path"),
        (["--container-mounts=/tmp:"], "pyxis: --container-mounts: invalid format: /tmp:"),
        (["--container-workdir=/none/such"], "pyxis: couldn't chdir to /none/such"),
        (["--container-writable", "--container-readonly"], "were both specified"),
        (["--container-save=/tmp/x.sqsh"], "pyxis: --container-save"),
        (["--container-none-such=1"], "unrecognized option"),
    ],
)
def test_refusals(slurm_lab_plain: SlurmLab, image: str, options: list[str], message: str):
    given = options if "image" in options[0] else [f"--container-image={image}", *options]
    done = slurm_lab_plain.run("srun", *given, "true", check=False)
    assert done.returncode != 0
    assert message in done.stderr


def test_mounts_without_an_image_are_said_to_be_ignored(slurm_lab_plain: SlurmLab, tmp_path: Path):
    done = slurm_lab_plain.run("srun", f"--container-mounts={tmp_path}", "hostname")
    assert done.stdout == "n1\n"
    assert "ignoring --container-mounts because neither" in done.stderr

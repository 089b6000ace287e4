"""A job's files come to the cluster whole or not at all, once, and for their owner only."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from labs.slurm.cluster import USER, SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, Login, cargo_of, put, slurm_plan, start, tasks_said, wait

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.slurm.cluster.stage import probe, stage
from nemo_runspec.backends.slurm.values import HOME, fill_home
from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import plan_to_json
from nemo_runspec.transport.base import Data, Done

pytestmark = needs_slurm


@pytest.fixture
def host(slurm_lab_plain: SlurmLab) -> LabHost:
    return LabHost(slurm_lab_plain)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A code package: a file, one that may be run, a link."""
    top = tmp_path / "repository"
    top.mkdir()
    (top / "mine.py").write_text("NAME = 'mine'\n")
    (top / "tool.sh").write_text("#!/bin/sh\n")
    (top / "tool.sh").chmod(0o755)
    (top / "link").symlink_to("mine.py")
    file = tmp_path / "code.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        tar.add(top, ".")
    return file


def test_a_package_travels_once(host: LabHost, tmp_path: Path, archive: Path):
    first, second = (slurm_plan(tmp_path, "") for _ in range(2))
    values = {"archive": archive, "digest": "ab12"}
    host.calls = 0
    put(host, first, **values)
    assert host.calls == 3
    put(host, second, **values)
    assert host.calls == 5
    assert (tmp_path / "run" / "packages" / "ab12.tar.gz").read_bytes() == archive.read_bytes()
    for plan in (first, second):
        code = Path(plan.job_dir) / "code"
        assert (code / "link").is_symlink()
        assert (code / "mine.py").read_text() == "NAME = 'mine'\n"
        assert (code / "tool.sh").stat().st_mode & 0o111


def test_modes(host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, "")
    put(host, plan, secrets={"TOKEN": "x"})
    folder = Path(plan.job_dir)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "secrets.env").stat().st_mode & 0o777 == 0o600
    names = {path.name for path in folder.iterdir()}
    assert names >= {"code", "scripts", "bundle", "train.yaml", "job.yaml", "secrets.env", f"{plan.name}_sbatch.sh"}
    assert not [name for name in names if name.startswith(".")]
    assert not [path for path in folder.rglob("*") if path.stat().st_mode & 0o077]
    assert [path.name for path in folder.parent.iterdir()] == [plan.name]


def test_what_is_there_is_left(host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, "")
    put(host, plan, secrets={"TOKEN": "x"})
    (Path(plan.job_dir) / "secrets.env").unlink()
    put(host, plan, secrets={"TOKEN": "x"})
    cargo = cargo_of(plan, secrets={"TOKEN": "x"})
    unaware = probe(host, f"{plan.job_dir}-other")
    stage(host, plan.job_dir, cargo, unaware)
    assert not (Path(plan.job_dir) / "secrets.env").exists()


class Cut(LabHost):
    """A connection that breaks after so many bytes of input."""

    after = 0

    def run(self, script: str, *, data: Data = b"", timeout: float = 60.0) -> Done:
        """As `Host.run`."""
        whole = data if isinstance(data, bytes) else b"".join(data)
        return super().run(script, data=whole[: self.after], timeout=timeout)


@pytest.mark.parametrize("after", [0, 1, 512, 1024, 10_000, 20_480])
def test_what_does_not_arrive_whole_is_not_there(slurm_lab_plain: SlurmLab, tmp_path: Path, after: int):
    plan = slurm_plan(tmp_path, "")
    broken = Cut(slurm_lab_plain)
    broken.after = after
    with pytest.raises(UserError, match="cannot be written"):
        put(broken, plan, secrets={"TOKEN": "x" * 9000})
    assert list(Path(plan.job_dir).parent.iterdir()) == []


@pytest.mark.parametrize("size", [0, 100])
def test_a_package_that_does_not_arrive_whole_is_not_there(
    slurm_lab_plain: SlurmLab, tmp_path: Path, archive: Path, size: int
):
    broken = Cut(slurm_lab_plain)
    broken.after = size
    with pytest.raises(UserError, match="did not arrive whole"):
        put(broken, slurm_plan(tmp_path, ""), archive=archive, digest="ab12")
    assert list((tmp_path / "run" / "packages").iterdir()) == []


def test_what_was_cut_off_is_taken_away(host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, "")
    left = Path(plan.job_dir).parent / f".{plan.name}.123.456"
    left.mkdir(parents=True)
    (left / "secrets.env").write_text("export TOKEN=x\n")
    put(host, plan)
    assert not left.exists()


def test_a_folder_that_may_not_be_written(slurm_lab_plain: SlurmLab, tmp_path: Path):
    (tmp_path / "closed").mkdir(mode=0o700)
    plan = slurm_plan(tmp_path, "", {"remote_job_dir": f"{tmp_path}/closed/run"})
    with Login(slurm_lab_plain, USER) as login, pytest.raises(UserError, match="Permission denied"):
        put(login, plan)


def test_a_hole_is_filled_everywhere_and_the_job_runs_there(slurm_lab_plain: SlurmLab, tmp_path: Path):
    """A plain user over SSH, with the default `remote_job_dir` of a tunnel."""
    env = {"tunnel": "ssh", "host": "login", "remote_job_dir": None}
    plan = slurm_plan(
        tmp_path, "", env, env={"MINE": f"{HOME}/data"}, config={"a": [f"{HOME}/x"]},
        cmd="echo $MINE $NEMOTRON_JOB_DIR # {script}",
    )  # fmt: skip
    assert plan.job_dir.startswith(HOME)
    with Login(slurm_lab_plain, USER) as login:
        home = probe(login, plan.job_dir).home
        assert home == f"{slurm_lab_plain.base}/home/{USER}"
        filled = fill_home(plan, home)
        assert HOME not in plan_to_json(filled)
        rendering = get_backend("slurm").make_rendering(filled)
        assert rendering is not None
        assert all(HOME not in file.text for file in rendering.files)
        assert rendering.holes == ()
        job = start(login, filled)
        assert wait(login, job).state == "succeeded"
    assert tasks_said(filled, job) == f"{home}/data {filled.job_dir}\n"
    assert Path(filled.job_dir).stat().st_uid == 2001

"""Our programs lie on the cluster once, by their digests, and each job has them: as links, as copies, or sent again."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

import pytest
from labs.slurm.cluster import USER, SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, Login, cargo_of, put, slurm_plan, start, wait

from nemo_runspec.backends.slurm.cluster.stage import probe, stage
from nemo_runspec.backends.slurm.render import slurm_programs
from nemo_runspec.plans.model import Plan
from nemo_runspec.transport.base import Data, Done

pytestmark = needs_slurm

NAMES = {each.digest: each.name for each in slurm_programs()}
SIZE = sum(each.size for each in slurm_programs())


class Counting(LabHost):
    """A login node that knows what it was sent."""

    sent = 0

    def run(self, script: str, *, data: Data = b"", timeout: float = 60.0) -> Done:
        """As `Host.run`."""
        whole = data if isinstance(data, bytes) else b"".join(data)
        self.sent += len(script) + len(whole)
        return super().run(script, data=whole, timeout=timeout)

    def put(self, plan: Plan) -> int:
        """Stages a plan; the bytes that it took."""
        before = self.sent
        put(self, plan)
        return self.sent - before


@pytest.fixture
def host(slurm_lab_plain: SlurmLab) -> Counting:
    return Counting(slurm_lab_plain)


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    return tmp_path / "run" / "packages"


def assert_right(plan: Plan) -> None:
    """The job has our programs, as files of its own that nobody writes to."""
    for each in slurm_programs():
        file = Path(plan.job_dir, each.name)
        assert file.read_text() == each.text
        assert not file.is_symlink()
        assert file.stat().st_mode & 0o777 == 0o400
    assert not [path for path in Path(plan.job_dir).iterdir() if path.name.startswith(".")]


def assert_whole(pool: Path) -> None:
    """The pool has each program by its digest, for its owner only, and nothing else."""
    assert {path.name: path.read_text() for path in pool.iterdir()} == {
        each.digest: each.text for each in slurm_programs()
    }
    assert {path.stat().st_mode & 0o777 for path in pool.iterdir()} == {0o400}


def test_they_are_sent_once_and_linked(host: Counting, tmp_path: Path, pool: Path):
    first, second = (slurm_plan(tmp_path, "") for _ in range(2))
    assert host.put(first) > SIZE
    assert_whole(pool)
    calls = host.calls
    assert host.put(second) < 40_000
    assert host.calls == calls + 2, "no further round trip"
    for plan in (first, second):
        assert_right(plan)
        for digest, name in NAMES.items():
            assert Path(plan.job_dir, name).samefile(pool / digest)


def test_a_job_goes_on_where_the_pool_is_wiped_away(host: Counting, tmp_path: Path, pool: Path):
    plan, after = (slurm_plan(tmp_path, "print('here')") for _ in range(2))
    put(host, plan)
    rmtree(pool)
    assert_right(plan)
    assert wait(host, start(host, after)).state == "succeeded"
    assert_whole(pool)


@pytest.mark.parametrize("wiped", ["all", "one"])
def test_what_is_wiped_away_between_two_round_trips_is_sent(host: Counting, tmp_path: Path, pool: Path, wiped: str):
    archive = tmp_path / "code.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", tmp_path, "--files-from=/dev/null"], check=True)
    values = {"archive": archive, "digest": "ab12"}
    put(host, slurm_plan(tmp_path, ""), **values)
    plan = slurm_plan(tmp_path, "")
    cargo = cargo_of(plan, **values)
    found = probe(host, plan.job_dir, cargo.digest, cargo.programs)
    assert (found.package, found.programs) == (True, True)
    if wiped == "all":
        rmtree(pool)
    else:
        (pool / next(iter(NAMES))).unlink()
    stage(host, plan.job_dir, cargo, found)
    assert_right(plan)
    assert {path.name for path in pool.iterdir()} == {*NAMES, "ab12.tar.gz"}


@pytest.mark.parametrize("fault", ["changed", "cut", "empty", "link", "folder"])
def test_what_is_not_what_its_name_says_is_replaced(host: Counting, tmp_path: Path, pool: Path, fault: str):
    waiting, plan, next_one = (slurm_plan(tmp_path, "") for _ in range(3))
    put(host, waiting)
    (entry,) = (pool / digest for digest, name in NAMES.items() if name == "supervisor.py")
    text = entry.read_text()
    entry.unlink()
    if fault == "link":
        (tmp_path / "elsewhere").write_text(text)
        entry.symlink_to(tmp_path / "elsewhere")
    elif fault == "folder":
        entry.mkdir()
    else:
        entry.write_text({"changed": text.replace("a", "b", 1), "cut": text[:-1], "empty": ""}[fault])
    put(host, plan)
    for each in (waiting, plan):
        assert_right(each)
    if fault != "folder":
        assert_whole(pool)
        assert host.put(next_one) < 40_000


def test_other_file_systems_get_copies(slurm_lab_plain: SlurmLab, tmp_path: Path, pool: Path):
    """Where no second name can be made: over a mount, or where the file system has none."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ln").write_text("#!/bin/sh\necho 'ln: Invalid cross-device link' >&2\nexit 1\n")
    (tools / "ln").chmod(0o755)
    host = LabHost(slurm_lab_plain, path=str(tools))
    plans = [slurm_plan(tmp_path, "") for _ in range(2)]
    for plan in plans:
        put(host, plan)
        assert_right(plan)
    assert_whole(pool)
    assert len({Path(plan.job_dir, "supervisor.py").stat().st_ino for plan in plans}) == 2


def test_many_at_once(host: Counting, tmp_path: Path, pool: Path):
    plans = [slurm_plan(tmp_path, "") for _ in range(12)]
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda plan: put(host, plan), plans))
    for plan in plans:
        assert_right(plan)
    assert_whole(pool)


def test_what_belongs_to_somebody_else_is_not_taken(slurm_lab_plain: SlurmLab, tmp_path: Path, pool: Path):
    """Its owner could change it while the job waits."""
    run = tmp_path / "run"
    run.mkdir()
    run.chmod(0o777)
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    put(LabHost(slurm_lab_plain), slurm_plan(tmp_path, ""))
    for folder in (pool, run / "jobs"):
        folder.chmod(0o777)
    for entry in pool.iterdir():
        entry.chmod(0o444)
    plan = slurm_plan(tmp_path, "")
    with Login(slurm_lab_plain, USER) as login:
        put(login, plan)
    owners = {Path(plan.job_dir, each.name).stat().st_uid for each in slurm_programs()}
    assert owners == {Path(plan.job_dir).stat().st_uid} != {os.getuid()}
    assert_right(plan)


def test_what_nobody_asks_for_is_removed_and_what_is_asked_for_stays(host: Counting, tmp_path: Path, pool: Path):
    put(host, slurm_plan(tmp_path, ""))
    old = pool / "of-an-earlier-release"
    old.write_text("x")
    long_ago = old.stat().st_mtime - 31 * 86400
    for path in pool.iterdir():
        os.utime(path, (long_ago, long_ago))
    put(host, slurm_plan(tmp_path, ""))
    assert old.exists(), "only who sends something looks through the pool"
    (pool / next(iter(NAMES))).unlink()
    put(host, slurm_plan(tmp_path, ""))
    assert_whole(pool)


def test_without_sha256sum_they_are_sent_each_time(slurm_lab_plain: SlurmLab, tmp_path: Path, pool: Path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sha256sum").write_text("#!/bin/sh\nexit 127\n")
    (tools / "sha256sum").chmod(0o755)
    host = LabHost(slurm_lab_plain, path=str(tools))
    plan = slurm_plan(tmp_path, "")
    put(host, plan)
    assert_right(plan)
    assert not list(pool.iterdir())


def test_a_pool_that_cannot_be_made_stops_no_job(host: Counting, tmp_path: Path, pool: Path):
    pool.parent.mkdir()
    pool.write_text("a file")
    plan = slurm_plan(tmp_path, "")
    put(host, plan)
    assert_right(plan)

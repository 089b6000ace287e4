"""Repositories mounted into a job: checked out for it, pinned for its retry, removed with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import support

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.mounts import provide_mounts
from nemo_runspec.plans.model import AutoMount
from nemo_runspec.records import JobStore
from nemo_runspec.submission.mount_commits import at_recorded_commits, read_mounts, write_mounts


@pytest.fixture
def source(tmp_path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "data").write_text("first")
    support.make_repository(folder)
    return folder


def mount(tmp_path: Path, source: Path, job: str) -> AutoMount:
    return AutoMount(f"file://{source}", "main", str(tmp_path / "git/source-12345678/jobs" / job / "main"), "/opt/s")


def test_a_retry_has_the_commit_of_the_job_before(tmp_path, source):
    (first,) = provide_mounts((mount(tmp_path, source, "one"),), print)
    write_mounts(tmp_path, (first,))
    (source / "data").write_text("second")
    support.git(source, "commit", "-aqm", "second")
    again = at_recorded_commits((mount(tmp_path, source, "two"),), tmp_path)
    (made,) = provide_mounts(again, print)
    assert made.commit == first.commit
    assert (Path(made.path) / "data").read_text() == "first"
    (newer,) = provide_mounts((mount(tmp_path, source, "three"),), print)
    assert (Path(newer.path) / "data").read_text() == "second"


def test_what_was_not_written_pins_nothing(tmp_path, source):
    asked = (mount(tmp_path, source, "one"),)
    assert at_recorded_commits(asked, tmp_path) == asked
    (tmp_path / "mounts.json").write_text("{")
    assert read_mounts(tmp_path) == ()


def test_rm_removes_the_checkout_of_that_job_alone(tmp_path, project, nemotron_process, source):
    project.write("env.toml", '[local]\nexecutor = "local"\n')
    project.write("train.py", "print(1)")
    nemotron_process("run", "./train.py").succeeds()
    store = JobStore(project.state / "jobs")
    name = store.list()[0].name
    made = provide_mounts((mount(tmp_path, source, name), mount(tmp_path, source, "other")), print)
    write_mounts(store.folder(name), made[:1])
    nemotron_process("jobs", "rm", name).succeeds()
    assert [Path(m.path).exists() for m in made] == [False, True]


def test_a_path_that_is_not_the_jobs_own_is_left_alone(tmp_path, project, nemotron_process):
    """A damaged file must not make `rm` remove something else."""
    project.write("env.toml", '[local]\nexecutor = "local"\n')
    project.write("train.py", "print(1)")
    nemotron_process("run", "./train.py").succeeds()
    store = JobStore(project.state / "jobs")
    name = store.list()[0].name
    precious = tmp_path / "precious" / "x"
    precious.mkdir(parents=True)
    entry = {"url": "file:///x", "ref": "main", "path": str(precious), "target": "/x", "commit": None}
    (store.folder(name) / "mounts.json").write_text(json.dumps([entry]))
    nemotron_process("jobs", "rm", name).succeeds()
    assert precious.is_dir()


def test_a_ref_that_cannot_be_had(tmp_path, source):
    gone = AutoMount(f"file://{source}", "no-such", str(tmp_path / "git/source-1/jobs/a/no-such"), "/opt/s")
    with pytest.raises(UserError, match="no-such"):
        provide_mounts((gone,), print)

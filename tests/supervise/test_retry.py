"""`nemotron jobs retry`: the stored plan on the stored files, whatever has changed since."""

from __future__ import annotations

import shutil

import pytest
import support

from nemo_runspec.records import JobStore

PRINTS = """\
import sys
from pathlib import Path
print('one', sys.argv[1:], Path('data').read_text().strip())
sys.exit(4)
"""


@pytest.fixture
def store(project):
    project.write("env.toml", '[local]\nexecutor = "local"\n[packed]\npackager = "git"\n')
    project.write("data", "first")
    project.write("train.py", PRINTS)
    support.make_repository(project.folder)
    return JobStore(project.state / "jobs")


def log(store, name):
    return (store.folder(name) / "logs" / "job.log").read_text()


def test_the_recipe_as_it_was(project, nemotron_process, store):
    assert nemotron_process("run", "./train.py", "--", "a b").code == 4
    first = store.list()[0]
    project.write("train.py", "raise SystemExit('changed')")
    done = nemotron_process("jobs", "retry", first.name)
    again = store.list()[0]
    assert done.code == 4, done.err
    assert again.name != first.name
    assert again.retry_of == first.name
    assert log(store, again.name) == "one ['a b'] first\n"


def test_the_package_as_it_was(project, nemotron_process, store):
    assert nemotron_process("run", "./train.py", "--run", "packed").code == 4
    first = store.list()[0]
    project.write("data", "second")
    support.git(project.folder, "commit", "-aqm", "second")
    shutil.rmtree(project.state / "packages", ignore_errors=True)
    assert nemotron_process("jobs", "retry", "last").code == 4
    assert log(store, store.list()[0].name).endswith("first\n")
    assert dict(store.list()[0].package) == dict(first.package)


def test_a_local_job_runs_where_it_ran(project, nemotron_process, store, tmp_path):
    assert nemotron_process("run", "./train.py").code == 4
    assert nemotron_process("jobs", "retry", "last", cwd=tmp_path).code == 4
    assert log(store, store.list()[0].name).endswith("first\n")


def test_a_job_that_goes_on_is_not_retried(project, nemotron_process, store):
    project.write("nap.py", "import time\ntime.sleep(600)")
    nemotron_process("run", "./nap.py", "--batch", "local").succeeds()
    nemotron_process("jobs", "retry", "last").refuses("jobs cancel")
    nemotron_process("jobs", "cancel", "last").succeeds()
    assert len(store.list()) == 1


@pytest.mark.slow
def test_detached_again(project, nemotron_process, store):
    nemotron_process("run", "./train.py", "--batch", "local").succeeds()
    nemotron_process("jobs", "wait", "last")
    nemotron_process("jobs", "retry", "last").succeeds()
    assert nemotron_process("jobs", "wait", "last").code == 4
    assert [r.mode for r in store.list()] == ["batch", "batch"]

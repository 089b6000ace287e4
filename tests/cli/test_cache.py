"""`nemotron cache`, from outside: what is kept, what of it a living job needs, and what is taken away."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path

import pytest
from job_records import record, stored
from support import HEADER, Project, git, make_repository, process, start
from waiting import until

from nemo_runspec import envs
from nemo_runspec.packaging.addresses import read_auto_mount
from nemo_runspec.packaging.mounts import provide_mounts
from nemo_runspec.records import JobStore
from nemo_runspec.records.process import this_process
from nemo_runspec.submission.mount_commits import write_mounts
from nemo_runspec.text import size

pytestmark = pytest.mark.slow

ENDED = ("planned", "running", "succeeded")
LONG_AGO = time.time() - 90 * 86400
WAITS = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"


def environment(project: Project, name: str, *dependencies: str, used: float = LONG_AGO) -> Path:
    """One that was made some time ago."""
    folder = project.state / "envs" / name
    folder.mkdir(parents=True)
    (folder / "module.py").write_bytes(b"x" * 100_000)
    envs.marker(folder).write_text(json.dumps({"dependencies": list(dependencies)}))
    os.utime(envs.marker(folder), (used, used))
    return folder


def kept(project: Project, *args: str) -> dict[str, dict]:
    """What is kept, by its name."""
    return {entry["name"]: entry for entry in process(project, "cache", "list", *args, "--json").succeeds().json}


def test_what_is_old_goes_and_what_is_younger_stays(project: Project) -> None:
    old = environment(project, "old", "torch==2.13.0", "numpy")
    young = environment(project, "young", "wandb", used=time.time() - 86400)
    shown = process(project, "cache", COLUMNS="80").succeeds().out
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "torch==2.13.0, numpy" in shown
    assert "3 months" in shown or "90 d ago" in shown
    for word in ("-n", "--dry-run"):
        assert "would be freed" in process(project, "cache", "prune", "--older-than", "30d", word).succeeds().out
    assert old.is_dir()
    gone = process(project, "cache", "prune", "--older-than", "30d").succeeds().out
    assert "torch==2.13.0" in gone
    assert "wandb" not in gone
    assert (old.exists(), young.is_dir()) == (False, True)


def test_what_a_living_job_needs_stays_until_it_has_ended(project: Project) -> None:
    """Its environment says that it was last asked for long ago: only the job's own word keeps it."""
    project.recipe("held", header=HEADER.replace("[]", '["nemotron_test_wheel"]'), body=WAITS)
    from local.test_envs import make_wheel

    make_wheel(project.folder / "wheels")
    child = start(project, "held", UV_FIND_LINKS=str(project.folder / "wheels"), UV_NO_INDEX="1")
    jobs = JobStore(project.state / "jobs")
    until(lambda: [each for each in jobs.list() if each.state == "running"], "the job")
    [entry] = kept(project).values()
    assert entry["needed_by"] == [jobs.list()[0].name]
    os.utime(envs.marker(Path(entry["path"])), (LONG_AGO, LONG_AGO))
    assert process(project, "cache", "prune", "--older-than", "0s", "--json").succeeds().json == []
    assert Path(entry["path"]).is_dir()
    (project.folder / "go").touch()
    child.communicate(timeout=60)
    [gone] = process(project, "cache", "prune", "--older-than", "0s", "--json").succeeds().json
    assert gone["path"] == entry["path"]
    assert not Path(entry["path"]).exists()


def test_what_was_asked_for_just_now_or_is_being_made_stays(project: Project) -> None:
    environment(project, "now", "a", used=time.time())
    busy = environment(project, "busy", "b")
    from nemo_runspec.locks import locked_file

    with locked_file(envs.lock_file(busy)):
        assert process(project, "cache", "prune", "--older-than", "0s", "--json").succeeds().json == []
    assert len(kept(project)) == 2


def test_a_mirrored_log_goes_where_logs_are_named_and_one_of_this_machine_stays(project: Project) -> None:
    store = JobStore(project.state / "jobs")
    here = stored(store, record("here-1122-aaaaaaaa", ENDED, age=90 * 86400), b"the only one\n")
    there = stored(
        store, record("there-1122-bbbbbbbb", ENDED, age=90 * 86400, handle={"id": "7", "name": "there"}), b"a copy\n"
    )
    logs = {each.name: store.folder(each.name) / "logs" / "job.log" for each in (here, there)}
    logs[there.name].with_name("fetched.json").write_text('{"size": 7, "offsets": {}}')
    room = size(logs[there.name].stat().st_blocks * 512)
    assert list(kept(project, "--kind", "logs")) == [there.name]
    for word in ("-n", "-q"):
        said = process(project, "cache", "prune", "--older-than", "0s", word).succeeds().out
        assert f"{room} of logs of jobs elsewhere stay, perhaps the only copy: --kind logs takes them away" in said
        assert said.startswith("0 B ")
        assert [log.exists() for log in logs.values()] == [True, True]
    assert process(project, "cache", "prune", "--older-than", "0s", "--json").succeeds().json == []
    said = process(project, "cache", "prune", "--older-than", "30d", "--kind", "logs").succeeds().out
    assert said.endswith(f"{room} freed\n")
    assert [log.exists() for log in logs.values()] == [True, False]


def test_a_package_stays_while_a_job_holds_it(project: Project) -> None:
    make_repository(project.folder)
    project.recipe("done", body="print('done')\n")
    git(project.folder, "add", "--all")
    git(project.folder, "commit", "--quiet", "--message=recipe")
    process(project, "done", "run.env.packager=git").succeeds()
    name = JobStore(project.state / "jobs").list()[0].name
    [archive] = (project.state / "packages").glob("*.tar.gz")
    os.utime(archive, (LONG_AGO, LONG_AGO))
    [entry] = kept(project, "--kind", "packages").values()
    assert (entry["path"], entry["needed_by"], entry["bytes"] > 0) == (str(archive), [name], True)
    assert process(project, "cache", "prune", "--older-than", "0s", "--json").succeeds().json == []
    process(project, "jobs", "rm", name).succeeds()
    [gone] = process(project, "cache", "prune", "--older-than", "30d", "--json").succeeds().json
    assert (gone["path"], archive.exists()) == (str(archive), False)


def test_a_clone_stays_while_a_living_job_mounts_it_and_is_made_anew_afterwards(project: Project) -> None:
    """The job is a record here: what it mounts is what it has written down."""
    remote = project.folder / "lib"
    remote.mkdir()
    (remote / "lib.py").write_text("1\n")
    make_repository(remote)
    living = stored(
        JobStore(project.state / "jobs"), record("lives-1122-aaaaaaaa", ("planned",), launcher=this_process())
    )
    folder = JobStore(project.state / "jobs").folder(living.name)
    wanted = read_auto_mount(f"git+file://{remote}@main,/opt/lib", living.name, lambda: project.state / "git")[0]
    [mount] = provide_mounts((wanted,), print)
    write_mounts(folder, [mount])
    [clone] = (project.state / "git").iterdir()
    for part in ("lock", "mirror.git", "jobs"):
        os.utime(clone / part, (LONG_AGO, LONG_AGO))
    [entry] = kept(project, "--kind", "clones").values()
    assert (entry["path"], entry["needed_by"], entry["bytes"] > 0) == (str(clone), [living.name], True)
    assert process(project, "cache", "prune", "--older-than", "0s", "--json").succeeds().json == []
    assert (Path(mount.path) / "lib.py").read_text() == "1\n"
    ended = {"states": (*living.states, *record(living.name, ENDED).states[1:]), "launcher": None}
    stored(JobStore(project.state / "jobs"), dataclasses.replace(living, **ended))
    [gone] = process(project, "cache", "prune", "--older-than", "30d", "--json").succeeds().json
    assert gone["path"] == str(clone)
    assert not Path(mount.path).exists()
    assert list(kept(project)) == []
    [again] = provide_mounts((wanted,), print)
    assert (Path(again.path) / "lib.py").read_text() == "1\n"


def test_it_asks_how_old_and_knows_its_kinds(project: Project) -> None:
    process(project, "cache", "prune").refuses("how old must it be? Say so with --older-than")
    process(project, "cache", "prune", "--older-than", "soon").refuses("'soon' is not a length of time")
    process(project, "cache", "list", "--kind", "package").refuses("there is no such kind", "packages")

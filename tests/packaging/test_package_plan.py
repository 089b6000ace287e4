"""The package and the mounted repositories in a plan: what a dry run shows, what a submission refuses."""

from __future__ import annotations

import pytest
from support import git, make_repository

import nemo_runspec
from nemo_runspec.packaging.mounts import provide_mounts

CLUSTER = '[far]\nexecutor = "slurm"\naccount = "a"\npartition = "p"\ntime = "1:00:00"\ncontainer_image = "i"\n'


@pytest.fixture
def repository(project):
    project.recipe("mine/train")
    make_repository(project.folder)
    project.write("new.txt", "1")
    return project


def profile(project, text, head=""):
    project.write("env.toml", head + CLUSTER + text)


def dry_run(nemotron, *words):
    return nemotron("mine", "train", "--run", "far", "--dry-run", *words)


def test_warn_is_said_once_in_a_dry_run_and_at_a_submission(repository, nemotron):
    profile(repository, "")
    out = dry_run(nemotron).succeeds().out
    assert out.count("NOT sent: 1 untracked file: new.txt") == 1
    assert "NOT sent: 1 untracked file: new.txt" in nemo_runspec.plan("mine/train", profile="far").warnings


def test_include(repository, nemotron):
    profile(repository, 'dirty = "include"\n')
    out = dry_run(nemotron).succeeds().out
    commit = git(repository.folder, "rev-parse", "HEAD").strip()
    assert f"git commit {commit[:12]} and changes, " in out
    assert "sent, not committed: 2 files: env.toml, new.txt" in out
    assert "NOT sent" not in out


def test_refuse(repository, nemotron):
    profile(repository, "")
    line = 'dirty = "refuse": 2 changed or new files: env.toml, new.txt'
    assert f"before submission: {line}" in dry_run(nemotron, "run.env.dirty=refuse").succeeds().out
    here = ("run.env.packager=git", "run.env.dirty=refuse")
    repository.write("env.toml", "[far]\nexecutor = 'local'\n")
    nemotron("mine", "train", "--run", "far", *here).refuses("nothing was submitted", line)


def test_a_package_that_cannot_be_made_yet(repository, nemotron):
    profile(repository, 'packager = "pattern"\npackager_include_pattern = "*.so"\n')
    out = dry_run(nemotron).succeeds().out
    assert "code     pattern, not known yet" in out
    assert "before submission: packager_include_pattern: '*.so' matches no file" in out


def test_hybrid_in_toml(repository, nemotron):
    parts = 'code = { packager = "git", subpath = "recipes" }, more = { include_pattern = "new.txt", merge = "." }'
    profile(repository, f'packager = "hybrid"\npackager_sub_packagers = {{ {parts} }}\n')
    out = dry_run(nemotron).succeeds().out
    assert "code     hybrid, 3 files" in out
    assert "sha256" in out


@pytest.fixture
def library(tmp_path):
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "lib.py").write_text("1\n")
    make_repository(folder)
    return folder


def test_a_repository_mounted_by_a_profile(repository, library, nemotron, tmp_path, monkeypatch):
    monkeypatch.setenv("LIBRARY", f"file://{library}")
    profile(
        repository,
        'mounts = ["/data:/data", "${auto_mount:git+${oc.env:LIBRARY,x}@main,/opt/lib}:ro"]\n',
        f'[cache]\ngit_dir = "{tmp_path}/cache"\n',
    )
    plan = nemo_runspec.plan("mine/train", profile="far")
    out = dry_run(nemotron).succeeds().out
    nemotron("env", "check").succeeds()
    (mount,) = plan.auto_mounts
    assert (mount.url, mount.ref, mount.target, mount.commit) == (f"file://{library}", "main", "/opt/lib", None)
    assert mount.path.startswith(f"{tmp_path}/cache/library-")
    assert plan.name in mount.path
    assert f"{mount.path}:/opt/lib:ro" in plan.target.mounts
    assert f"mount    /opt/lib: file://{library} at main" in out
    assert not (tmp_path / "cache").exists()
    (made,) = provide_mounts(plan.auto_mounts, print)
    assert made.commit == git(library, "rev-parse", "HEAD").strip()


def test_a_repository_mounted_by_a_yaml_and_by_the_command_line(repository, library, nemotron):
    text = f"${{auto_mount:git+file://{library}@main,/opt/lib}}"
    repository.recipe("mine/train", default=f"value: 1\nrun:\n  env:\n    mounts: ['{text}']\n")
    profile(repository, "")
    plan = dry_run(nemotron, "--json").succeeds().json["plan"]
    assert [mount["target"] for mount in plan["auto_mounts"]] == ["/opt/lib"]
    assert plan["auto_mounts"][0]["path"].startswith(str(repository.state / "git"))
    other = f"run.env.mounts=['${{auto_mount:git+file://{library}@v2,/opt/two}}']"
    plan = dry_run(nemotron, other, "--json").succeeds().json["plan"]
    assert [(mount["ref"], mount["target"]) for mount in plan["auto_mounts"]] == [("v2", "/opt/two")]


def test_a_token_in_an_address(repository, nemotron):
    profile(repository, 'mounts = ["${auto_mount:git+https://me:hunter22@host/lib@main,/opt/lib}"]\n')
    outcome = dry_run(nemotron)
    outcome.refuses("auto_mount: the address 'https://host/lib@main' holds a token or a password", "env.toml:7")
    assert "hunter22" not in outcome.err


def test_other_text_of_the_users_stays_as_it_is(repository):
    profile(repository, 'startup_commands = ["echo ${auto_mount:1,2} ${HOME}"]\n')
    plan = nemo_runspec.plan("mine/train", profile="far")
    assert plan.launch.setup == ("echo ${auto_mount:1,2} ${HOME}",)
    assert plan.auto_mounts == ()

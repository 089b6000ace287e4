"""The package and the mounted repositories in a plan: what a dry run shows, what a submission refuses."""

from __future__ import annotations

import shutil

import pytest
from support import git, make_repository

import nemo_runspec
from nemo_runspec.errors import UserError
from nemo_runspec.packaging.mounts import provide_mounts
from nemo_runspec.planning.missing_values import refuse_unfilled
from nemo_runspec.records import JobStore

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
    line = 'dirty = "refuse": 1 changed or new file: new.txt'
    assert f"before submission: {line}" in dry_run(nemotron, "run.env.dirty=refuse").succeeds().out
    here = ("run.env.packager=git", "run.env.dirty=refuse")
    repository.write("env.toml", "[far]\nexecutor = 'local'\n")
    outcome = nemotron("mine", "train", "--run", "far", *here)
    outcome.refuses("the code cannot be packaged; nothing was submitted", line, "commit or stash", "run.env.dirty=warn")
    assert "not complete" not in outcome.err
    assert "complete it in" not in outcome.err


def test_a_submodule_that_is_not_here_has_a_mend_of_its_own(repository, library, nemotron):
    git(repository.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "third")
    git(repository.folder, "commit", "--quiet", "--message=submodule")
    git(repository.folder, "submodule", "--quiet", "deinit", "--all", "--force")
    shutil.rmtree(repository.folder / ".git/modules")
    repository.write("env.toml", "[far]\nexecutor = 'local'\npackager = 'git'\n")
    outcome = nemotron("mine", "train", "--run", "far")
    outcome.refuses("the code cannot be packaged", "submodule third is not initialised", "submodule update --init")
    assert "not complete" not in outcome.err


def test_a_profile_and_a_package_that_are_both_not_ready(repository):
    profile(repository, 'packager = "pattern"\npackager_include_pattern = "*.so"\n')
    repository.write("env.toml", (repository.folder / "env.toml").read_text().replace('"a"', '"YOUR-ACCOUNT"'))
    plan = nemo_runspec.plan("mine/train", profile="far")
    with pytest.raises(UserError) as caught:
        refuse_unfilled(plan)
    title, *rows = str(caught.value).splitlines()
    assert title == "profile 'far' is not complete, and the code cannot be packaged; nothing was submitted"
    assert "account" in rows[0]
    assert "'*.so' matches no file" in rows[1]
    assert "fix: correct it" in rows[2]


RECIPE = "recipes/mine/train/main.py"


def test_the_recipe_travels_as_it_is_and_that_is_said(repository, nemotron):
    profile(repository, "")
    repository.recipe("mine/train", body="print('changed')\n")
    repository.write("recipes/mine/train/helper.py", "new\n")
    repository.write("recipes/mine/train/tests/t.py", "new, and not in the bundle\n")
    plan = nemo_runspec.plan("mine/train", profile="far")
    assert plan.package.bundled == ("recipes/mine/train/helper.py", RECIPE)
    assert (plan.package.uncommitted, plan.package.untracked) == ((), ("new.txt", "recipes/mine/train/tests/"))
    line = f"sent as they are now, not as committed: 2 files: recipes/mine/train/helper.py, {RECIPE}"
    assert line in plan.warnings
    assert dry_run(nemotron).succeeds().out.count(line) == 1
    repository.recipe("mine/other")
    repository.write("recipes/mine/other/tests/t.py", "new, and not in the bundle\n")
    other = nemo_runspec.plan("mine/other", profile="far").package
    assert other.bundled == ("recipes/mine/other/config/default.yaml", "recipes/mine/other/main.py")
    assert "recipes/mine/other/tests/t.py" in other.untracked
    assert not set(other.bundled) & set(other.untracked)
    refused = nemo_runspec.plan("mine/train", profile="far", overrides=["run.env.dirty=refuse"])
    assert f"{RECIPE}" in refused.package.problems[0].what
    included = nemo_runspec.plan("mine/train", profile="far", overrides=["run.env.dirty=include"])
    assert RECIPE in included.package.included
    assert not [text for text in included.warnings if "sent" in text]


def test_what_the_record_says_of_the_recipe(repository, nemotron):
    repository.write("env.toml", "[here]\npackager = 'git'\n[bare]\n")
    script = repository.folder / RECIPE
    script.write_text(script.read_text() + "print('as it is now')\n")
    nemotron("mine", "train", "--run", "here").succeeds()
    nemotron("mine", "train", "--run", "bare").succeeds()
    bare, packaged = [record.package for record in JobStore().list()]
    assert {key: packaged[key] for key in ("uncommitted", "untracked", "bundled")} == {
        "uncommitted": 0, "untracked": 1, "bundled": 1,
    }  # fmt: skip
    assert (bare["kind"], bare["bundled"]) == ("none", 1)
    assert "sent" not in nemotron("mine", "train", "--run", "bare").succeeds().err


def test_refuse_without_anything_that_could_be_refused(repository):
    repository.write("env.toml", "[here]\n")

    def warnings(*overrides):
        return nemo_runspec.plan("mine/train", profile="here", overrides=overrides).warnings

    pattern = ("run.env.packager=pattern", "run.env.packager_include_pattern=new.txt")
    assert warnings("run.env.dirty=refuse") == (
        'dirty = "refuse": without effect, as no code is packaged (packager = "none")',
    )
    assert warnings("run.env.packager_subpath=src")[0].startswith("packager_subpath: without effect")
    assert "nothing of the package is taken from a commit" in warnings("run.env.dirty=refuse", *pattern)[0]
    assert warnings() == warnings(*pattern) == ()


def test_nothing_is_cloned_where_nothing_is_mounted(repository, library, nemotron):
    mount = f"${{auto_mount:git+file://{library}@main,/opt/lib}}"
    repository.write("env.toml", f"[here]\nmounts = ['{mount}']\n")
    plan = nemo_runspec.plan("mine/train", profile="here")
    assert plan.auto_mounts == ()
    assert plan.warnings == ("mounts: not used by executor 'local', and no repository is cloned for them",)
    nemotron("mine", "train", "--run", "here").succeeds()
    assert not (repository.state / "git").exists()


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
    assert f"/$nemo_run/{mount.there}:/opt/lib:ro" in plan.target.mounts
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


@pytest.mark.slow
def test_a_script_in_a_part_of_a_hybrid_imports_what_is_committed_beside_it(repository, nemotron_process):
    part = 'code = { packager = "git", subpath = "src", merge = "a b" }'
    repository.write(
        "env.toml",
        f'[here]\npackager = "hybrid"\npackager_sub_packagers = {{ {part}, x = {{ include_pattern = "*.txt" }} }}\n',
    )
    repository.write("src/helper.py", "WORD = 'committed'\n")
    script = repository.write("src/job.py", "import helper; print('it is', helper.WORD)\n")
    git(repository.folder, "add", "src")
    git(repository.folder, "commit", "--quiet", "--message=src")
    repository.write("src/helper.py", "WORD = 'changed'\n")
    repository.write("src/new.py", "")
    done = nemotron_process("run", str(script), "--run", "here", cwd=script.parent).succeeds()
    assert "it is committed" in done.out
    script.write_text("import new\n")
    done = nemotron_process("run", str(script), "--run", "here", cwd=script.parent)
    assert done.code == 1
    assert "No module named 'new'" in done.out
    assert "sent as they are now, not as committed: 1 file: src/job.py" in done.err

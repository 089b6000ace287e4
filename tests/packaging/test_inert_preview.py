"""A dry run runs nothing of the repository it is made in: no filter of its settings, no fetch by a way of its own."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *settings, "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def touch_later(file: Path) -> None:
    """The file is as it was, and git has to read it to know that."""
    later = time.time() + 1000
    os.utime(file, (later, later))


@pytest.fixture
def repository(project) -> Path:
    """A repository with a file that a filter of its own settings cleans, and a submodule that has another one."""
    top = project.folder
    inner = top.parent / "inner"
    for folder in (inner, top):
        folder.mkdir(exist_ok=True)
        git(folder, "init", "-q")
        (folder / ".gitattributes").write_text("*.txt filter=own\n")
        (folder / "data.txt").write_text("text\n")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "inner")
    project.write("train.py", "print(1)\n")
    git(top, "submodule", "--quiet", "add", str(inner), "sub")
    git(top, "add", ".")
    git(top, "commit", "-qm", "one")
    return top


@pytest.fixture
def planted(repository: Path) -> Path:
    """What the filters make."""
    file = repository.parent / "planted"
    for folder in (repository, repository / "sub"):
        for key in ("clean", "smudge"):
            git(folder, "config", f"filter.own.{key}", f"touch {file}; cat")
        touch_later(folder / "data.txt")
    return file


@pytest.mark.parametrize("packager", ["git", "hybrid", None])
@pytest.mark.parametrize("dirty", ["warn", "include"])
def test_no_filter_runs(repository, planted, nemotron, project, packager, dirty):
    keys = {
        "git": 'packager = "git"\npackager_include_submodules = true\n',
        "hybrid": 'packager = "hybrid"\n[box.packager_sources.a]\nkind = "git"\n',
        None: "",
    }[packager]
    project.write("env.toml", f'[box]\nexecutor = "docker"\ncontainer_image = "a"\ndirty = "{dirty}"\n{keys}')
    done = nemotron("run", "./train.py", "--run", "box", "--dry-run")
    assert not planted.exists(), done.err
    git(repository, "status")
    assert planted.exists(), "the filter works: git itself runs it"
    if done.code == 0 and packager == "git":
        assert "filters of git are not run before the submission: own" in done.out + done.err


@pytest.mark.parametrize("kind", ["with a git folder of its own", "of a linked worktree", "of a submodule"])
def test_no_filter_of_any_submodule_runs(repository, nemotron, project, kind):
    """Their settings are in different places."""
    planted, top = repository.parent / "planted", repository
    if kind == "with a git folder of its own":
        git(top, "clone", "-q", str(top.parent / "inner"), "own")
        git(top, "submodule", "--quiet", "add", "./own", "own")
        git(top, "commit", "-qm", "two")
        inner = top / "own"
        assert (inner / ".git").is_dir()
    elif kind == "of a linked worktree":
        git(top, "worktree", "add", "-q", "../linked")
        top = top.parent / "linked"
        git(top, "submodule", "--quiet", "update", "--init")
        inner = top / "sub"
    else:
        git(top / "sub", "submodule", "--quiet", "add", str(top.parent / "inner"), "below")
        git(top / "sub", "commit", "-qm", "two")
        git(top, "commit", "-qam", "two")
        inner = top / "sub" / "below"
    git(inner, "config", "filter.own.clean", f"touch {planted}; cat")
    touch_later(inner / "data.txt")
    keys = 'packager = "git"\npackager_include_submodules = true\ndirty = "include"\n'
    (top / "env.toml").write_text(f'[box]\nexecutor = "docker"\ncontainer_image = "a"\n{keys}')
    os.chdir(top)
    nemotron("run", "./train.py", "--run", "box", "--dry-run")
    assert not planted.exists()
    git(inner, "status")
    assert planted.exists(), "the filter works: git itself runs it"


def test_nothing_is_fetched(repository, nemotron, project):
    planted = repository.parent / "fetched"
    git(repository, "config", "extensions.partialClone", "origin")
    git(repository, "config", "remote.origin.promisor", "true")
    git(repository, "config", "remote.origin.url", f"ext::sh -c touch%% {planted}")
    git(repository, "config", "protocol.ext.allow", "always")
    blob = git(repository, "rev-parse", "HEAD:data.txt")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    project.write("env.toml", '[box]\nexecutor = "docker"\ncontainer_image = "a"\npackager = "git"\n')
    touch_later(repository / "data.txt")
    nemotron("run", "./train.py", "--run", "box", "--dry-run")
    assert not planted.exists()

"""What git says of a repository around a folder, and how many processes of git a dry run is worth."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Outcome, Project, git, make_repository

from nemo_runspec.packaging.checkout import Checkout, checkout_around


def told(folder: Path) -> Checkout:
    found = checkout_around(folder)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["plain", "with space", "line\nbreak", "-dash", "quo'te"])
def test_a_repository_from_its_root_and_from_below(tmp_path, name):
    folder = tmp_path / name
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    (below / "file").write_text("x")
    make_repository(folder)
    for start in (folder, below):
        found = told(start)
        assert found.root == folder
        assert found.commit == git(folder, "rev-parse", "HEAD").strip()
        assert found.tree == git(folder, "rev-parse", "HEAD^{tree}").strip()
        assert {name: path.resolve() for name, path in found.files.items()} == {
            name: folder / ".git" / name for name in ("index", "objects", "info/attributes")
        }


def test_by_a_link_into_it(packing, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(packing.folder / "src")
    found = told(link)
    assert (found.root, found.files["objects"].resolve()) == (packing.folder, packing.folder / ".git/objects")


def test_a_repository_without_a_commit(tmp_path):
    git(tmp_path, "init", "--quiet")
    (tmp_path / "HEAD").write_text("a file of that name is no commit")
    found = told(tmp_path)
    assert (found.root, found.commit, found.tree) == (tmp_path, None, None)


def test_a_commit_that_is_gone_is_named_all_the_same(packing):
    commit = packing.git("rev-parse", "HEAD").strip()
    (packing.folder / ".git/objects" / commit[:2] / commit[2:]).unlink()
    found = told(packing.folder)
    assert (found.commit, found.tree) == (commit, None)


def test_a_linked_worktree(packing, tmp_path):
    packing.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    (tmp_path / "linked" / "new.py").write_text("x")
    found = told(tmp_path / "linked")
    own = packing.folder / ".git"
    assert found.root == tmp_path / "linked"
    assert found.files["index"].resolve() == own / "worktrees/linked/index"
    assert found.files["objects"].resolve() == own / "objects"


@pytest.mark.parametrize("name", ["gone", "bare", "inside"])
def test_where_there_is_no_working_tree(packing, tmp_path, name):
    git(tmp_path, "init", "--quiet", "--bare", "bare")
    folder = {"gone": tmp_path / "gone", "bare": tmp_path / "bare", "inside": packing.folder / ".git"}[name]
    assert checkout_around(folder) is None


def test_files_of_attributes_outside_of_it(packing, tmp_path):
    home = Path(os.environ["HOME"])
    assert told(packing.folder).attribute_files[1] == home / ".config/git/attributes"
    packing.git("config", "core.attributesFile", "~/mine")
    assert told(packing.folder).attribute_files[1] == home / "mine"


def test_filters_are_those_of_all_its_settings(with_submodule):
    with_submodule.git("config", "filter.one.clean", "true")
    with_submodule.git("config", "filter.with.dots.smudge", "true")
    git(with_submodule.folder / "third/sub/deep", "config", "filter.deep.clean", "true")
    assert told(with_submodule.folder).filters == ("deep", "lfs", "one", "with.dots"), "that of LFS we set"


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """What git was started for since it was asked last, as git itself tells (git's "api-trace2")."""
    log = tmp_path / "trace.json"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(log))

    def told() -> list[str]:
        events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        log.unlink(missing_ok=True)
        # One that another git has started has the name of that one in its own.
        return [subcommand(event["argv"]) for event in events if event["event"] == "start" and "/" not in event["sid"]]

    return told


def subcommand(words: list[str]) -> str:
    """`status` of `git -c x=y -C folder status …`."""
    settings = [number for number, word in enumerate(words) if word in ("-c", "-C")]
    return words[settings[-1] + 2 if settings else 1]


def preview(nemotron: Callable[..., Outcome], processes: Callable[[], list[str]], *words: str) -> list[str]:
    nemotron(*words, "--dry-run").succeeds()
    return sorted(processes())


SEEN = ["rev-parse", "config", "ls-files"]
"""Where it is and what is checked out, its filters, its submodules."""


def test_a_dry_run_asks_git_a_few_times_alone(project: Project, nemotron, processes):
    project.write("train.py", "print(1)\n")
    recipe, own = ("nano3", "pretrain", "-c", "tiny"), ("run", "./train.py")
    slurm, local = ("--run", "my-cluster"), ("--run", "laptop")
    assert preview(nemotron, processes, *recipe, *slurm) == ["rev-parse"], "no repository"
    make_repository(project.folder)
    processes()
    assert preview(nemotron, processes, *recipe, *local) == ["rev-parse"], "nothing of it is sent"
    assert preview(nemotron, processes, *own, *local) == sorted([*SEEN, "status"])
    assert preview(nemotron, processes, *recipe, *slurm) == sorted([*SEEN, "ls-tree", "status"])
    assert preview(nemotron, processes, *own, *slurm) == sorted([*SEEN, "status", "ls-tree", "status"])


def test_attributes_and_submodules_cost_more(with_submodule, processes):
    """Once for all files of attributes; for each submodule what it is, its settings, its own ones, and its files."""
    for name in ("a", "a/b", "a/b/c"):
        with_submodule.write(f"{name}/.gitattributes", "*.txt text\n")
    with_submodule.commit()
    processes()
    with_submodule.plan()
    assert sorted(processes()) == sorted([*SEEN, *SEEN, *SEEN, "ls-tree", "cat-file", "ls-tree", "ls-tree", "status"])

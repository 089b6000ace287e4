"""What is said about the code package before anything is packed."""

from __future__ import annotations

import pytest
from support import make_repository

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.project_context import ProjectContext
from nemo_runspec.packaging.summary import summarise_package


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two changed files and three that git does not know."""
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "repository"
    for name in ("src/a.py", "src/b.py", "gone.txt"):
        write(folder, name)
    make_repository(folder)
    for name in ("src/a.py", "src/b.py", "notes.txt", "data/one.bin", "data/two.txt"):
        write(folder, name, "changed")
    (folder / "gone.txt").unlink()
    return folder


def write(folder, name, text="x"):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def left_behind(folder, **options):
    package = summarise_package({"packager": "git", **options}, "slurm", ProjectContext(folder))
    return sorted(package.uncommitted), sorted(package.untracked)


def test_what_is_not_in_the_commit_is_not_sent(repository):
    assert left_behind(repository) == (["gone.txt", "src/a.py", "src/b.py"], ["data/", "notes.txt"])


@pytest.mark.parametrize(
    ("options", "uncommitted", "untracked"),
    [({"packager_include_pattern": "data/*.bin"}, ["src/a.py", "src/b.py"], ["data/two.txt", "notes.txt"]),
     ({"packager_include_pattern": "data"}, ["src/a.py", "src/b.py"], ["notes.txt"]),
     ({"packager_include_pattern": "*.py"}, ["src/a.py", "src/b.py"], ["data/", "notes.txt"]),
     ({"packager_include_pattern": "*.py", "packager_relative_path": "src"}, [],
      ["data/one.bin", "data/two.txt", "notes.txt"]),
     ({"packager_include_pattern": ["src/a.py", "*.bin"], "packager_relative_path": [".", "data"]}, ["src/b.py"],
      ["data/two.txt", "notes.txt"]),
     ({"packager_include_pattern": "*"}, [], [])],
)  # fmt: skip
def test_what_a_pattern_adds_is_sent(repository, options, uncommitted, untracked):
    assert left_behind(repository, **options) == (["gone.txt", *uncommitted], untracked)


def test_an_absolute_pattern(repository):
    sent = left_behind(repository, packager_include_pattern=f"{repository}/notes.*")
    assert sent[1] == ["data/one.bin", "data/two.txt"]


def test_keys_that_are_no_strings_are_no_options(repository):
    env = {"packager": "pattern", 5: "x", True: 1, "packager_include_pattern": "*"}
    assert summarise_package(env, "slurm", ProjectContext(repository)).options == {"packager_include_pattern": "*"}


def test_without_a_repository(tmp_path):
    assert summarise_package({}, "slurm", ProjectContext(tmp_path)).kind == "none"
    with pytest.raises(UserError, match="needs a git repository"):
        summarise_package({"packager": "git"}, "slurm", ProjectContext(tmp_path))

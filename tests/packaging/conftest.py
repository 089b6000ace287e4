"""Repositories to package."""

from __future__ import annotations

from pathlib import Path

import pytest
from packing import Packing
from support import git, make_repository


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No git configuration but ours, and a home of nemotron's own."""
    home = tmp_path / "user"
    home.mkdir()
    (home / ".gitconfig").write_text(
        '[user]\nname = a\nemail = a@b\n[protocol "file"]\nallow = always\n[init]\ndefaultBranch = main\n'
    )
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def packing(tmp_path: Path) -> Packing:
    """A repository with two committed files, in a folder whose name no shell would like."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    made = Packing(tmp_path / "my 'repo' $x", scratch)
    made.write("src/a.py", "a = 1\n")
    made.write("README.md", "read me\n")
    make_repository(made.folder)
    return made


@pytest.fixture
def with_submodule(packing: Packing, tmp_path: Path) -> Packing:
    """The same with the submodule `third/sub`, which has a submodule `deep` of its own."""
    for name, file in (("deep", "deep.py"), ("sub", "sub.py")):
        folder = tmp_path / "remotes" / name
        folder.mkdir(parents=True)
        (folder / file).write_text(f"{name} 1\n")
        make_repository(folder)
    remotes = tmp_path / "remotes"
    git(remotes / "sub", "submodule", "--quiet", "add", str(remotes / "deep"), "deep")
    git(remotes / "sub", "commit", "--quiet", "-m", "deep")
    packing.git("submodule", "--quiet", "add", str(remotes / "sub"), "third/sub")
    packing.git("submodule", "--quiet", "update", "--init", "--recursive")
    packing.commit("submodule")
    return packing

"""What pattern and hybrid packages would hold: shown in a dry run with files, bytes and a digest."""

from __future__ import annotations

import subprocess

import pytest

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.options import parts_of
from nemo_runspec.packaging.patterns import matched_files
from nemo_runspec.packaging.project_context import ProjectContext
from nemo_runspec.packaging.summary import summarise_package


def matched(folder, **options):
    return list(matched_files(folder, parts_of("pattern", options)[0].patterns))


@pytest.fixture
def tree(tmp_path):
    files = {"src/a.py": "a", "src/deep/b.py": "bb", "data/x.json": "{}", ".git/config": "", "n.txt": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_two_stars_go_into_folders(tree):
    env = {"packager": "pattern", "packager_include_pattern": "src/**/*.py"}
    package = summarise_package(env, "slurm", ProjectContext(tree))
    assert (package.kind, package.files, package.bytes) == ("pattern", 2, 3)
    (tree / "src/a.py").write_text("b")
    assert summarise_package(env, "slurm", ProjectContext(tree)).digest != package.digest


def test_paths_are_relative_to_their_folder_and_git_stays(tree):
    assert matched(tree, packager_include_pattern="*", packager_relative_path="src") == ["a.py", "deep/b.py"]
    assert ".git/config" not in matched(tree, packager_include_pattern="*")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs packager_include_pattern"),
        ({"packager_include_pattern": "*.cpp"}, r"'\*.cpp' matches no file"),
        ({"packager_include_pattern": ["a", "b", "c"], "packager_relative_path": ["x", "y"]}, "3 patterns and"),
        ({"packager_include_pattern": "../*", "packager_relative_path": "src"}, "is not below"),
    ],
)
def test_what_would_be_empty_is_refused(tree, options, words):
    with pytest.raises(UserError, match=words):
        matched(tree, **options)


def test_a_hybrid_adds_up(tree):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tree)]
    (tree / ".git/config").unlink()
    for words in (["init", "-q"], ["add", "src"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    parts = {"code": {"packager": "git", "subpath": "src"}, "data": {"include_pattern": "data/*.json"}}
    package = summarise_package({"packager": "hybrid", "packager_sub_packagers": parts}, "slurm", ProjectContext(tree))
    assert (package.kind, package.files, package.bytes) == ("hybrid", 3, 5)
    assert package.untracked == ()
    (tree / "src/new.py").write_text("")
    again = summarise_package({"packager": "hybrid", "packager_sub_packagers": parts}, "slurm", ProjectContext(tree))
    assert again.untracked == ("src/new.py",), "what is outside the subpath could not travel anyway"
    with pytest.raises(UserError, match="must be git or pattern"):
        summarise_package(
            {"packager": "hybrid", "packager_sub_packagers": {"a": {"packager": "x"}}}, "slurm", ProjectContext(tree)
        )

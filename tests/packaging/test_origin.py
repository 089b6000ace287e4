"""What the paths of a package are relative to, and which files are read here and count as no change."""

from __future__ import annotations

import pytest
from support import git

from nemo_runspec.packaging.pack import pack
from nemo_runspec.packaging.project_context import ProjectContext
from nemo_runspec.packaging.summary import summarise_package

PATTERN = {"packager": "pattern", "packager_include_pattern": "*.py", "packager_relative_path": "src"}
PARTS = {
    "code": {"packager": "git", "subpath": "src"},
    "configs": {"include_pattern": "*.yaml", "relative_path": "configs"},
}
HYBRID = {"packager": "hybrid", "packager_sub_packagers": PARTS}
GIT = {"packager": "git", "packager_include_pattern": "*.yaml", "packager_relative_path": "configs"}


@pytest.fixture
def project(packing):
    packing.write("configs/x.yaml")
    packing.write("src/deep/b.txt")
    return packing


def names(project, env, folder, env_file=None):
    package = summarise_package(env, "slurm", ProjectContext(folder, env_file))
    assert package.problems == ()
    return sorted(project.opened(pack(package, print)))


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (PATTERN, ["a.py"]),
        (HYBRID, ["code/a.py", "configs/x.yaml"]),
        (GIT, ["README.md", "src/a.py", "x.yaml"]),
    ],
    ids=["pattern", "hybrid", "git"],
)
def test_from_anywhere_in_a_repository(project, env, expected):
    for folder in (project.folder, project.folder / "src", project.folder / "src/deep"):
        assert names(project, env, folder) == expected


def test_a_repository_without_a_commit(project, tmp_path):
    fresh = tmp_path / "fresh"
    (fresh / "src").mkdir(parents=True)
    (fresh / "src/a.py").write_text("")
    git(fresh, "init", "--quiet")
    assert names(project, PATTERN, fresh / "src") == ["a.py"]


def test_without_a_repository_it_is_the_folder_of_the_env_file(project, tmp_path):
    plain = tmp_path / "plain"
    for name in ("src/a.py", "elsewhere/env.toml", "src/src/b.py"):
        (plain / name).parent.mkdir(parents=True, exist_ok=True)
        (plain / name).write_text("")
    assert names(project, PATTERN, plain / "src", plain / "env.toml") == ["a.py"]
    assert names(project, PATTERN, plain / "src") == ["b.py"]
    assert names(project, PATTERN, plain / "src", plain / "elsewhere/env.toml") == ["b.py"], "not around us"


def test_what_the_plan_is_made_of_is_no_change(project):
    files = [project.write(name) for name in ("env.toml", "my/own.yaml", "other.txt")]
    project.commit()
    for file in files:
        file.write_text("changed")
    project.write("new/env.toml")

    def behind(*given):
        package = summarise_package({"packager": "git"}, "slurm", ProjectContext(project.folder, *given))
        return package.uncommitted, package.untracked

    assert behind(files[0], files[1]) == (("other.txt",), ("new/",))
    assert behind() == (("env.toml", "my/own.yaml", "other.txt"), ("new/",))
    assert behind(project.folder / "new/env.toml") == (("env.toml", "my/own.yaml", "other.txt"), ())
    refuse = {"packager": "git", "dirty": "refuse"}
    files[2].write_text("x")
    package = summarise_package(refuse, "slurm", ProjectContext(project.folder / "my", files[0], files[1]))
    assert "1 changed or new file: new/" in package.problems[0].what

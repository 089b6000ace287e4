"""Against NeMo-Run's own packagers: the same files where these are right, ours where they are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from packing import members
from support import snapshot

from nemo_runspec.backends.nemorun import import_nemo_run, make_packager
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Package

pytestmark = pytest.mark.slow  # what it looks at takes seconds to import


@pytest.fixture(scope="module")
def nemo_run():
    return import_nemo_run()


@pytest.fixture(autouse=True)
def empty_stdin(monkeypatch):
    """NeMo-Run's packagers read the standard input of whoever calls them."""
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield


@pytest.fixture
def plain(packing, tmp_path):
    """The same repository in a folder whose name a shell takes as it is."""
    packing.folder = packing.folder.rename(tmp_path / "repo")
    packing.write("configs/x.yaml", "x: 1\n")
    packing.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    packing.commit()
    return packing


def archive_of(packager, tmp_path, folder) -> Path:
    job = tmp_path / "job"
    job.mkdir(exist_ok=True)
    return Path(packager.package(folder, str(job), f"{type(packager).__name__}"))


@pytest.mark.parametrize("subpath", ["", "src"])
def test_git_holds_the_same_files(nemo_run, plain, tmp_path, subpath):
    theirs = nemo_run.GitArchivePackager(basepath=str(plain.folder), subpath=subpath, include_submodules=False)
    ours = make_packager(plain.plan(**({"subpath": subpath} if subpath else {})))
    assert members(archive_of(ours, tmp_path, plain.folder)) == members(archive_of(theirs, tmp_path, plain.folder))


def test_git_with_submodules_holds_the_same_files(nemo_run, with_submodule, tmp_path):
    folder = with_submodule.folder.rename(tmp_path / "repo")
    theirs = members(archive_of(nemo_run.GitArchivePackager(basepath=str(folder)), tmp_path, folder))
    ours = members(archive_of(make_packager(with_submodule.plan(folder)), tmp_path, folder))
    # NeMo-Run unpacks a submodule's submodule at its path within that submodule.
    assert {n for n in ours if "deep" not in n} == {n for n in theirs if "deep" not in n}
    assert "third/sub/deep/deep.py" in ours


@pytest.mark.parametrize(
    "options",
    [
        {"include_pattern": "src/*.py"},
        {"include_pattern": ["*.yaml", "*.py"], "relative_path": ["configs", "src"]},
    ],
)
def test_pattern_is_nemo_runs_own_where_it_is_right(plain, tmp_path, options):
    packager = make_packager(plain.plan(packager="pattern", **options))
    assert type(packager).__name__ == "PatternPackager"
    assert members(archive_of(packager, tmp_path, plain.folder)) == plain.names(packager="pattern", **options)


def test_hybrid_is_nemo_runs_own_where_it_is_right(plain, tmp_path):
    parts = {"code": {"include_pattern": "src/*.py"}, "configs": {"include_pattern": "configs/*"}}
    options = {"packager": "hybrid", "sub_packagers": parts}
    packager = make_packager(plain.plan(**options))
    assert type(packager).__name__ == "HybridPackager"
    assert members(archive_of(packager, tmp_path, plain.folder)) == plain.names(**options)


def test_a_space_in_the_path(nemo_run, packing, tmp_path):
    theirs = nemo_run.GitArchivePackager(basepath=str(packing.folder))
    with pytest.raises(Exception, match=r"git rev-parse|non-zero"):
        archive_of(theirs, tmp_path, packing.folder)
    ours = make_packager(packing.plan())
    assert members(archive_of(ours, tmp_path, packing.folder)) == {"src/a.py", "README.md"}


def test_links_folders_and_nothing_at_all(nemo_run, plain, tmp_path):
    (plain.folder / "src/link").symlink_to("a.py")
    theirs = nemo_run.PatternPackager(include_pattern=f"{plain.folder}/*", relative_path=str(plain.folder))
    found = members(archive_of(theirs, tmp_path, plain.folder))
    assert "src/link" not in found
    ours = make_packager(plain.plan(packager="pattern", include_pattern="*"))
    assert type(ours).__name__ == "ArchivePackager"
    assert members(archive_of(ours, tmp_path, plain.folder)) == {*found, "src/link"}
    nothing = Package("pattern", str(plain.folder), {"packager_include_pattern": "*.cpp"})
    with pytest.raises(UserError, match="matches no file"):
        archive_of(make_packager(nothing), tmp_path / "job", plain.folder)


def test_git_folders_stay(nemo_run, plain, tmp_path):
    theirs = nemo_run.PatternPackager(include_pattern=str(plain.folder), relative_path=str(plain.folder.parent))
    assert "repo/.git/HEAD" in members(archive_of(theirs, tmp_path, plain.folder))
    ours = make_packager(plain.plan(packager="pattern", include_pattern="repo", relative_path=".."))
    assert not [n for n in members(archive_of(ours, tmp_path, plain.folder)) if ".git" in n]


def test_ours_writes_nothing_into_the_repository_and_takes_what_is_not_committed(plain, tmp_path):
    plain.write("new.txt")
    ours = make_packager(plain.plan(dirty="include"))
    before = snapshot(plain.folder)
    archive = archive_of(ours, tmp_path, plain.folder)
    assert snapshot(plain.folder) == before
    assert "new.txt" in members(archive)
    assert archive_of(ours, tmp_path, plain.folder) == archive


def test_an_executor_can_be_copied_and_stored_with_it(nemo_run, plain, tmp_path):
    from nemo_run.core.serialization.zlib_json import ZlibJSONSerializer

    executor = nemo_run.LocalExecutor(packager=make_packager(plain.plan()))
    copied = executor.clone()
    assert members(archive_of(copied.packager, tmp_path, plain.folder)) == plain.names()
    stored = ZlibJSONSerializer().serialize(executor.to_config())
    assert "ArchivePackager" in repr(ZlibJSONSerializer().deserialize(stored))

"""git packages: exactly the planned commit, its submodules as recorded, and nothing written into the repository."""

from __future__ import annotations

import os
import subprocess
import tarfile

import pytest
from packing import ODD_NAMES
from support import git, make_repository, snapshot

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.pack import pack


def test_exactly_the_commit(packing):
    packing.write("src/a.py", "changed\n")
    packing.write("new.txt")
    assert packing.unpacked() == {"src/a.py": "a = 1\n", "README.md": "read me\n"}


def test_the_digest_is_gits_tree_id(packing):
    package = packing.plan()
    assert package.digest == packing.git("rev-parse", "HEAD^{tree}").strip()
    assert package.commit == packing.git("rev-parse", "HEAD").strip()
    assert (package.files, package.bytes, package.digest_kind) == (2, 14, "tree")
    assert pack(package, print).digest == package.digest
    assert packing.plan(subpath="src").digest == packing.git("rev-parse", "HEAD:src").strip()


def test_head_may_move_after_the_plan(packing):
    package = packing.plan()
    packing.write("src/a.py", "later\n")
    packing.commit()
    packing.git("switch", "--quiet", "--orphan", "elsewhere")
    assert packing.opened(pack(package, print))["src/a.py"] == "a = 1\n"


def test_a_commit_that_is_gone(packing):
    package = packing.plan()
    packing.git("commit", "--quiet", "--amend", "--message=other")
    packing.git("reflog", "expire", "--expire=now", "--all")
    packing.git("gc", "--quiet", "--prune=now")
    with pytest.raises(UserError, match=f"commit {package.commit[:12]} is not in"):
        pack(package, print)


def test_odd_names_modes_and_links(packing):
    for name in ODD_NAMES:
        packing.write(f"odd/{name}", name)
    packing.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (packing.folder / "link").symlink_to("src/a.py")
    (packing.folder / "to folder").symlink_to("src")
    (packing.folder / "broken").symlink_to("/nowhere/at all")
    raw = os.fsdecode(b"raw\xff.txt")
    packing.write(raw, "raw")
    packing.commit()
    found = packing.unpacked()
    assert {f"odd/{name}": name for name in ODD_NAMES}.items() <= found.items()
    assert (found["link"], found["to folder"], found["broken"]) == ("-> src/a.py", "-> src", "-> /nowhere/at all")
    assert found[raw] == "raw"
    with tarfile.open(packing.pack().archive) as tar:
        assert {tar.getmember("run.sh").mode, tar.getmember("README.md").mode} == {0o755, 0o644}


def test_a_subpath_is_the_root_of_the_package(packing):
    assert packing.unpacked(subpath="src") == {"a.py": "a = 1\n"}
    assert packing.unpacked(subpath="./src/") == {"a.py": "a = 1\n"}
    packing.write("od*d/b.py", "b")
    packing.write("odd/c.py", "c")
    packing.commit()
    assert packing.unpacked(subpath="od*d") == {"b.py": "b"}


@pytest.mark.parametrize("subpath", ["nowhere", "README.md", "../x"])
def test_a_subpath_that_is_no_folder(packing, subpath):
    with pytest.raises(UserError, match=r"packager_subpath"):
        packing.plan(subpath=subpath)


def test_a_folder_below_the_root_packages_the_repository(packing):
    assert packing.opened(pack(packing.plan(packing.folder / "src"), print)).keys() == {"src/a.py", "README.md"}


def test_attributes_for_export_hold(packing):
    packing.write(".gitattributes", "docs export-ignore\n*.key export-ignore\nversion.txt export-subst\n")
    packing.write("docs/deep/x.md")
    packing.write("my.key")
    packing.write("version.txt", "$Format:%H$")
    commit = packing.commit()
    found = packing.unpacked()
    assert found.keys() == {".gitattributes", "src/a.py", "README.md", "version.txt"}
    assert found["version.txt"] == commit
    package = packing.plan()
    assert (package.files, package.digest_kind) == (4, "sha256")
    packing.git("commit", "--quiet", "--amend", "--message=same tree, other commit")
    assert packing.plan().digest != package.digest, "what is written into version.txt is another commit"


def test_files_of_git_lfs_are_named(packing):
    packing.write(".gitattributes", "*.bin filter=lfs\n")
    packing.write("w.bin", "version https://git-lfs.github.com/spec/v1\n")
    packing.commit()
    assert packing.plan().pointers == ("w.bin",)
    packing.write("w.bin", "real weights")
    assert packing.plan(include_pattern="*.bin").pointers == ()
    assert packing.unpacked(include_pattern="*.bin")["w.bin"] == "real weights"


def test_submodules_at_their_recorded_commits(with_submodule, tmp_path):
    sub = with_submodule.folder / "third/sub"
    (sub / "sub.py").write_text("sub 2\n")
    git(sub, "commit", "--quiet", "-am", "later")
    found = with_submodule.unpacked()
    assert (found["third/sub/sub.py"], found["third/sub/deep/deep.py"]) == ("sub 1\n", "deep 1\n")
    assert with_submodule.plan().uncommitted == ("third/sub",)
    alone = with_submodule.unpacked(subpath="third")
    assert alone["sub/sub.py"] == "sub 1\n"
    assert "src/a.py" not in alone


def test_without_submodules(with_submodule):
    assert not [name for name in with_submodule.names(include_submodules=False) if name.startswith("third")]
    with_and_without = {with_submodule.plan(include_submodules=value).digest for value in (True, False)}
    assert len(with_and_without) == 2


def test_a_submodule_that_was_taken_out_of_the_working_tree(with_submodule):
    package = with_submodule.plan()
    with_submodule.git("submodule", "--quiet", "deinit", "--all", "--force")
    with_submodule.git("rm", "--quiet", "-r", "--cached", "third/sub")
    assert with_submodule.opened(pack(package, print))["third/sub/deep/deep.py"] == "deep 1\n"


def test_a_submodule_that_is_not_initialised(with_submodule, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(with_submodule.folder), str(clone))
    package = with_submodule.plan(clone)
    assert "submodule third/sub is not initialised" in package.problems[0].what
    assert "submodule update --init --recursive -- third/sub" in package.problems[0].remedy
    with pytest.raises(UserError, match="third/sub is not initialised"):
        pack(package, print)
    assert with_submodule.plan(clone, include_submodules=False).problems == ()


def test_a_recorded_commit_that_was_not_fetched(with_submodule, tmp_path):
    link = "1" * 40
    with_submodule.git("update-index", "--cacheinfo", f"160000,{link},third/sub")
    with_submodule.git("commit", "--quiet", "-m", "from elsewhere")
    assert f"has no commit {link[:12]}" in with_submodule.plan().problems[0].what


@pytest.mark.parametrize("options", [{}, {"dirty": "include"}, {"include_pattern": ["**", "new*"]}, {"subpath": "src"}])
def test_nothing_is_written_into_the_repository(with_submodule, options):
    with_submodule.write("new.txt")
    with_submodule.write("src/a.py", "changed\n")
    (with_submodule.folder / "third/sub/sub.py").write_text("changed\n")
    before = snapshot(with_submodule.folder)
    with_submodule.pack(**options)
    assert snapshot(with_submodule.folder) == before


def test_a_repository_that_cannot_be_written(packing, tmp_path):
    packing.write("new.txt")
    subprocess.run(["chmod", "-R", "a-w", packing.folder], check=True)
    try:
        assert "new.txt" in packing.names(dirty="include")
    finally:
        subprocess.run(["chmod", "-R", "u+w", packing.folder], check=True)


def test_variables_of_a_git_hook_are_for_another_repository(packing, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    (other / "x").write_text("")
    make_repository(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert packing.names() == {"src/a.py", "README.md"}


def test_a_worktree(packing, tmp_path):
    tree = tmp_path / "tree"
    packing.git("worktree", "add", "--quiet", str(tree))
    (tree / "new.txt").write_text("new")
    assert packing.opened(pack(packing.plan(tree, dirty="include"), print))["new.txt"] == "new"


def test_no_git_and_no_commit(packing, tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    with pytest.raises(UserError, match="needs a git repository with a commit"):
        packing.plan(empty)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="git, which is not installed"):
        packing.plan()

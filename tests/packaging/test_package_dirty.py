"""What is not committed: named and left behind, refused, or packaged as it is; and files that patterns add."""

from __future__ import annotations

import pytest
from support import git

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.messages import left_behind, sent_uncommitted
from nemo_runspec.packaging.pack import pack


@pytest.fixture
def dirty(packing):
    packing.write(".gitignore", "*.log\n")
    packing.write("gone.txt")
    packing.commit()
    packing.write("src/a.py", "changed\n")
    packing.write("new folder/new.txt", "new\n")
    packing.write("out.log", "ignored\n")
    (packing.folder / "gone.txt").unlink()
    return packing


def test_warn_names_what_stays(dirty):
    assert left_behind(dirty.plan()) == (
        "NOT sent: 2 uncommitted files: gone.txt, src/a.py", "NOT sent: 1 untracked file: new folder/",
    )  # fmt: skip
    assert dirty.plan().problems == ()


def test_refuse_counts_and_names_them(dirty):
    package = dirty.plan(dirty="refuse")
    (problem,) = package.problems
    assert problem.what == 'dirty = "refuse": 3 changed or new files: gone.txt, src/a.py, new folder/'
    assert problem.remedy.startswith("commit or stash them")
    with pytest.raises(UserError, match="3 changed or new files: gone"):
        pack(package, print)
    dirty.commit()
    assert dirty.plan(dirty="refuse").problems == ()


def test_include_is_the_working_tree(dirty):
    (dirty.folder / "link").symlink_to("src/a.py")
    package = dirty.plan(dirty="include")
    assert dirty.opened(pack(package, print)) == {
        ".gitignore": "*.log\n", "README.md": "read me\n", "src/a.py": "changed\n", "new folder/new.txt": "new\n",
        "link": "-> src/a.py",
    }  # fmt: skip
    assert (package.uncommitted, package.untracked, left_behind(package)) == ((), (), ())
    assert sent_uncommitted(package) == ("sent, not committed: 4 files: gone.txt, src/a.py, link, new folder/",)


def test_include_has_the_tree_id_of_a_commit_of_it(dirty):
    package = dirty.plan(dirty="include")
    dirty.commit()
    assert package.digest == dirty.git("rev-parse", "HEAD^{tree}").strip() == dirty.plan().digest


def test_include_of_a_clean_tree_is_the_commit(packing):
    assert packing.plan(dirty="include").digest == packing.plan().digest


def test_include_below_a_subpath(dirty):
    assert dirty.unpacked(dirty="include", subpath="src") == {"a.py": "changed\n"}


def test_include_takes_dirty_submodules(with_submodule):
    (with_submodule.folder / "third/sub/sub.py").write_text("sub now\n")
    (with_submodule.folder / "third/sub/deep/new.py").write_text("deep now\n")
    found = with_submodule.unpacked(dirty="include")
    assert (found["third/sub/sub.py"], found["third/sub/deep/new.py"]) == ("sub now\n", "deep now\n")
    assert "third/sub/.git" not in found


def test_include_takes_a_repository_that_is_no_submodule(packing):
    inner = packing.write("inner/x.py", "x\n").parent
    git(inner, "init", "--quiet")
    git(inner, "add", ".")
    git(inner, "commit", "--quiet", "-m", "one")
    found = packing.unpacked(dirty="include")
    assert found["inner/x.py"] == "x\n"


def test_include_of_a_merge_that_is_not_finished(packing):
    packing.git("switch", "--quiet", "-c", "other")
    packing.write("src/a.py", "other\n")
    packing.commit()
    packing.git("switch", "--quiet", "main")
    packing.write("src/a.py", "ours\n")
    packing.commit()
    with pytest.raises(Exception, match="merge"):
        packing.git("merge", "other")
    assert "<<<<<<<" in packing.unpacked(dirty="include")["src/a.py"]


def test_files_that_change_between_plan_and_submission(dirty):
    package = dirty.plan(dirty="include")
    dirty.write("src/a.py", "changed again\n")
    with pytest.raises(UserError, match="have changed since the plan was made"):
        pack(package, print)
    dirty.write("src/a.py", "changed\n")
    assert dirty.opened(pack(package, print))["src/a.py"] == "changed\n"


def test_what_was_packed_before_is_sent_as_it_was_planned(dirty):
    package = dirty.plan(dirty="include")
    first = pack(package, print)
    dirty.write("src/a.py", "changed again\n")
    assert pack(package, print) == first


def test_changes_outside_the_subpath_are_no_news(dirty):
    assert dirty.plan(subpath="src").uncommitted == ("src/a.py",)
    assert dirty.plan(subpath="src").untracked == ()


def test_patterns_add_files_as_they_are_now(dirty):
    found = dirty.unpacked(include_pattern=["*.log", "src/a.py", "README.md"])
    assert (found["out.log"], found["src/a.py"], found["gone.txt"]) == ("ignored\n", "changed\n", "x")
    package = dirty.plan(include_pattern=["*.log", "src/a.py"])
    assert (package.digest_kind, package.files) == ("sha256", 5)
    assert left_behind(package) == (
        "NOT sent: 1 uncommitted file: gone.txt", "NOT sent: 1 untracked file: new folder/new.txt",
    )  # fmt: skip
    later = dirty.plan(include_pattern="*.log")
    dirty.write("out.log", "later\n")
    with pytest.raises(UserError, match="have changed since the plan"):
        pack(later, print)


def test_a_file_of_a_pattern_is_in_the_archive_once(dirty):
    import tarfile

    archive = dirty.pack(include_pattern=["src/*", "README.md"]).archive
    with tarfile.open(archive) as tar:
        names = [member.name for member in tar if not member.isdir()]
    assert sorted(names) == sorted(set(names))


def test_a_pattern_that_adds_nothing_is_a_problem(dirty):
    package = dirty.plan(include_pattern="*.so")
    assert "'*.so' matches no file" in package.problems[0].what
    assert package.uncommitted == ("gone.txt", "src/a.py")
    with pytest.raises(UserError, match="matches no file"):
        pack(package, print)


def test_a_pattern_below_a_link_of_the_commit(packing):
    (packing.folder / "here").symlink_to("src")
    packing.commit()
    with pytest.raises(UserError, match="'here', and something else files below it"):
        packing.plan(include_pattern="here/a.py")

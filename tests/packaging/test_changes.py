"""Files of the job bundle that are not as the commit has them."""

from __future__ import annotations

import pytest
from support import git, make_repository

from nemo_runspec.packaging.changes import bundled_changes, changes_of
from nemo_runspec.plans.model import Bundle, BundleFile

FILES = ("recipes/a b/main.py", "recipes/a b/util/x.py", "recipes/_shared/lib.py")


@pytest.fixture
def committed(packing):
    for name in FILES:
        packing.write(name)
    packing.write(".gitignore", "*.log\nignored/\n")
    packing.commit()
    return packing


def bundle(packing, *names):
    return Bundle(tuple(BundleFile(name, str(packing.folder / name), 1) for name in names))


def changed(packing, *names):
    return bundled_changes(bundle(packing, *names), packing.folder)


def test_nothing_changed(committed):
    committed.write("recipes/a b/beside.txt", "not in the bundle")
    assert changed(committed, *FILES) == ()


def test_changed_staged_new_ignored_and_gone(committed):
    committed.write("recipes/a b/main.py", "changed")
    committed.write("recipes/a b/new ü\n.py")
    committed.write("recipes/a b/out.log")
    committed.write("recipes/new folder/x.py")
    committed.write("recipes/a b/ignored/x.py")
    committed.write("recipes/_shared/lib.py", "staged")
    committed.git("add", "recipes/_shared/lib.py")
    new = ("recipes/a b/new ü\n.py", "recipes/a b/out.log", "recipes/new folder/x.py", "recipes/a b/ignored/x.py")
    assert changed(committed, *FILES, *new) == tuple(sorted((FILES[0], FILES[2], *new)))
    (committed.folder / FILES[1]).unlink()
    committed.write("recipes/a b/util/y.py")
    assert FILES[1] in changed(committed, FILES[0], "recipes/a b/util/y.py")


def test_a_renamed_file_has_its_new_name(committed):
    committed.git("mv", FILES[1], "recipes/a b/util/z.py")
    assert changed(committed, FILES[0], "recipes/a b/util/z.py") == (FILES[1], "recipes/a b/util/z.py")[1:]


def test_a_script_alone(committed):
    committed.write("train.py", "1")
    committed.write("other.py", "1")
    assert changed(committed, "train.py") == ("train.py",)
    committed.commit()
    (committed.folder / "other.py").unlink()
    assert changed(committed, "train.py") == ()


def test_a_link_is_what_it_points_to(committed):
    link = committed.folder / "recipes/a b/link.py"
    link.symlink_to("main.py")
    committed.commit()
    assert changed(committed, *FILES, "recipes/a b/link.py") == ()
    committed.write(FILES[0], "changed")
    assert changed(committed, "recipes/a b/link.py") == (FILES[0],)


def test_in_a_submodule(with_submodule):
    file = "third/sub/sub.py"
    assert changed(with_submodule, file) == ()
    with_submodule.write(file, "changed")
    assert changed(with_submodule, file) == (file,)


def test_what_is_not_in_the_repository_is_not_compared(committed, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.py").write_text("")
    make_repository(other)
    (other / "x.py").write_text("changed")
    assert bundled_changes(Bundle((BundleFile("x.py", str(other / "x.py"), 1),)), committed.folder) == ()
    assert git(other, "status", "--porcelain").strip() == "M x.py"


def test_a_folder_that_only_looks_like_a_repository(committed):
    committed.write("recipes/odd/.git", "nothing of the kind")
    committed.write("recipes/odd/x.py")
    assert changed(committed, "recipes/odd/x.py") == ()


def test_changes_are_told_apart(committed):
    committed.write(FILES[0], "changed")
    committed.write("new/x.txt")
    found = changes_of(committed.folder, "", submodules=True, every_file=False)
    assert (found.uncommitted, found.untracked) == ((FILES[0],), ("new/",))
    assert changes_of(committed.folder, "", submodules=True, every_file=True).all == (FILES[0], "new/x.txt")

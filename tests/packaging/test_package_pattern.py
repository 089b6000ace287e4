"""pattern and hybrid packages: what matches, links, where parts go, and two parts that meet."""

from __future__ import annotations

import os

import pytest
from packing import ODD_NAMES

from nemo_runspec.errors import UserError
from nemo_runspec.packaging import summary
from nemo_runspec.packaging.pack import pack
from nemo_runspec.plans.model import Package


def pattern(packing, pattern, **options):
    return packing.unpacked(packager="pattern", include_pattern=pattern, **options)


def test_odd_names_links_and_modes(packing):
    for name in ODD_NAMES:
        packing.write(f"odd/{name}", name)
    raw = os.fsdecode(b"odd/raw\xff.txt")
    packing.write(raw, "raw")
    packing.write("odd/" + "long/" * 60 + "deep.txt", "deep")
    packing.write("odd/.hidden", "hidden")
    (packing.folder / "odd/link").symlink_to("nowhere at all")
    (packing.folder / "odd/up").symlink_to("..")
    packing.write("odd/key", "k").chmod(0o600)
    found = pattern(packing, "odd")
    assert {f"odd/{name}": name for name in ODD_NAMES}.items() <= found.items()
    assert (found[raw], found["odd/.hidden"]) == ("raw", "hidden")
    assert (found["odd/link"], found["odd/up"]) == ("-> nowhere at all", "-> ..")
    assert found["odd/" + "long/" * 60 + "deep.txt"] == "deep"
    folder = packing.scratch / "modes"
    from nemo_runspec.packaging.pack import unpack

    unpack(packing.pack(packager="pattern", include_pattern="odd").archive, folder)
    assert (folder / "odd/key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("src/*.py", {"src/a.py"}),
        ("**/*.py", {"src/a.py", "src/deep/b.py"}),
        ("**", {"README.md", "src/a.py", "src/deep/b.py", "src/link"}),
        ("src", {"src/a.py", "src/deep/b.py", "src/link", "src/.env"}),
        ("src/", {"src/a.py", "src/deep/b.py", "src/link", "src/.env"}),
        ("src/.*", {"src/.env"}),
        ("src/link/b.py", {"src/link/b.py"}),
        (["README.md", "src/*.py"], {"README.md", "src/a.py"}),
        ("[R]EADME.md", {"README.md"}),
    ],
)
def test_what_matches(packing, wanted, names):
    packing.write("src/deep/b.py")
    packing.write("src/.env")
    packing.write("src/.git", "gitdir: elsewhere")
    (packing.folder / "src/link").symlink_to("deep")
    assert pattern(packing, wanted).keys() == names


def test_links_that_go_round_in_a_circle(packing):
    (packing.folder / "src/round").symlink_to(".")
    assert pattern(packing, "**/*.py").keys() == {"src/a.py"}


def test_pipes_do_not_hold_anything_up(packing):
    os.mkfifo(packing.folder / "src/pipe")
    assert pattern(packing, "src").keys() == {"src/a.py"}
    assert "matches no file" in packing.plan(packager="pattern", include_pattern="src/pipe").problems[0].what


def test_paths_are_relative_to_a_folder(packing):
    assert pattern(packing, "*", relative_path="src").keys() == {"a.py"}
    assert pattern(packing, f"{packing.folder}/src/*", relative_path="src").keys() == {"a.py"}
    assert pattern(packing, ["src", "*"], relative_path=[".", "src"]).keys() == {"src/a.py", "a.py"}


def test_without_git(packing, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    package = packing.plan(packager="pattern", include_pattern="src")
    assert package.commit is None
    assert pack(package, print).digest == package.digest


@pytest.mark.parametrize("wanted", ["*.cpp", [], "src/nothing/*"])
def test_a_pattern_that_matches_no_file_is_refused(packing, wanted):
    package = packing.plan(packager="pattern", include_pattern=wanted)
    assert package.problems
    with pytest.raises(UserError):
        pack(package, print)
    with pytest.raises(UserError, match=r"matches no file|needs packager_include_pattern"):
        pack(Package("pattern", str(packing.folder), package.options), print)


def test_more_than_a_dry_run_reads_gets_its_digest_when_it_is_packed(packing, monkeypatch):
    small = packing.plan(packager="pattern", include_pattern="src")
    monkeypatch.setattr(summary, "_HASHED", 3)
    large = packing.plan(packager="pattern", include_pattern="src")
    assert (large.digest, large.bytes) == ("", small.bytes)
    assert pack(large, print).digest == small.digest


def hybrid(parts, **options):
    return {"packager": "hybrid", "sub_packagers": parts, **options}


CODE = {"packager": "git", "subpath": "src"}
DATA = {"include_pattern": "*", "relative_path": "data"}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (hybrid({"code": CODE, "data": DATA}), {"code/a.py", "data/x.json"}),
        (hybrid({"code": CODE, "data": {**DATA, "merge": "code"}}), {"code/a.py", "code/x.json"}),
        (hybrid({"code": CODE, "data": {**DATA, "merge": "."}}), {"code/a.py", "x.json"}),
        (hybrid({"code": CODE, "data": {**DATA, "merge": "a/b c"}}), {"code/a.py", "a/b c/x.json"}),
        (hybrid({"code": CODE, "data": DATA}, extract_at_root=True), {"a.py", "x.json"}),
        (hybrid({"code": {**CODE, "merge": "c"}, "data": DATA}, extract_at_root=True), {"c/a.py", "x.json"}),
    ],
)
def test_where_parts_go(packing, options, names):
    packing.write("data/x.json", "{}")
    assert packing.unpacked(**options).keys() == names


def test_a_part_with_changes_that_are_not_committed(packing):
    packing.write("src/a.py", "changed\n")
    found = packing.unpacked(**hybrid({"now": {**CODE, "dirty": "include"}, "then": CODE}))
    assert found == {"now/a.py": "changed\n", "then/a.py": "a = 1\n"}
    everywhere = packing.unpacked(**hybrid({"now": CODE}, dirty="include"))
    assert everywhere == {"now/a.py": "changed\n"}


def test_two_parts_with_the_same_file(packing):
    twice = hybrid({"one": CODE, "two": {"include_pattern": "*", "relative_path": "src"}}, extract_at_root=True)
    assert packing.unpacked(**twice) == {"a.py": "a = 1\n"}
    assert packing.unpacked(**hybrid({"one": CODE, "two": CODE}, extract_at_root=True)) == {"a.py": "a = 1\n"}
    packing.write("src/a.py", "changed\n")
    with pytest.raises(UserError, match=r"part 'one' and part 'two' both bring 'a\.py', with different contents"):
        packing.plan(**twice)
    (packing.folder / "src/a.py").write_text("a = 1\n")
    (packing.folder / "src/a.py").chmod(0o755)
    with pytest.raises(UserError, match="with different contents"):
        packing.plan(**twice)


def test_a_file_and_a_folder_of_the_same_name(packing):
    packing.write("data/a.py/x")
    with pytest.raises(UserError, match=r"part 'code' brings 'a\.py', and something else files below it"):
        packing.plan(**hybrid({"code": CODE, "data": DATA}, extract_at_root=True))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"packager": "hybrid"}, "packager must be git or pattern"),
        ({"subpaht": "src"}, "unknown key 'subpaht'"),
        ({"packager": "git", "dirty": "maybe"}, "dirty must be warn or refuse or include"),
        ({"packager": "git", "subpath": 3}, "must be a string"),
        ({"packager": "git", "merge": "../x"}, "is outside"),
    ],
)
def test_a_part_that_makes_no_sense(packing, table, words):
    with pytest.raises(UserError, match=words):
        packing.plan(**hybrid({"part": table}))

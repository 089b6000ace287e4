"""The archives of one user: made once, whole or not at all, by any number of launches at the same time."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import until

from nemo_runspec.errors import UserError
from nemo_runspec.packaging import cache
from nemo_runspec.packaging.pack import pack, unpack

PACK = """
import sys
from pathlib import Path
from nemo_runspec.packaging.pack import pack
from nemo_runspec.packaging.project_context import ProjectContext
from nemo_runspec.packaging.summary import summarise_package
package = summarise_package({"packager": "git", "dirty": sys.argv[2]}, "slurm", ProjectContext(Path(sys.argv[1])))
packed = pack(package, lambda line: print("made", flush=True))
print(packed.digest, packed.bytes)
"""


def launch(packing, dirty="warn", start_new_session=False, **environment):
    words = [sys.executable, "-c", PACK, str(packing.folder), dirty]
    # What a killed process leaves in the temporary folder goes with the test's own.
    environment = {**os.environ, "TMPDIR": str(packing.scratch), **environment}
    return subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )


def git_that_hangs(folder, at, before=""):
    """A `PATH` whose git never ends when it is called with these words; `before`: a command that comes first."""
    tool = folder / "git"
    folder.mkdir()
    tool.write_text(f'#!/bin/sh\ncase "$*" in *"{at}"*) {before} sleep 600;; esac\nexec {shutil.which("git")} "$@"\n')
    tool.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def archives():
    return sorted(path.name for path in cache.packages_dir().iterdir() if not path.name.startswith(".lock-"))


def test_unchanged_again_reads_nothing(packing, monkeypatch):
    package = packing.plan()
    first = pack(package, print)
    monkeypatch.setenv("PATH", "/nowhere")
    packing.folder.rename(packing.folder.with_name("gone"))
    said = []
    assert pack(package, said.append) == first
    assert said == []
    assert first.bytes == first.archive.stat().st_size


def test_only_the_owner_may_read(packing):
    archive = packing.pack().archive
    assert (archive.stat().st_mode & 0o777, archive.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.slow
def test_what_decides_the_content_decides_the_archive(with_submodule):
    with_submodule.write("new.txt")
    with_submodule.write("src/a.py", "changed")
    kinds = (
        {}, {"subpath": "src"}, {"include_submodules": False}, {"dirty": "include"}, {"include_pattern": "new.txt"},
        {"packager": "pattern", "include_pattern": "src"},
    )  # fmt: skip
    assert len({with_submodule.pack(**options).archive for options in kinds}) == len(kinds)
    assert with_submodule.pack(subpath="src").archive == with_submodule.pack(subpath="./src/").archive


@pytest.mark.slow
def test_many_launches_at_once(packing):
    for number in range(300):
        packing.write(f"many/{number}.txt", str(number) * 50)
    packing.commit()
    packing.write("new.txt")
    both = [launch(packing, dirty) for dirty in ("warn", "include") for _ in range(8)]
    outputs = [child.communicate(timeout=600) for child in both]
    assert [child.returncode for child in both] == [0] * 16, outputs
    assert len({out.split("\n")[-2] for out, _ in outputs}) == 2
    assert sum("made" in out for out, _ in outputs) == 2, "the others wait for the first"
    assert len(archives()) == 2
    assert packing.git("status", "--porcelain").strip() == "?? new.txt"


@pytest.mark.slow
def test_killed_while_writing(packing, tmp_path):
    """It is given three quarters of the archive, and no end."""
    noise = random.Random(1)
    for number in range(40):
        packing.write(f"big/{number}.bin", noise.randbytes(1_000_000))
    packing.commit()
    some = f'{shutil.which("git")} "$@" | head -c 30000000;'
    path = git_that_hangs(tmp_path / "tools", "archive --format", some)
    child = launch(packing, PATH=path, start_new_session=True)
    until(lambda: any(p.stat().st_size > 1_000_000 for p in cache.packages_dir().glob(".*.tmp")), "the first megabyte")
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    left = archives()
    assert len(left) == 1 and left[0].endswith(".tmp"), "the archive is not there under its own name"
    assert len(packing.unpacked()) == 42
    assert archives() == [f"{packing.plan().digest}.tar.gz"], "the next packaging clears up"


def test_killed_while_git_works_for_it(packing, tmp_path):
    """A git that never ends is killed with its caller while the changed files lie in a folder of ours."""
    packing.write("new.txt")
    path = git_that_hangs(tmp_path / "tools", "write-tree")
    child = launch(packing, "include", PATH=path, start_new_session=True)
    until(lambda: list(cache.packages_dir().glob(".*.bench/index-*")), "the folder")
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert not list(packing.scratch.iterdir()), "nothing lies in the temporary folder"
    (left,) = archives()
    assert (cache.packages_dir() / left).stat().st_mode & 0o777 == 0o700
    assert packing.pack(dirty="include").archive is not None
    assert [name for name in archives() if not name.endswith(".tar.gz")] == []


def test_what_is_being_made_stays(packing):
    folder = cache.make_bench()
    elsewhere = cache.packages_dir() / ".0a0a0a0a-1-0a0a0a0a-x.tmp"
    elsewhere.write_text("of a process of another machine")
    packing.pack()
    assert folder.is_dir()
    assert elsewhere.exists()
    os.utime(elsewhere, (0, 0))
    cache.prune()
    assert not elsewhere.exists()


def test_a_dry_run_leaves_no_folder_of_ours(packing, tmp_path):
    packing.write("new.txt")
    assert packing.plan(dirty="include").included == ("new.txt",)
    assert not (tmp_path / "home").exists()


def test_one_file_is_one_file(packing):
    said = []
    pack(packing.plan(subpath="src"), said.append)
    pack(packing.plan(), said.append)
    assert said == [f"packaging 1 file of {packing.folder}", f"packaging 2 files of {packing.folder}"]


def test_what_no_job_has_is_taken_away_after_a_while(packing, tmp_path):
    old = packing.pack().archive
    kept = packing.pack(subpath="src").archive
    os.link(kept, tmp_path / "of a job.tar.gz")
    for archive in (old, kept):
        os.utime(archive, (0, 0))
    new = packing.pack(packager="pattern", include_pattern="src").archive
    assert {p.name for p in (kept, new)} == set(archives())


def test_an_archive_that_is_asked_for_stays(packing):
    package = packing.plan()
    archive = pack(package, print).archive
    os.utime(archive, (0, 0))
    pack(package, print)
    cache.prune()
    assert archive.exists()


def test_a_home_that_cannot_be_written(packing, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match="the package cannot be written"):
        packing.pack()


def test_a_file_that_cannot_be_read_leaves_nothing(packing):
    package = packing.plan(packager="pattern", include_pattern="src")
    packing.git("rm", "--quiet", "-r", "src")
    with pytest.raises(UserError):
        pack(package, print)
    assert archives() == []


def test_no_package_makes_no_archive():
    from nemo_runspec.plans.model import Package

    assert pack(Package(), print).archive is None


def test_a_damaged_archive_leaves_no_folder(packing, tmp_path, monkeypatch):
    archive = packing.pack().archive
    damaged = tmp_path / "damaged.tar.gz"
    damaged.write_bytes(archive.read_bytes()[:-40])
    for path in (os.environ["PATH"], "/nowhere"):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(UserError, match=r"cannot be unpacked|is damaged"):
            unpack(damaged, tmp_path / "code")
        assert not (tmp_path / "code").exists()


def test_without_a_tar_program(packing, tmp_path, monkeypatch):
    (packing.folder / "link").symlink_to("/etc")
    packing.write("run.sh").chmod(0o755)
    packing.commit()
    archive = packing.pack().archive
    unpack(archive, tmp_path / "tar")
    monkeypatch.setenv("PATH", "/nowhere")
    unpack(archive, tmp_path / "here")
    for folder in (tmp_path / "tar", tmp_path / "here"):
        assert os.readlink(folder / "link") == "/etc"  # noqa: PTH115
        assert (folder / "run.sh").stat().st_mode & 0o777 == 0o755
        assert (folder / "src/a.py").read_text() == "a = 1\n"


@pytest.mark.parametrize("path", ["tar", "no tar"])
@pytest.mark.parametrize("name", ["../out.txt", "link/out.txt"])
def test_nothing_outside_the_folder(tmp_path, monkeypatch, name, path):
    archive = tmp_path / "evil.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo(name))
    if path == "no tar":
        monkeypatch.setenv("PATH", "/nowhere")
    with suppress(UserError):
        unpack(archive, tmp_path / "code")
    assert not Path(tmp_path / "out.txt").exists()

"""Files on their way: whole or not at all, never twice, modes and links as they were."""

from __future__ import annotations

import stat

import pytest
from waiting import until

from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Broken
from nemo_runspec.transport.files import have, put, put_file, put_folder


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def names_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_many_files_arrive_in_one_round_trip(host, tmp_path):
    here = tmp_path / "script.sh"
    here.write_bytes(b"\0\xff data")
    link = tmp_path / "latest"
    link.symlink_to("../nowhere/else")
    there = tmp_path / "a new/one's folder"
    many = {f"many/{number}": (str(number).encode(), 0o640) for number in range(500)}
    files = {"job.sh": (b"#!/bin/sh\n", 0o755), "deep/er/script": (here, 0o600), "deep/link": (link, 0o777), **many}
    put(host, files, str(there))
    assert host.calls == 1
    assert (there / "job.sh").read_bytes() == b"#!/bin/sh\n"
    assert [mode_of(there / name) for name in ("job.sh", "deep/er/script", "many/7")] == [0o755, 0o600, 0o640]
    assert (there / "deep/er/script").read_bytes() == b"\0\xff data"
    assert str((there / "deep/link").readlink()) == "../nowhere/else"
    assert [mode_of(folder) for folder in (there, there / "deep")] == [0o700, 0o700]
    assert len(list((there / "many").iterdir())) == 500
    assert sorted(path.name for path in there.parent.iterdir()) == [there.name]


def test_files_join_a_folder_that_is_there(host, tmp_path):
    there = tmp_path / "job"
    (there / "sub").mkdir(parents=True)
    for name in ("old", "kept", "sub/old"):
        (there / name).write_text("before")
    put(host, {"old": (b"new", 0o600), "sub/old": (b"new", 0o600), "sub/more": (b"new", 0o600)}, f"{there}/")
    assert (there / "kept").read_text() == "before"
    assert {(there / name).read_text() for name in ("old", "sub/old", "sub/more")} == {"new"}
    assert names_below(there) == ["kept", "old", "sub", "sub/more", "sub/old"]


def test_a_file_that_is_replaced_is_never_half_there(host, tmp_path):
    there = tmp_path / "job"
    there.mkdir()
    (there / "config").write_text("before")
    reader = (there / "config").open()
    put(host, {"config": (b"after", 0o600)}, str(there))
    assert (reader.read(), (there / "config").read_text()) == ("before", "after")


def test_a_folder_arrives_without_gits_own_data_and_stays_as_it_is_there(host, tmp_path):
    here, there = tmp_path / "here", tmp_path / "a new" / "place"
    (here / ".git").mkdir(parents=True)
    (here / "code.py").write_text("1")
    for text in ("1", "2"):
        put_folder(host, here, str(there), "the repository")
        assert (there / "code.py").read_text() == "1", "what is there stays"
        assert (names_below(there), mode_of(there)) == (["code.py"], 0o755)
        (here / "code.py").write_text(text)
    assert [path.name for path in there.parent.iterdir()] == ["place"], "nothing is left beside it"
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="the repository cannot be put there"):
        put_folder(host, here, str(tmp_path / "file" / "place"), "the repository")


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", ".", ""])
def test_no_file_leaves_the_folder(host, tmp_path, name):
    with pytest.raises(ValueError, match="no file below a folder"):
        put(host, {name: (b"", 0o600)}, str(tmp_path / "job"))


def test_a_folder_that_cannot_be_made_is_told(host, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"cannot be written on .*: .*Not a directory|.*File exists"):
        put(host, {"a": (b"", 0o600)}, str(tmp_path / "file" / "job"))


@pytest.mark.parametrize("place", ["job", "./job"])
def test_a_relative_place_is_refused(host, place):
    with pytest.raises(ValueError, match="neither absolute nor below"):
        put(host, {"a": (b"", 0o600)}, place)


@pytest.mark.parametrize("size", [0, 1, 5_000_001])
def test_a_large_file_is_sent_once(host, tmp_path, size):
    source, there = tmp_path / "package.tar.gz", tmp_path / "far/package.tar.gz"
    source.write_bytes(bytes(range(251)) * (size // 251) + b"x" * (size % 251))
    assert put_file(host, source, str(there), 0o640)
    assert there.read_bytes() == source.read_bytes()
    assert mode_of(there) == 0o640
    before = there.stat()
    assert not put_file(host, source, str(there), 0o640)
    assert there.stat().st_mtime_ns == before.st_mtime_ns
    assert host.calls == 3


def test_a_file_of_the_same_size_and_other_content_is_sent(host, tmp_path):
    source, there = tmp_path / "new", tmp_path / "far"
    source.write_bytes(b"new")
    there.write_bytes(b"old")
    assert put_file(host, source, str(there))
    assert there.read_bytes() == b"new"


def test_a_file_that_changes_while_it_is_sent_is_not_believed(host, tmp_path, monkeypatch):
    source, there = tmp_path / "new", tmp_path / "far"
    source.write_bytes(b"first")
    asked = host.run

    def run(script, **options):
        done = asked(script, **options)
        source.write_bytes(b"later")
        return done

    monkeypatch.setattr(host, "run", run)
    with pytest.raises(UserError, match="what arrived is not what was sent"):
        put_file(host, source, str(there))
    assert names_below(tmp_path) == ["new"]


def test_a_file_that_cannot_be_read_is_told_before_anything_is_sent(host, tmp_path):
    with pytest.raises(UserError, match="cannot be read: No such file"):
        put_file(host, tmp_path / "none", str(tmp_path / "far"))
    assert host.calls == 0


def test_a_transfer_that_ends_early_leaves_what_was_there(host, tmp_path, late):
    there = tmp_path / "far"
    there.write_bytes(b"before")
    source = tmp_path / "new"
    source.write_bytes(b"x" * 3_000_000)
    with late() as end, pytest.raises(Broken):
        put_file(_Slow(host, end), source, str(there))
    until(lambda: names_below(tmp_path), "the end of what is half there", lambda names: names == ["far", "new"])
    assert there.read_bytes() == b"before"


@pytest.mark.parametrize("blocks", [0, 1, 16, 160])
def test_an_archive_cut_between_two_files_is_not_believed(host, tmp_path, blocks):
    """tar takes one without a word."""
    files = {str(number): (b"x" * (512 * 7), 0o600) for number in range(1000)}
    with pytest.raises(UserError, match="cannot be written on"):
        put(_Short(host, blocks * 4096), files, str(tmp_path / "far" / "job"))
    assert names_below(tmp_path) == ["far"]


def test_a_large_file_cut_short_is_not_believed(host, tmp_path):
    source, there = tmp_path / "new", tmp_path / "far"
    source.write_bytes(b"x" * 300_000)
    with pytest.raises(UserError, match="100000 of 300000 bytes arrived"):
        put_file(_Short(host, 100_000), source, str(there))
    assert names_below(tmp_path) == ["new"]


class _Short:
    """A machine that gets the first bytes of all data, and sees its input end like any other."""

    def __init__(self, host, size):
        self._host = host
        self._size = size
        self.name = host.name

    def run(self, script, *, data=b"", timeout=60.0):
        whole = data if isinstance(data, bytes) else b"".join(data)
        return self._host.run(script, data=whole[: self._size], timeout=timeout)


class _Slow:
    """Gives up in the middle of sending: the other side sees its input end. `end`: what takes all of the time."""

    def __init__(self, host, end):
        self._host = host
        self._end = end
        self.name = host.name

    def run(self, script, *, data=b"", timeout=60.0):
        if isinstance(data, bytes):
            return self._host.run(script, data=data, timeout=timeout)
        return self._host.run(script, data=self._slowly(data), timeout=timeout)

    def _slowly(self, data):
        for number, block in enumerate(data):
            yield block
            if number == 3:
                list(self._end)


def test_what_is_there_is_known_in_one_round_trip(host, tmp_path):
    asked = [str(tmp_path / name) for name in ("a file", "folder", "a\nline", "dangling", "none", "$HOME")]
    (tmp_path / "a file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "a\nline").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    assert have(host, asked) == set(asked[:4])
    assert have(host, []) == set()
    assert host.calls == 2


def test_home_is_the_one_over_there(host, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    home = host.run("echo $HOME").text.strip()
    folder = f"~/.nemotron-test-{host.key.partition(':')[0]} of ours"
    put(host, {"a": (b"1", 0o600)}, folder)
    try:
        assert have(host, [f"{folder}/a", f"{folder}/b"]) == {f"{folder}/a"}
        assert have(host, [f"{home}/{folder[2:]}/a"]) != set()
    finally:
        host.run(f"rm -r {home}/'{folder[2:]}'")


def test_a_full_disk_is_told_and_leaves_nothing(host, tmp_path):
    source = tmp_path / "large"
    source.write_bytes(b"x" * 4_000_000)
    disk = tmp_path / "disk"
    disk.mkdir()
    host.run("true")
    limited = _Limited(host)
    with pytest.raises(UserError, match="cannot be written on"):
        put_file(limited, source, str(disk / "file"))
    with pytest.raises(UserError, match="cannot be written on"):
        put(limited, {"large": (source, 0o600)}, str(disk / "folder"))
    assert names_below(disk) == []


class _Limited:
    """A machine whose files may not grow, as on a disk that is full."""

    def __init__(self, host):
        self._host = host
        self.name = host.name

    def run(self, script, **options):
        return self._host.run(f"ulimit -f 1000; trap '' XFSZ\n{script}", **options)

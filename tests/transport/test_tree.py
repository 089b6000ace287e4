"""Files and folders brought here: whole, once, and on from where it broke off."""

from __future__ import annotations

import os

import pytest

from nemo_runspec.errors import UserError
from nemo_runspec.transport import tree
from nemo_runspec.transport.base import Broken
from nemo_runspec.transport.local import LocalHost
from nemo_runspec.transport.tree import listed, pull

NAMES = ("a", "sub/b c", "sub/deep/ü\n2", "*?[x]", "-n", "sub/empty", "$(touch x)'\"")


@pytest.fixture
def source(tmp_path):
    """A folder with files of odd names, one of them larger than one round trip, and a link."""
    top = tmp_path / "there $x"
    for number, name in enumerate(NAMES):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(b"" if name.endswith("empty") else os.urandom(10 + number))
    (top / "large").write_bytes(os.urandom(300_000))
    (top / "latest").symlink_to("sub/deep")
    return top


@pytest.fixture(autouse=True)
def small_trips(monkeypatch):
    monkeypatch.setattr(tree, "AT_ONCE", 64 << 10)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


class Counting(LocalHost):
    """Loses the connection at the call that is named."""

    def __init__(self, breaks_at: int = 0) -> None:
        super().__init__()
        self.sent = 0
        self.breaks_at = breaks_at

    def run(self, script, *, data=b"", timeout=60.0):
        self.sent += 1
        if self.sent == self.breaks_at:
            raise Broken("the connection was lost")
        return super().run(script, data=data, timeout=timeout)


def test_everything_arrives_with_its_time(source, tmp_path):
    found = listed(LocalHost(), str(source))
    target = tmp_path / "here"
    state = pull(LocalHost(), found, target, lambda _: None)
    assert contents(target) == contents(source)
    assert (
        (state.done_bytes, state.done_files)
        == (state.bytes, state.files)
        == (sum(map(len, contents(source).values())), 9)
    )
    assert str((target / "latest").readlink()) == "sub/deep"
    assert (target / "a").stat().st_mtime == pytest.approx((source / "a").stat().st_mtime, abs=0.01)


def test_what_is_here_is_not_read_again(source, tmp_path):
    target = tmp_path / "here"
    pull(LocalHost(), listed(LocalHost(), str(source)), target, lambda _: None)
    (source / "a").write_bytes(b"another")
    host = Counting()
    state = pull(host, listed(host, str(source)), target, lambda _: None)
    assert host.sent == 2, "the list, and what has changed"
    assert state.bytes - state.there == len(b"another")
    assert contents(target) == contents(source)


@pytest.mark.parametrize("breaks_at", range(2, 7))
def test_it_goes_on_where_the_connection_was_lost(source, tmp_path, breaks_at):
    target, told = tmp_path / "here", []
    found = listed(LocalHost(), str(source))
    with pytest.raises(Broken):
        pull(Counting(breaks_at - 1), found, target, lambda state: told.append(state.done_bytes))
    state = pull(LocalHost(), found, target, lambda _: None)
    assert state.there == max(told)
    assert contents(target) == contents(source)
    assert not list(target.rglob("*.part"))


def test_half_of_another_version_is_not_gone_on_with(source, tmp_path):
    target = tmp_path / "here"
    with pytest.raises(Broken):
        pull(Counting(2), listed(LocalHost(), str(source / "large")), target, lambda _: None)
    (source / "large").write_bytes(os.urandom(300_000))
    os.utime(source / "large", (5, 5))
    pull(LocalHost(), listed(LocalHost(), str(source / "large")), target, lambda _: None)
    assert (target / "large").read_bytes() == (source / "large").read_bytes()


def test_a_file_that_shrinks_meanwhile_is_an_error(source, tmp_path):
    found = listed(LocalHost(), str(source))
    (source / "large").write_bytes(b"")
    with pytest.raises(UserError, match="did not arrive whole"):
        pull(LocalHost(), found, tmp_path / "here", lambda _: None)


def test_nothing_there(tmp_path):
    assert listed(LocalHost(), str(tmp_path / "gone")) is None
    assert listed(LocalHost(), str(tmp_path)).files == []

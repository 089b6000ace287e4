"""States of lines that are not whole yet are taken out of a log, kept beside it, and shown below it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.records import log_view
from nemo_runspec.records.drawn import DrawnLines, StateFile
from nemo_runspec.records.follow import follow
from nemo_runspec.records.log_view import LogView
from nemo_runspec.redact import LineFilter

CLEAR = b"\r\x1b[K"
BAR = b"\r[rank0] 50%\r\n"
PROMPT = b"\r\rname? \r\n"


@pytest.mark.parametrize(
    ("text", "kept", "shown"),
    [
        (b"", b"", b""),
        (b"a\nb\n", b"a\nb\n", b""),
        (b"a\n" + BAR, b"a\n", BAR),
        (BAR + b"[rank0] 100%\n", b"[rank0] 100%\n", b""),
        (BAR + b"[rank1] a\n", b"[rank1] a\n", BAR),
        (BAR + b"\r[rank1] 60%\r\n", b"", BAR),
        (BAR + b"\r[rank1] 60%\r\n" + b"[rank0] 100%\n", b"[rank0] 100%\n", b"\r[rank1] 60%\r\n"),
        (BAR + b"\r[rank1] 60%\r\n" * 40, b"", b"\r[rank1] 60%\r\n"),
        (b"\r[rank10] 1%\r\n\r[rank2] 1%\r\n", b"", b"\r[rank2] 1%\r\n"),
        (b"\r1%\r\n\r2%\r\n", b"", b"\r2%\r\n"),
        (b"\r1%\r\nanything\n", b"anything\n", b""),
        (BAR + PROMPT, b"", PROMPT),
        (b"windows\r\na\rb\n", b"windows\r\na\rb\n", b""),
    ],
)
def test_states_are_taken_out(text: bytes, kept: bytes, shown: bytes) -> None:
    lines = DrawnLines()
    assert lines.take(text) == kept
    assert lines.shown == shown
    assert DrawnLines(lines.states).states == lines.states


ROWS = st.lists(
    st.sampled_from([b"[rank0] a\n", b"[rank1] b\n", b"[rank0] w\n", b"nemotron: x\n", BAR, b"\r[rank1] 1%\r\n"])
)


@given(ROWS, ROWS)
def test_it_does_not_matter_where_it_is_cut(before: list[bytes], after: list[bytes]) -> None:
    one, two = DrawnLines(), DrawnLines()
    whole = one.take(b"".join(before + after))
    assert two.take(b"".join(before)) + two.take(b"".join(after)) == whole
    assert whole == b"".join(row for row in before + after if not row.startswith(b"\r"))
    assert (one.states, one.shown) == (two.states, two.shown)


def test_lines_whose_end_never_came_are_lines_as_they_were_last() -> None:
    lines = DrawnLines(BAR + b"\r[rank1] 1%\r\n\r[rank1] 2%\r\n")
    assert lines.unfinished() == b"[rank0] 50%\n[rank1] 2%\n"
    assert (lines.states, lines.unfinished()) == (b"", b"")


def test_a_secret_of_which_only_the_beginning_has_come_is_not_shown() -> None:
    lines = DrawnLines(cleaned=LineFilter(["s3cret-of-24-characters!"]).without_begun)
    lines.take(b"\r[rank0] token s3cret-of\r\n")
    assert lines.shown == b"\r[rank0] token \r\n"


def test_states_are_kept_beside_the_log(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    for states in (BAR, BAR + b"\r[rank1] " + b"x" * 2000 + b"\r\n", b"\r[rank0] 9%\r\n"):
        StateFile(log).write(DrawnLines(states))
        assert StateFile(log).read().states == states
    (tmp_path / "drawn").write_bytes(BAR + b"\r[rank1] hal")
    assert StateFile(log).read().states == BAR
    after = StateFile(log)
    assert after.read().states
    after.write(DrawnLines())
    assert not (tmp_path / "drawn").exists()
    assert StateFile(log).read().states == b""


class Screen:
    """A terminal, and what has been written to it."""

    def __init__(self, columns: int | None = 20) -> None:
        self.written = b""
        self.told: list[str] = []
        self.view = LogView(self.write, None if columns is None else lambda: columns, self.told.append)

    def write(self, text: bytes) -> None:
        self.written += text


def test_a_bar_is_drawn_in_its_place_below_all_lines() -> None:
    screen = Screen()
    screen.view.write(b"begun\n")
    screen.view.draw(BAR)
    screen.view.draw(BAR)
    screen.view.draw(b"\r[rank0] 60%\r\n")
    screen.view.write(b"[rank1] a\n")
    screen.view.draw(b"\r[rank0] 60%\r\n")
    screen.view.clear()
    drawn = b"begun\n[rank0] 50%" + CLEAR + b"[rank0] 60%" + CLEAR + b"[rank1] a\n[rank0] 60%" + CLEAR
    assert screen.written == drawn


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"x" * 50, "x" * 19),
        ("\u6f22".encode() * 20, "\u6f22" * 9),
        (b"\x1b[32m50%\x1b[0m\x1b[2A\x1b]\x07", "50%"),
        (b"a\tb", "a       b"),
        (b"\xff", "\ufffd"),
    ],
    ids=["long", "wide", "colours and moves", "a tab", "no text"],
)
def test_what_is_drawn_fits_into_one_line_and_moves_nothing(line: bytes, shown: str) -> None:
    screen = Screen()
    screen.view.draw(b"\r" + line + b"\r\n")
    assert screen.written.decode() == shown


def test_what_follows_a_prompt_goes_on_behind_it() -> None:
    screen = Screen()
    screen.view.draw(PROMPT)
    screen.view.draw(b"\r\rname? my \r\n")
    screen.view.write(b"name? my name\nnext\n")
    screen.view.draw(PROMPT)
    screen.view.write(b"something else\n")
    assert screen.written == b"name? my name\nnext\nname? " + CLEAR + b"something else\n"


def test_a_prompt_that_is_longer_than_a_line_is_not_taken_away_again() -> None:
    screen = Screen()
    screen.view.draw(b"\r\r" + b"x" * 30 + b"\r\n")
    screen.view.write(b"something else\n")
    assert screen.written == b"x" * 30 + b"\nsomething else\n"


def test_where_nothing_can_be_drawn_it_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(log_view.time, "monotonic", lambda: now)
    screen = Screen(columns=None)
    screen.view.write(b"begun\n")
    for second in range(200):
        now = float(second)
        screen.view.draw(b"\r%d\r\n" % second)
    screen.view.draw(PROMPT)
    screen.view.clear()
    screen.view.write(b"200\n")
    assert screen.written == b"begun\n200\n"
    assert screen.told == ["2", "6", "14", "30", "62", "122", "182"]


def test_a_log_is_followed_with_what_is_drawn_below_it(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(b"begun\n")
    StateFile(log).write(DrawnLines(BAR))
    screen = Screen()

    def is_over() -> bool:
        if BAR[1:-2] not in screen.written:
            return False
        if b"100%" not in log.read_bytes():
            log.write_bytes(b"begun\n[rank0] 100%\n")
            StateFile(log).write(DrawnLines())
        return True

    assert follow(log, screen.view, is_over)
    assert screen.written == b"begun\n[rank0] 50%" + CLEAR + b"[rank0] 100%\n"

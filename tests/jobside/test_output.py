"""The number before a rank's lines, hidden secrets, counts; ranks that do not mix; readers that are slow or gone."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_scripts import lay_out, plan_for, run_script, start_script
from waiting import until

from nemo_runspec.forms import COMMON, is_weak
from nemo_runspec.jobside.output import RankOutput
from nemo_runspec.records.drawn import DrawnLines
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import deciding_marker, read_markers

TAG = b"[rank0] "
LONG = 120.0


def prefixed(*pieces: bytes, hidden: tuple[bytes, ...] = (), tag: str = "[rank0] ") -> tuple[bytes, RankOutput]:
    """What becomes of these pieces in a log, each written once the one before it was read."""
    given, output = passed_on(*pieces, hidden=hidden, tag=tag)
    assert output.size == len(given)
    return DrawnLines().take(given), output


def passed_on(
    *pieces: bytes,
    hidden: tuple[bytes, ...] = (),
    tag: str = "[rank0] ",
    until_told: Callable[[bytes, int], bool] = lambda given, pieces: True,
) -> tuple[bytes, RankOutput]:
    """All that is given on, states too; before the next piece and the end it is waited for what was told."""
    source, given_to = os.pipe()
    shown, target = os.pipe()
    output = RankOutput(source, tag, hidden, target)
    output.start()
    kept = bytearray()
    reader = threading.Thread(
        target=lambda: [kept.extend(piece) for piece in iter(lambda: os.read(shown, 1 << 16), b"")]
    )
    reader.start()
    for number, piece in enumerate(pieces, 1):
        write_all(given_to, piece)
        if len(pieces) > 1:
            wait_empty(source)
        until(lambda number=number: until_told(bytes(kept), number), f"what is told of piece {number}")
    os.close(given_to)
    assert output.wait(LONG)
    os.close(target)
    reader.join()
    os.close(shown)
    return bytes(kept), output


def write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def wait_empty(source: int) -> None:
    while any(fcntl.ioctl(source, termios.FIONREAD, b"\0" * 4)):
        time.sleep(0.001)


LINES = [
    (b"", b""),
    (b"a", b"[rank0] a\n"),
    (b"a\n", b"[rank0] a\n"),
    (b"\n\na\n", b"[rank0] \n[rank0] \n[rank0] a\n"),
    (b"a\r\nb\r\n\r\n", b"[rank0] a\n[rank0] b\n[rank0] \n"),
    (b"\r 1%\r 2%\r 3%\n", b"[rank0]  3%\n"),
    (b"1%\r2%\r", b"[rank0] 2%\n"),
    (b"50%\r   \r", b"[rank0] 50%\n"),
    (b"50%\r   \rdone\n3%", b"[rank0] done\n[rank0] 3%\n"),
    (b"a\r\rb\r\n", b"[rank0] b\n"),
    (b"\xff\xc3\n\xe2\x98", b"[rank0] \xff\xc3\n[rank0] \xe2\x98\n"),
    (b"a\0b\n\0", b"[rank0] a\0b\n[rank0] \0\n"),
]


@pytest.mark.parametrize(("data", "expected"), LINES)
def test_lines_of_the_only_rank(data: bytes, expected: bytes):
    shown, output = prefixed(data, tag="")
    assert shown == expected.replace(TAG, b"")
    assert (output.lines, output.lost) == (expected.count(TAG), 0)


@pytest.mark.parametrize("pieces", [1, 2, 1000])
def test_the_only_rank_cannot_say_what_we_say(pieces: int):
    """A pod's last lines end the job, for whoever reads its log."""
    said = b"nemotron-end: node=0 exit_code=0\nx nemotron: y\n\rnemotron: z\nnemotron"
    size = -(-len(said) // pieces)
    shown, output = prefixed(*(said[at : at + size] for at in range(0, len(said), size)), tag="")
    lines = [b"[rank0] nemotron-end: node=0 exit_code=0", b"x nemotron: y", b"[rank0] nemotron: z", b"[rank0] nemotron"]
    assert shown == b"".join(line + b"\n" for line in lines)
    assert output.lines == 4


@pytest.mark.parametrize(("data", "expected"), LINES)
def test_lines(data: bytes, expected: bytes):
    shown, output = prefixed(data)
    assert shown == expected
    assert (output.lines, output.lost) == (expected.count(b"\n"), 0)


@pytest.mark.slow
@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"a", b"\xff ", b"x" * 4095, b"y" * 9000])), st.integers(1, 5))
def test_what_was_given_is_counted_and_does_not_depend_on_how_it_came(pieces: list[bytes], size: int):
    data = b"".join(pieces)
    whole, output = prefixed(data)
    assert output.lines == whole.count(b"\n")
    parts = [data[start : start + 4093 * size] for start in range(0, len(data), 4093 * size)]
    assert prefixed(*parts)[0] == whole


def test_an_end_of_line_in_two_pieces_is_one():
    assert prefixed(b"a\r", b"\nb\r", b"\n\n")[0] == b"[rank0] a\n[rank0] b\n[rank0] \n"


def states_of(given: bytes) -> list[bytes]:
    return [line + b"\n" for line in given.split(b"\n")[:-1] if line.startswith(b"\r")]


def test_a_bar_is_told_of_while_it_is_drawn_and_given_on_once():
    pieces = [b"begun\n\r1%", b"\r2%", b"\r100%\r\n", b"done\n"]
    given, output = passed_on(*pieces, until_told=lambda given, number: number > 2 or b"%" in given)
    assert states_of(given)[0] == b"\r[rank0] 1%\r\n"
    assert set(states_of(given)[1:]) <= {b"\r[rank0] 2%\r\n", b"\r[rank0] 100%\r\n"}
    assert DrawnLines().take(given) == b"[rank0] begun\n[rank0] 100%\n[rank0] done\n"
    assert (output.lines, output.size) == (3, len(given))


def test_a_bar_is_told_of_as_often_as_a_person_wants(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NEMOTRON_REDRAW", "0.001")
    pieces = [b"\r%d%%" % percent for percent in range(5)]
    given, _ = passed_on(*pieces, b"\n", until_told=lambda given, number: number > 5 or len(states_of(given)) == number)
    assert states_of(given) == [b"\r[rank0] %d%%\r\n" % percent for percent in range(5)]


@pytest.mark.parametrize(("every", "states"), [("", []), ("0.1", [b"\r\r[rank0] name? \r\n"]), ("often", [])])
def test_a_prompt_is_told_of_where_somebody_may_answer(
    monkeypatch: pytest.MonkeyPatch, every: str, states: list[bytes]
):
    monkeypatch.setenv("NEMOTRON_REDRAW", every)
    given, _ = passed_on(b"name? ", b"me\n", until_told=lambda given, number: number > 1 or states_of(given) == states)
    assert DrawnLines().take(given) == b"[rank0] name? me\n"


def test_bars_below_each_other_are_seen_as_one_line():
    """As tqdm draws them, two and three deep, cut anywhere: the cursor goes down and up again."""
    inner = b"".join(b"\n\r in %d\x1b[A" % n for n in range(3))
    deepest = b"".join(b"\n\n\r deep %d\x1b[A\x1b[A" % n for n in range(3))
    data = b"\r out 0" + inner + deepest + b"\r out 1\n" + b"done\n"
    assert prefixed(data)[0].split(b"\n") == [TAG + line for line in (b" out 0", b" in 2", b" out 1", b"done")] + [b""]
    shown = prefixed(*(data[at : at + 7] for at in range(0, len(data), 7)))[0]
    assert shown.startswith(b"[rank0]  out 0\n")
    assert shown.endswith(b"[rank0]  out 1\n[rank0] done\n")


def test_a_secret_of_which_only_the_beginning_has_come_is_not_told_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NEMOTRON_REDRAW", "0.001")
    pieces = (b"\rtoken s3cret-of", b"-24-characters!\r", b"\n")
    told = lambda given, number: number > 2 or len(states_of(given)) >= number  # noqa: E731
    given, _ = passed_on(*pieces, hidden=(b"s3cret-of-24-characters!",), until_told=told)
    assert states_of(given) == [b"\r[rank0] token \r\n", b"\r[rank0] token ******\r\n"]
    assert b"s3cret" not in given


def test_a_long_line_that_is_drawn_again_and_again_takes_no_memory():
    given, output = passed_on(*([b"\r" + b"x" * 100_000] * 20), b"\n")
    assert output.lines == 1
    assert max(map(len, states_of(given)), default=0) < 4096
    assert DrawnLines().take(given) == TAG + b"x" * 100_000 + b"\n"


def test_secrets_are_hidden():
    """The values, each longer line of one, however they come; a short or common one is ordinary text."""
    secrets = (b"s3cr*t", b"first line\n2nd line\nx", b"abc", b"", b"Training")
    data = b"a s3cr*t and s3cr*t\nfirst line\n2nd line\nabc x s3crat\nTraining\ns3cr*"
    hidden = b"a ****** and ******\n******\n******\nabc x s3crat\nTraining\ns3cr*\n".replace(b"\n", b"\n[rank0] ")
    assert prefixed(data, hidden=secrets)[0] == TAG + hidden[: -len(TAG)]
    assert is_weak(b"Training") and b"training" in COMMON.encode().lower()


VALUE = 'p"a/s+w%r d\\12'
OTHER = "\u00fb\u00ffk\u00fe\u00fb\u00ff"
WRITTEN = {
    "as it is": VALUE.encode(),
    "json": json.dumps(VALUE).encode()[1:-1],
    "url": quote(VALUE, safe="").encode(),
    "url in lower case": b"p%22a%2fs%2bw%25r%20d%5c12",
    "hex": VALUE.encode().hex().encode(),
    "hex in capitals": VALUE.encode().hex().upper().encode(),
    **{f"base64 after {n}": base64.b64encode(b"x" * n + VALUE.encode() + b"yz") for n in range(4)},
    **{f"base64 for URLs after {n}": base64.urlsafe_b64encode(b"x" * n + OTHER.encode() + b"yz") for n in range(3)},
}


@pytest.mark.parametrize("form", list(WRITTEN))
def test_every_form_of_a_secret_is_hidden(form: str):
    data = WRITTEN[form]
    shown, _ = prefixed(b"a " + data + b" b\n" + data, hidden=(VALUE.encode(), OTHER.encode()))
    assert shown.count(b"******") == 2
    assert data not in shown
    assert data[6:-6] not in shown


def test_a_secret_in_a_line_that_is_too_long_is_hidden_wherever_it_is_cut():
    secret = b"s3cret-of-24-characters!"
    for before in ((1 << 20) - 12, 1 << 20, (1 << 21) - 1):
        shown, _ = prefixed(b"x" * before + secret + b"x" * 3_000_000 + b"\n", hidden=(secret,))
        assert b"******" in shown
        assert not any(secret[start : start + 8] in shown for start in range(len(secret) - 8))
        assert shown.count(b"x") == before + 3_000_000


def test_a_full_disk_ends_nothing_and_what_it_had_no_room_for_is_counted():
    source, given_to = os.pipe()
    with Path("/dev/full").open("wb") as full:
        output = RankOutput(source, "[rank0] ", (), full.fileno())
        output.start()
        write_all(given_to, b"x\n" * 10_000)
        os.close(given_to)
        assert output.wait(LONG)
    assert (output.lines, output.size, output.lost) == (10_000, 100_000, 10_000)


def test_the_rank_learns_that_nobody_reads():
    source, given_to = os.pipe()
    shown, target = os.pipe()
    os.close(shown)
    output = RankOutput(source, "[rank0] ", (), target)
    output.start()
    with pytest.raises(BrokenPipeError):
        while True:
            write_all(given_to, b"x" * 999 + b"\n")
    os.close(given_to)
    os.close(target)


def test_a_left_behind_process_holds_nobody_for_long_and_the_last_line_has_no_end():
    """What was in the pipe is given on, whatever the time; a line that has not ended too."""
    source, given_to = os.pipe()
    shown, target = os.pipe()
    output = RankOutput(source, "[rank0] ", (), target)
    output.start()
    os.write(given_to, b"one\nnot ended")
    assert not output.wait(0.1)
    assert os.read(shown, 100) == b"[rank0] one\n[rank0] not ended\n"
    for end in (given_to, shown, target):
        os.close(end)


def test_a_slow_reader_gets_the_last_lines():
    """Longer than is waited for a process that was left behind."""
    source, given_to = os.pipe()
    shown, target = os.pipe()
    output = RankOutput(source, "[rank0] ", (), target)
    output.start()
    data = b"x" * 99 + b"\n"
    write_all(given_to, data * 9_000)  # nine times what the next pipe holds
    kept = bytearray()
    late = threading.Timer(1.0, lambda: [kept.extend(os.read(shown, 1 << 16)) for _ in iter(int, 1)])
    late.daemon = True
    late.start()
    assert not output.wait(0.1)
    until(lambda: len(kept) == 9_000 * 108, "the last lines")
    assert kept.count(b"\n") == 9_000


MANY = """
import os, sys
from nemo_runspec.jobside.output import RankOutput
from nemo_runspec.records.drawn import DrawnLines
from nemo_runspec.jobside import output
if sys.argv[1] == "pieces":
    output._lock = lambda target: -1
rank, sizes = int(sys.argv[2]), [int(size) for size in sys.argv[3:]]
source, given_to = os.pipe()
copy = RankOutput(source, "[rank%d] " % rank)
copy.start()
with open(given_to, "w") as stream:
    for number in range(300):
        stream.write(str(rank) * sizes[(number + rank) % len(sizes)] + " %d\\n" % number)
copy.wait(120)
"""


@pytest.mark.parametrize(
    ("way", "sizes"),
    [("lock", (10, 100, 5000, 70000)), ("pieces", (10, 100, 4000))],
    ids=["any line where the pipe can be locked", "what one write holds where it cannot"],
)
def test_lines_of_several_ranks_do_not_mix(way: str, sizes: tuple[int, ...]):
    source, target = os.pipe()
    words = [sys.executable, "-c", MANY, way]
    ranks = [subprocess.Popen([*words, str(rank), *map(str, sizes)], stdout=target) for rank in range(4)]
    os.close(target)
    with os.fdopen(source, "rb") as stream:
        lines = stream.read().splitlines()
    assert [rank.wait(120) for rank in ranks] == [0] * 4
    assert len(lines) == 1200
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"[rank{rank}] ".encode())]
        expected = [f"{str(rank) * sizes[(number + rank) % len(sizes)]} {number}" for number in range(300)]
        assert own == [f"[rank{rank}] {text}".encode() for text in expected]


# --- whole job scripts


def record_of(plan):
    found = deciding_marker(read_markers(Path(JobLayout(plan.job_dir).status)))
    assert found is not None
    return found


def test_a_rank_that_prints_nothing(tmp_path: Path):
    plan = plan_for(tmp_path, "")
    assert run_script(plan, tmp_path) == (0, "")
    assert (record_of(plan).lines, record_of(plan).size) == (0, 0)


def test_a_rank_that_closes_its_output_goes_on(tmp_path: Path):
    plan = plan_for(
        tmp_path, "import os\nprint('one', flush=True)\nos.close(1)\nos.close(2)\nopen('made', 'w').close()"
    )
    assert run_script(plan, tmp_path) == (0, "one\n")
    assert (tmp_path / "made").exists()


LEAVES = "import subprocess, sys\nprint('no end', end='', flush=True)\nsubprocess.Popen(['sleep', '60'])"


def test_a_process_that_it_leaves_behind_does_not_hold_the_job(tmp_path: Path):
    plan = plan_for(tmp_path, LEAVES)
    process = start_script(lay_out(plan), tmp_path)
    assert process.wait(LONG) == 0
    assert process.stdout is not None and os.read(process.stdout.fileno(), 100) == b"no end\n"
    assert record_of(plan).lines == 1


@pytest.mark.slow
def test_one_line_of_a_gigabyte_needs_no_memory(tmp_path: Path):
    """As measured of all children of one process: the supervisor's peak is the largest among them."""
    plan = plan_for(tmp_path, "import sys\npiece = 'x' * (1 << 16)\nfor _ in range(1 << 14): sys.stdout.write(piece)")
    measure = "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(code)"  # noqa: E501
    layout = lay_out(plan)
    counting = subprocess.Popen(["wc", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    done = subprocess.run(
        [sys.executable, "-c", measure, "bash", layout.job_script],
        stdout=counting.stdin, stderr=subprocess.PIPE, text=True, timeout=300, check=True,
    )  # fmt: skip
    size, _ = counting.communicate(timeout=60)
    record = record_of(plan)
    assert int(size) == record.size >= 1 << 30
    assert int(done.stderr.split()[-1]) < 64 << 10, "kilobytes, at most"

"""The prefix before a rank's lines: the Python program and the bash loop do the same, and ranks do not mix."""

from __future__ import annotations

import ast
import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from nemo_runspec import script
from nemo_runspec.forms import COMMON, is_weak
from nemo_runspec.script.render import prefix_program, shared_functions

FUNCTIONS = f"{shared_functions()}\n{Path(script.__file__).with_name('prefix.sh').read_text(encoding='utf-8')}"
PROGRAM = prefix_program()
PYTHON = f"{Path(sys.executable).parent}:/usr/bin:/bin"
TAG = b"[rank0] "


def bash(text: str, *args: str, **options) -> subprocess.Popen[bytes]:
    """The functions of the job script, and then this text."""
    environment = {"PATH": PYTHON, **options.pop("env", {})}
    whole = f"nemotron_prefix_program=$PROGRAM\n{FUNCTIONS}\n{text}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options}
    return subprocess.Popen(
        ["bash", "-c", whole, "bash", *args],
        env={"PROGRAM": PROGRAM, "nemotron_common": COMMON, **environment},
        **pipes,
    )


def prefixed(data: bytes, text: str = "nemotron_prefix 0", **options) -> bytes:
    return bash(text, **options).communicate(data, timeout=120)[0]


LINES = [
    (b"", b""),
    (b"a", b"[rank0] a\n"),
    (b"a\n", b"[rank0] a\n"),
    (b"\n\na\n", b"[rank0] \n[rank0] \n[rank0] a\n"),
    (b"a\r\nb\r\n\r\n", b"[rank0] a\n[rank0] b\n[rank0] \n"),
    (b"\r 1%\r 2%\r 3%\n", b"[rank0]  1%\n[rank0]  2%\n[rank0]  3%\n"),
    (b"1%\r2%\r", b"[rank0] 1%\n[rank0] 2%\n"),
    (b"a\r\rb\r\n", b"[rank0] a\n[rank0] b\n"),
    (b"\xff\xc3\n\xe2\x98", b"[rank0] \xff\xc3\n[rank0] \xe2\x98\n"),
]


@pytest.mark.parametrize("way", ["nemotron_prefix 0", "nemotron_prefix_slowly '[rank0] '"], ids=["python", "bash"])
@pytest.mark.parametrize(("data", "expected"), LINES)
def test_lines(way, data, expected):
    assert prefixed(data, way) == expected


@pytest.mark.parametrize("way", ["nemotron_prefix 0", "nemotron_prefix_slowly '[rank0] '"], ids=["python", "bash"])
def test_secrets_are_hidden(way):
    """The values of the named variables, each longer line of one, however they come; a short one is ordinary text."""
    secrets = {"ONE": "s3cr*t", "TWO": "first line\n2nd line\nx", "SHORT": "abc", "NONE": "", "COMMON": "Training"}
    data = b"a s3cr*t and s3cr*t\rfirst line\n2nd line\nabc x s3crat\nTraining\ns3cr*"
    hidden = b"a ****** and ******\n******\n******\nabc x s3crat\nTraining\ns3cr*\n".replace(b"\n", b"\n[rank0] ")
    assert (
        prefixed(data, f"nemotron_hidden='ONE TWO SHORT NONE ABSENT COMMON'; {way}", env=secrets)
        == TAG + hidden[: -len(TAG)]
    )


VALUE = 'p"a/s+w%r d\\12'
WRITTEN = {
    "as it is": VALUE.encode(),
    "json": json.dumps(VALUE).encode()[1:-1],
    "url": quote(VALUE, safe="").encode(),
    "url in lower case": b"p%22a%2fs%2bw%25r%20d%5c12",
    "hex": VALUE.encode().hex().encode(),
    "hex in capitals": VALUE.encode().hex().upper().encode(),
    **{f"base64 after {n}": base64.b64encode(b"x" * n + VALUE.encode() + b"yz") for n in range(4)},
    **{
        f"base64 for URLs after {n}": base64.urlsafe_b64encode(
            b"x" * n + "\u00fb\u00ffk\u00fe\u00fb\u00ff".encode() + b"yz"
        )
        for n in range(3)
    },
}


@pytest.mark.parametrize("way", ["nemotron_prefix 0", "nemotron_prefix_slowly '[rank0] '"], ids=["python", "bash"])
@pytest.mark.parametrize("form", list(WRITTEN))
def test_every_form_of_a_secret_is_hidden(way, form):
    data, secrets = WRITTEN[form], {"ONE": VALUE, "TWO": "\u00fb\u00ffk\u00fe\u00fb\u00ff"}
    shown = prefixed(b"a " + data + b" b\n" + data, f"nemotron_hidden='ONE TWO'; {way}", env=secrets)
    assert shown.count(b"******") == 2
    assert data not in shown
    assert data[6:-6] not in shown


@pytest.mark.parametrize(
    "value", ["12345678", "1234567", "abABab", "passworD", "  training ", "hunter2", "abcabc", "****"]
)
def test_both_ways_find_the_same_weak(value):
    done = bash('nemotron_is_weak "$VALUE" && echo weak || echo strong', env={"VALUE": value}).communicate(timeout=120)
    assert done[0] == (b"weak\n" if is_weak(value.encode()) else b"strong\n")


@pytest.mark.slow
@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"a", b"\xff ", b"$(x)\\n%s", b"x" * 4095, b"y" * 9000])))
def test_both_ways_say_the_same(pieces):
    data = b"".join(pieces)
    assert prefixed(data) == prefixed(data, "nemotron_prefix_slowly '[rank0] '")


def test_the_program_runs_with_old_pythons():
    """It is the job's Python that runs it: nothing of a newer language, and nothing of nemotron."""
    tree = ast.parse(PROGRAM, feature_version=(3, 6))
    names = [name for node in ast.walk(tree) for name in _imported(node)]
    assert sorted(names) == ["binascii", "fcntl", "os", "stat", "sys"]
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Subscript)
    ]


def _imported(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) else []


def test_a_nul_byte_stays():
    assert prefixed(b"a\0b\n\0") == b"[rank0] a\0b\n[rank0] \0\n"


def test_an_end_of_line_in_two_pieces_is_one():
    process = bash("nemotron_prefix 0", bufsize=0)
    seen = b""
    for piece, expected in ((b"a\r", b"[rank0] a\n"), (b"\nb\r", b"[rank0] b\n"), (b"\n\n", b"[rank0] \n")):
        process.stdin.write(piece)
        seen += os.read(process.stdout.fileno(), 100)
        assert seen.endswith(expected)
    assert process.communicate(timeout=120)[0] == b""


@pytest.mark.parametrize(
    "stub", [None, "exit 0", "exit 1", "echo no >&2; exit 127"], ids=["none", "does nothing", "fails", "complains"]
)
def test_without_a_python_that_works_nothing_is_lost(tmp_path, stub):
    tools = tmp_path / "bin"
    tools.mkdir()
    if stub is not None:
        for name in ("python", "python3"):
            (tools / name).write_text(f"#!/bin/sh\n{stub}\n")
            (tools / name).chmod(0o755)
    path = f"{tools}:/nowhere" if stub is None else f"{tools}:/bin:/usr/bin"
    process = bash(f"PATH={path}; nemotron_prefix 0", stderr=subprocess.PIPE)
    assert process.communicate(b"one\rtwo\nthree", timeout=120) == (b"[rank0] one\n[rank0] two\n[rank0] three\n", b"")


def test_it_outlives_signals_and_gives_the_last_partial_line():
    process = bash("nemotron_prefix 0", bufsize=0, start_new_session=True)
    process.stdin.write(b"ready\n")
    assert os.read(process.stdout.fileno(), 100) == b"[rank0] ready\n"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.killpg(process.pid, number)
    time.sleep(0.1)
    assert process.communicate(b"not ended", timeout=120)[0] == b"[rank0] not ended\n"


def test_what_a_killed_program_leaves_is_read_on():
    process = bash("nemotron_prefix 0; :", bufsize=0, start_new_session=True)
    process.stdin.write(b"one\n")
    assert os.read(process.stdout.fileno(), 100) == b"[rank0] one\n"
    python = [p for p in (int(entry.name) for entry in Path("/proc").glob("[0-9]*")) if _is_python_of(p, process.pid)]
    assert len(python) == 1
    os.kill(python[0], signal.SIGKILL)
    until(lambda: not _is_python_of(python[0], process.pid), "its end")  # else it may still take the next line along
    assert process.communicate(b"two\n", timeout=120)[0] == b"[rank0] two\n"


def _is_python_of(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session and b"-I" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (ProcessLookupError, FileNotFoundError):
        return False


MANY = """
for rank in 0 1 2 3; do
  python3 -c '
import sys
rank, *sizes = sys.argv[1:]
for number in range(300):
    size = int(sizes[(number + int(rank)) % len(sizes)])
    sys.stdout.write(rank * size + f" {number}\\n")
' $rank "$@" | nemotron_prefix $rank &
done
wait
"""


@pytest.mark.parametrize(
    ("program", "sizes"),
    [(PROGRAM, (10, 100, 5000, 70000)), (PROGRAM.replace("stat.S_ISFIFO(", "not ("), (10, 100, 4000))],
    ids=["any line where the pipe can be locked", "what one write holds where it cannot"],
)
def test_lines_of_several_ranks_do_not_mix(program, sizes):
    process = bash(MANY, *map(str, sizes), env={"PROGRAM": program}, stdin=subprocess.DEVNULL)
    lines = process.communicate(timeout=120)[0].splitlines()
    assert len(lines) == 1200
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"[rank{rank}] ".encode())]
        expected = [f"{str(rank) * sizes[(number + rank) % len(sizes)]} {number}" for number in range(300)]
        assert own == [f"[rank{rank}] {text}".encode() for text in expected]


@pytest.mark.parametrize("way", ["nemotron_prefix 0", "nemotron_prefix_slowly '[rank0] '"], ids=["python", "bash"])
def test_a_full_disk_does_not_end_it_and_what_it_had_no_room_for_is_counted(way, tmp_path):
    given = tmp_path / "given"
    given.write_text("0 0" + " " * 40 + "\n")
    with Path("/dev/full").open("wb") as full:
        process = bash(f"nemotron_given={given}; {way}", stdout=full, stderr=subprocess.PIPE)
        process.communicate(b"x\n" * 10_000, timeout=120)
    assert process.returncode in (0, 1)
    assert given.read_text().split()[:2] == ["10000", "100000"]


@pytest.mark.slow
@given(st.lists(st.sampled_from([b"\r", b"\n", b"a", b"\xff ", b"y" * 9000])))
def test_what_was_given_is_what_was_written(pieces):
    for way in ("nemotron_prefix 0", "nemotron_prefix_slowly '[rank0] '"):
        made = f"nemotron_given=`mktemp`; echo '0 0{' ' * 40}' > $nemotron_given"
        process = bash(f"{made}; {way}; cat $nemotron_given >&2; rm $nemotron_given", stderr=subprocess.PIPE)
        out, counts = process.communicate(b"".join(pieces), timeout=120)
        assert [int(word) for word in counts.split()[:2]] == [out.count(b"\n"), len(out)]

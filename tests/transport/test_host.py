"""What both kinds of machine promise."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from waiting import line_of, until

from nemo_runspec.transport.base import Broken

EVERY_BYTE = bytes(range(256))


def test_a_script_says_how_it_ended(host):
    done = host.run("cat; echo sorry >&2; exit 3", data=b"given")
    assert (done.code, done.out, done.err) == (3, b"given", b"sorry\n")
    assert done.said == "sorry"


@pytest.mark.parametrize("code", [0, 1, 126, 127, 128, 254, 255])
def test_every_exit_status_is_the_scripts_own(host, code):
    assert host.run(f"exit {code}").code == code


def test_a_signal_is_told_as_a_shell_tells_it(host):
    assert host.run("sh -c 'kill -9 $$'").code == 137


def test_output_needs_no_line_end_and_may_hold_anything(host):
    assert host.run("printf 'a\\0b'").out == b"a\0b"
    assert host.run(":").out == b""
    assert host.run("cat", data=EVERY_BYTE + b"\n\n").out == EVERY_BYTE + b"\n\n"


def test_twenty_megabytes_arrive_whole_and_come_back_whole(host):
    data = EVERY_BYTE * 80_000
    assert host.run("cat", data=data).out == data


def test_data_may_come_in_blocks(host):
    assert host.run("cat", data=(block for block in (b"one", b"", b"two"))).out == b"onetwo"


def test_a_script_need_not_read_its_data(host):
    assert host.run("exit 4", data=EVERY_BYTE * 40_000).code == 4


def test_a_script_is_bash_with_any_text(host):
    script = """\
cat <<'EOF'
it's "quoted" \\ $HOME `x` !! ü {a,b}
EOF
words=(a 'b c'); printf '<%s>' "${words[@]}"
"""
    assert host.run(script).text == 'it\'s "quoted" \\ $HOME `x` !! ü {a,b}\n<a><b c>'


def test_a_script_may_be_long(host):
    assert host.run(f"# {'x' * 300_000}\necho end").text == "end\n"


def test_a_broken_script_is_an_ending_like_any_other(host):
    done = host.run("if true; then", data=b"touch /tmp/never\n")
    assert done.code != 0
    assert "syntax error" in done.said
    assert done.out == b""


def test_a_script_that_takes_too_long_is_given_up(host, late):
    with late() as data, pytest.raises(Broken, match=r"within 60 s; whether it has run is not known"):
        host.run("sleep 600", data=data, timeout=60)
    with late() as data, pytest.raises(Broken, match="within 60 s"):
        host.run("while echo again; do :; done", data=data, timeout=60)  # however much it says
    assert host.run("echo still here").text == "still here\n"


def test_output_of_a_script_that_goes_on_comes_while_it_runs(host, tmp_path):
    go = tmp_path / "go"
    process = host.start(f"echo first; cat; while [ ! -e {go} ]; do sleep 0.02; done; echo last; echo bad >&2; exit 9")
    assert line_of(process.stdout) == b"first\n"
    go.touch()
    assert process.stdout.read() == b"last\n"
    assert process.wait() == 9
    assert process.stderr.read().endswith(b"bad\n")


def test_255_of_a_script_that_goes_on_is_no_lost_connection(host):
    assert host.start("exit 255").wait() == 254


@pytest.mark.parametrize("end", ["kill", "terminate", "let go"])
def test_a_script_that_goes_on_ends_with_all_it_has_started(host, end):
    process = host.start("(sleep 1000 & echo $!; wait) & sleep 1001 & echo $!; wait")
    pids = [int(line_of(process.stdout)) for _ in range(2)]
    assert all(map(alive, pids))
    process.stdin.close() if end == "let go" else getattr(process, end)()
    process.wait()
    until(lambda: not any(map(alive, pids)), "the end of both")


def test_a_script_whose_outermost_shell_is_killed_as_it_begins_is_left_by_nobody(host, tmp_path):
    """Whatever step of its start that falls into: a script that runs is watched."""
    pids = tmp_path / "pids"
    for number in range(20):
        process = host.start(f"echo $BASHPID >> {pids}; exec sleep 1003")
        time.sleep(number * 0.002)
        process.kill()
        process.wait()
    (last := host.start("exit 0")).wait()  # all that was begun before has come as far
    assert last.returncode == 0

    def none_is_left():
        return not any(alive(int(pid)) for pid in (pids.read_text().split() if pids.exists() else ()))

    until(none_is_left, "the end of all")


def test_round_trips_are_counted(host):
    assert host.calls == 0
    host.run("true")
    host.start("true").wait()
    assert host.calls == 2


def test_many_threads_may_use_it_at_once(host):
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = host.run(f"sleep 0.05; echo {number}", timeout=300).text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: f"{number}\n" for number in range(50)}
    assert host.calls == 50


def alive(pid: int) -> bool:
    """False for one that has ended, buried or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

"""How a job ends: its exit code, and why."""

from __future__ import annotations

import signal

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 1, 3, 137])
def test_exit_codes(bench, code):
    """nemotron exits with the job's own exit code: 0, 1, 3, and 137 that is no signal."""
    ended = bench.attached(f"raise SystemExit({code})")
    record = bench.show(bench.newest())
    assert ended.code == code, ended.err
    assert (record["exit_code"], record["state"]) == (code, "failed" if code else "succeeded")
    assert record["signal"] is None


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_death_by_a_signal(bench, number):
    """Death by a signal is told as one, with its name, and the exit code is 128 + its number."""
    ended = bench.attached(f"os.kill(os.getpid(), {int(number)})")
    record = bench.show(bench.newest())
    assert ended.code == 128 + number, ended.err
    assert (record["state"], record["signal"]) == ("failed", number)
    assert number.name in record["cause"]
    assert number.name in ended.err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("python {script} > /dev/null | (exit 4) | cat", 4),
        ("false | cat; python {script}", 1),
        ("(exit 3); python {script}", 3),
        ("false || python {script}", 0),
    ],
)
def test_failing_part_of_a_command_line(bench, line, code):
    """A failing command in a pipe or in a list fails the job."""
    bench.profile(run_command=line)
    ended = bench.attached("print('ran', flush=True)")
    assert (ended.code, ended.lines) == (code, [] if code else ["ran"]), ended.err


@pytest.mark.slow
def test_leftovers_of_a_job(bench):
    """What a job leaves running when it ends is ended too."""
    ended = bench.attached(
        """
        import subprocess
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        subprocess.Popen(["bash", "-c", "trap '' TERM HUP; sleep 600; sleep 600"])
        print("left two", flush=True)
        """
    )
    assert (ended.code, ended.lines) == (0, ["left two"])
    assert bench.leftovers(bench.newest()) == []

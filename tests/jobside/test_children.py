"""What a program that is started finds: its signals, its files, its group; and what is said where it cannot start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from job_scripts import lay_out, plan_for, run_script
from waiting import until

from nemo_runspec.jobside import processes

SEES = """
    import json, os, signal
    status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    handled = {n: str(signal.getsignal(n)) for n in (1, 10, 12, 13, 15)}
    print(json.dumps({
        "blocked": int(status["SigBlk"], 16),
        "ignored": int(status["SigIgn"], 16) & ~(1 << 12 | 1 << 24),
        "files": sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)),
        "leads": os.getpgrp() == os.getpid(),
    }))
"""


def seen(output: str) -> dict[str, object]:
    return json.loads(output)


def test_a_command_has_no_signal_blocked_or_ignored_and_no_file_of_ours(tmp_path: Path):
    """Python itself ignores PIPE and XFSZ."""
    code, output = run_script(plan_for(tmp_path, SEES), tmp_path)
    assert code == 0
    assert seen(output) == {"blocked": 0, "ignored": 0, "files": [0, 1, 2], "leads": True}


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_job_whose_own_input_or_output_is_closed(tmp_path: Path, closed: int):
    """The numbers of such files are free for the next that is opened; none of ours may take its place."""
    plan = plan_for(tmp_path, "open('seen', 'w').write('done')\nprint('x' * 10)")
    layout = lay_out(plan)
    script = f'exec "$@" {closed}{"<" if closed == 0 else ">"}&-'
    words = ["bash", "-c", script, "bash", "bash", layout.job_script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen").read_text() == "done"
    if closed != 1:
        assert done.stdout == "xxxxxxxxxx\n"


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("echo yes; exit 3", (3, "yes\n")),
        ("echo yes; sleep 60", (processes.LATE, "")),
        ("exec sleep 60 >&-", (124, "")),
    ],
)
def test_a_command_is_asked_with_an_end(script: str, answer: tuple[int, str]):
    assert processes.run(["bash", "-c", script], dict(os.environ), 1.0) == answer


def test_a_command_that_is_not_there_has_said_nothing():
    assert processes.run(["no-such-program"], {"PATH": "/usr/bin"}, 1.0) == (127, "")


def test_a_program_that_cannot_be_started_is_said_by_its_errno():
    with pytest.raises(FileNotFoundError):
        processes.start(["no-such-program"], {"PATH": "/usr/bin:/bin"})
    with pytest.raises(PermissionError):
        processes.start(["/etc/passwd"], {})


def test_files_get_the_numbers_that_were_asked_for_even_where_these_are_taken_here():
    one, two = os.pipe(), os.pipe()
    words = [sys.executable, "-c", f"import os; os.write({two[1]}, b'one'); os.write({one[1]}, b'two')"]
    child = processes.start(words, dict(os.environ), {one[1]: two[1], two[1]: one[1]})
    until(child.has_ended, "its end")
    assert child.exit_code == 0
    assert (os.read(one[0], 9), os.read(two[0], 9)) == (b"one", b"two")
    for end in (*one, *two):
        os.close(end)


def test_an_end_by_a_signal_is_told_from_an_exit_status():
    for words, code, number in ((["sh", "-c", "exit 143"], 143, None), (["sh", "-c", "kill $$"], 143, signal.SIGTERM)):
        child = processes.start(words, {"PATH": "/usr/bin:/bin"})
        until(child.has_ended, "its end")
        assert (child.exit_code, child.signal) == (code, number)

"""What breaks while a job is followed, or is done at the terminal: nothing is lost, repeated or orphaned."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import sys
import termios
import threading

import pytest
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster, Reader, ranks
from support import finish
from waiting import LONG, PATIENT_CLIENT, open_gate, until

pytestmark = needs_slurm

NUMBERED = """
    import os, sys, time
    for number in range(int(sys.argv[1])):
        print("line", number, flush=True)
        time.sleep(0.05)
    while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/go"):
        time.sleep(0.05)
    print("the end", flush=True)
"""
PATIENT = """
    import signal, time
    def stop(*_):
        print("got TERM", flush=True)
        raise SystemExit(9)
    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    while True:
        time.sleep(0.05)
"""
AT_ONCE = 50 if os.environ.get("REQUIRE_LAB") == "full" else 20
"""More than the ten sessions over one connection, and ten that have not logged in yet, that an sshd allows."""


def test_dropped_connections(cluster):
    """Connections cut while the log is followed, and an sshd that is away for a while: every line once, in order."""
    script = cluster.script(NUMBERED)
    process = cluster.started("run", script, "--run", "there", "--", "200")
    seen, told = Reader(process.stdout), Reader(process.stderr)
    for line in (10, 60, 110):
        seen.has(f"line {line}")
        cluster.lab.drop_ssh_connections()
    seen.has("line 150")
    before = asked_again(told)
    cluster.lab.stop_ssh()
    until(lambda: asked_again(told), "word of the sshd that is away", lambda times: times > before)
    cluster.lab.start_ssh()
    seen.has("line 199")
    ((_, name, state),) = cluster.queued()
    assert state == "RUNNING"
    open_gate(cluster.remote(name))
    expected = [*(f"line {number}" for number in range(200)), "the end"]
    assert (process.wait(300), seen.all()) == (0, expected)
    assert cluster.logs(name) == expected
    assert [line for line in told.all() if line.startswith("nemotron: connected again, after")] != [], told.lines


def asked_again(told: Reader) -> int:
    """How often a follower has said so far that nobody answers."""
    return sum("asking again" in line for line in told.lines)


def test_requeued(cluster):
    """A requeued job is followed into its next attempt; the log has the lines of both."""
    text = "import os; print('attempt', os.environ['NEMOTRON_ATTEMPT'], flush=True)\n"
    text += "import time\nif os.environ['NEMOTRON_ATTEMPT'] == '0': time.sleep(600)\n"
    process = cluster.started("run", cluster.script(text), "--run", "there")
    seen, told = Reader(process.stdout), Reader(process.stderr)
    seen.has("attempt 0")
    ((number, name, _),) = cluster.queued()
    cluster.lab.run("scontrol", "requeue", number)
    code = process.wait(300)
    assert (code, ranks(seen.all())[-1:]) == (0, ["attempt 1"]), (seen.lines, told.all())
    assert cluster.logs(name) == ["attempt 0", "attempt 1"]
    assert "attempt 2" in "\n".join(told.all())
    shown = cluster.show(name)
    assert (shown["facts"]["attempt"], shown["handle"]["slurm"]) == (1, "lab")


@pytest.mark.parametrize(("key", "code"), [(b"d\n", 130), (b"c\n", 9)], ids=["detach", "cancel"])
def test_interrupt_at_a_terminal(cluster, key, code):
    """Ctrl-C on a real terminal asks: detached, the job goes on; cancelled, it gets a TERM and is followed on."""
    with Terminal(cluster, "run", cluster.script(PATIENT), "--run", "there") as terminal:
        terminal.until("ready")
        terminal.press(b"\x03")
        terminal.until("detach (d), cancel (c)")
        terminal.press(key)
        assert terminal.process.wait(LONG) == code, terminal.shown
    ((_, name, seen),) = cluster.queued()
    if key == b"d\n":
        assert seen == "RUNNING"
        assert f"nemotron jobs logs -f {name}" in terminal.shown
        # Not the shorter time of its default: a second TERM comes where that is over.
        cluster.nemotron("jobs", "cancel", "--grace", "60", name).succeeds()
    assert cluster.logs(name) == ["ready", "got TERM"]
    assert cluster.show(name)["state"] == "cancelled"


def test_many_at_once(cluster, tmp_path):
    """Many submissions at the same time from one machine: one connection, and every job is there once."""
    (tmp_path / "patient").mkdir()
    (tmp_path / "patient" / "sitecustomize.py").write_text(PATIENT_CLIENT)
    cluster.project.extra["PYTHONPATH"] = str(tmp_path / "patient")
    cluster.nemotron("run", cluster.script("print('ran')"), "--batch", "there").succeeds()
    cluster.lab.drop_ssh_connections()
    before = cluster.lab.sshd.connections()
    processes = [cluster.started("run", f"./{cluster.word}.py", "--batch", "there") for _ in range(AT_ONCE)]
    done = [finish(process, 540) for process in processes]
    assert [(each.code, each.err) for each in done if each.code] == []
    names = {each.out.strip() for each in done}
    assert len(names) == AT_ONCE
    assert names < {name for _, name, _ in cluster.queued()}
    assert len(cluster.queued()) == AT_ONCE + 1
    assert cluster.lab.sshd.connections() - before == 1
    records = cluster.nemotron("jobs", "wait", *names, "--json").succeeds().json
    assert {(record["name"], record["state"]) for record in records} == {(name, "succeeded") for name in names}


class Terminal:
    """`nemotron ARGS` on a terminal that it controls."""

    def __init__(self, cluster: Cluster, *args: str) -> None:
        self._keyboard, inside = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nemotron", *args],
            cwd=cluster.project.folder,
            env=cluster.project.environment(TERM="xterm"),
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(inside, termios.TIOCSCTTY, 0),
        )
        os.close(inside)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        # Its last words are still on their way, and the number of what is closed under a reader is another file's soon.
        self._reading.join(LONG)
        os.close(self._keyboard)

    def _read(self) -> None:
        try:
            while data := os.read(self._keyboard, 4096):
                self.shown += data.decode(errors="replace")
        except OSError:
            return  # nobody has the terminal open any more

    def until(self, text: str) -> None:
        """Until the text is on it."""
        until(lambda: self.shown, repr(text), lambda shown: text in shown)

    def press(self, keys: bytes) -> None:
        """As a person would."""
        os.write(self._keyboard, keys)

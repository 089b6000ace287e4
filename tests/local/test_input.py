"""What an attached local job reads: the terminal's keys, a pipe, a file; as a person at a terminal sees it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from support import HEADER, Project
from terminals import Terminal
from waiting import LONG, until

NEMOTRON = (sys.executable, "-m", "nemotron")
RUN = shlex.join((*NEMOTRON, "-q", "run", "./train.py"))
READS = "print('read', repr(__import__('sys').stdin.read()))\n"
SHELL = ("bash", "--norc", "--noediting", "-i")


def environment(project: Project, *more_path: Path) -> dict[str, str]:
    path = [*map(str, more_path), str(Path(sys.executable).parent), os.environ["PATH"]]
    return project.environment(PATH=os.pathsep.join(path), TERM="xterm", COLUMNS="80", PS1="ready> ")


def at_terminal(project: Project, *words: str) -> Terminal:
    return Terminal(project.folder, words or (*NEMOTRON, "run", "./train.py"), environment(project))


def in_shell(project: Project, line: str, **more: str) -> str:
    """What a line says that bash runs without a terminal."""
    given = {**environment(project), **more}
    done = subprocess.run(
        ["bash", "-c", line], cwd=project.folder, env=given, capture_output=True, text=True, timeout=LONG
    )
    assert done.returncode == 0, done
    return done.stdout


def test_a_breakpoint(project: Project):
    project.write("train.py", "x = 41\nbreakpoint()\nprint('after', x)\n")
    with at_terminal(project) as terminal:
        terminal.shows("-> print('after', x)\n")
        terminal.shows("(Pdb) ")
        terminal.types("p x + 1\n")
        assert terminal.shows("42\n") == "p x + 1\n", "what is typed is seen once, and so is the prompt"
        terminal.shows("(Pdb) ")
        terminal.types("x = 7\nc\n")
        terminal.shows("after 7")
        assert terminal.ends() == 0
    log = next(project.state.glob("jobs/*/logs/job.log")).read_text()
    assert "(Pdb) 42\n" in log


def test_a_question_without_an_end_of_line(project: Project):
    project.write("train.py", "print('hello', input('first? '), input('second? '))\n")
    with at_terminal(project) as terminal:
        terminal.shows("first? ")
        terminal.types("one\n")
        terminal.shows("second? ")
        terminal.types("two\n")
        assert terminal.shows("hello one two\n") == "two\n"
        assert terminal.ends() == 0


def test_the_end_of_what_is_typed(project: Project):
    project.write("train.py", "print('ready')\n" + READS)
    with at_terminal(project) as terminal:
        terminal.shows("ready\n")
        terminal.types("one\ntwo\n\x04")
        terminal.shows(r"read 'one\ntwo\n'")
        assert terminal.ends() == 0


def test_ctrl_c_at_a_breakpoint_leaves_the_terminal_as_it_was(project: Project):
    project.write("train.py", "breakpoint()\nprint('after')\n")
    with at_terminal(project) as terminal:
        before = termios.tcgetattr(terminal.screen)
        terminal.shows("-> print('after')")
        assert termios.tcgetattr(terminal.screen) == before
        terminal.types("\x03")
        terminal.shows("Ctrl-C: the job was asked to stop")
        assert terminal.ends() == 130
        assert termios.tcgetattr(terminal.screen) == before


@pytest.mark.slow
def test_a_pipe_and_a_file(project: Project):
    project.write("train.py", READS)
    project.write("words", "from a file\n")
    assert in_shell(project, f"echo from a pipe | {RUN}") == "read 'from a pipe\\n'\n"
    assert in_shell(project, f"{RUN} < words") == "read 'from a file\\n'\n"
    assert in_shell(project, f"{RUN} < /dev/null; {RUN} <&-") == "read ''\nread ''\n"


@pytest.mark.slow
def test_a_shell_loop_keeps_its_list(project: Project):
    """As with `python train.py`: nothing is read that the script itself does not read."""
    project.write("train.py", "import sys; print('trains', sys.argv[1])\n")
    said = in_shell(project, f"printf '1\\n2\\n3\\n' | while read -r n; do {RUN} -- $n; done")
    assert said == "trains 1\ntrains 2\ntrains 3\n"


@pytest.mark.slow
def test_startup_commands_read_nothing_of_it(project: Project):
    project.write("env.toml", '[here]\nstartup_commands = ["cat; echo started"]\n')
    project.write("train.py", READS)
    assert in_shell(project, f"echo mine | {RUN} --run here") == "started\nread 'mine\\n'\n"


def test_a_detached_job_reads_nothing(project: Project):
    project.write("train.py", READS)
    name = in_shell(project, f"echo x | {RUN} --batch laptop").strip()
    log = project.state / "jobs" / name / "logs" / "job.log"
    until(lambda: log.exists() and log.read_text() == "read ''\n", "its log")


@pytest.mark.slow
def test_in_the_background_what_is_typed_is_the_shells(project: Project):
    """It is neither stopped for it (SIGTTIN) nor does it take it; in the foreground it is the job's."""
    project.write("train.py", "print('begun', flush=True)\nprint('job got', input(), flush=True)\n" * 2)
    with at_terminal(project, *SHELL) as terminal:
        terminal.types(f"{RUN} &\n")
        terminal.shows("begun\n")
        terminal.types("echo $((6 * 7)); jobs\n")
        terminal.shows("\n42\n")
        assert "Stopped" not in terminal.shows("Running")
        terminal.types("fg\n")
        terminal.shows("train.py\n")
        terminal.types("first\n")
        terminal.shows("job got first")
        terminal.shows("begun")
        terminal.types("\x1a")
        terminal.shows("Stopped")
        terminal.types("echo $((7 * 7))\nfg\n")
        terminal.shows("49\n")
        terminal.shows("train.py\n")
        terminal.types("second\n")
        terminal.shows("job got second")
        terminal.shows("ready> ")
        terminal.types("exit\n")
        assert terminal.ends() == 0


@pytest.mark.slow
def test_what_is_typed_ahead_is_the_shells(project: Project):
    """A job that reads nothing is given one line, and no more."""
    project.write(
        "train.py", "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(.1)\n"
    )
    with at_terminal(project, *SHELL) as terminal:
        terminal.types(f"{RUN}\n")
        terminal.shows("begun\n")
        terminal.types("taken\necho typed $((40 + 2))\n")
        project.write("go", "")
        terminal.shows("typed 42\n")
        terminal.types("exit\n")
        assert terminal.ends() == 0


@pytest.mark.slow
def test_a_pager_has_its_keys(project: Project):
    """One that reads the terminal itself has asked for single keys."""
    pager = project.write("pager.py", PAGER)
    project.write(
        "train.py", "import os, time\nprint('begun')\nwhile not os.path.exists('go'): time.sleep(.1)\n" + READS
    )
    with at_terminal(project, "bash", "-c", f"{RUN} | {sys.executable} {pager}") as terminal:
        terminal.shows("pager: begun")
        terminal.types("abc")
        terminal.shows("keys: b'abc'")
        terminal.shows("pager: waits")
        terminal.types("\x04")
        project.write("go", "")
        terminal.shows("pager: read ''")


PAGER = """\
import os, sys, termios, tty
screen = os.open("/dev/tty", os.O_RDWR)
before = termios.tcgetattr(screen)
tty.setcbreak(screen)
print("pager:", sys.stdin.readline(), end="", flush=True)
keys = b""
while len(keys) < 3: keys += os.read(screen, 9)
print("keys:", keys, flush=True)
termios.tcsetattr(screen, termios.TCSADRAIN, before)
print("pager: waits", flush=True)
print("pager:", sys.stdin.readline(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "read"), [(1, "'mine\\n'"), (2, "''")])
def test_only_one_process_reads(project: Project, torch_bin: Path, ranks: int, read: str):
    header = HEADER.replace('"direct"', '"torchrun"')
    project.write("env.toml", f"[here]\nnproc_per_node = {ranks}\n")
    project.write("train.py", header.replace("dependencies = []\n", "") + READS)
    said = in_shell(project, f"echo mine | {RUN} --run here", PATH=f"{torch_bin}:{os.environ['PATH']}")
    assert said.count(f"read {read}\n") == ranks

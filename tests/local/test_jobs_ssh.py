"""`jobs ssh` into a job of this machine."""

from __future__ import annotations

import os

import pytest
from support import Outcome, Project
from terminals import in_terminal
from waiting import until

SCRIPT = """
import os, time
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)
"""
LOOK = 'echo "$MADE, $PWD, $(tty > /dev/null && echo on a terminal)"; exit 6'


@pytest.fixture
def job(project: Project, nemotron_process) -> str:
    """One whose command line is run by a shell that was there before the startup commands."""
    project.write("job.py", SCRIPT)
    startup, line = '["export MADE=here TERM=dumb"]', "python {script} | cat"
    project.write("env.toml", f'[here]\nstartup_commands = {startup}\nrun_command = "{line}"\n')
    name = nemotron_process("run", "./job.py", "--batch", "here").succeeds().out.strip()
    until((project.folder / "ready").exists, "the job")
    return name


@pytest.mark.slow
def test_a_shell_has_what_the_command_has(project: Project, nemotron_process, job: str):
    def ssh(*words: str) -> Outcome:
        return nemotron_process("jobs", "ssh", job, *words)

    said = ssh("--node", "0", "--", "bash", "-c", LOOK)
    assert (said.code, said.out, said.err) == (6, f"here, {project.folder}, \n", "")
    on_terminal, code = in_terminal(project, "jobs", "ssh", "last", keys=f"{LOOK}\n", TERM="xterm")
    assert code == 6 and f"here, {project.folder}, on a terminal" in on_terminal
    ssh("--node", "3").refuses(f"job '{job}' has no node '3'", "it has one, on this machine: 0")
    assert ssh("--", "printenv", "TERM").out.strip() != "dumb" or os.environ.get("TERM") == "dumb"
    (project.folder / "go").touch()
    assert nemotron_process("jobs", "wait", job).code == 0
    ssh().refuses(f"job '{job}' is succeeded, and a shell needs a running job", f"nemotron jobs show {job}")

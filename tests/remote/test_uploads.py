"""What is sent to another machine tells in a terminal how far it is; and nowhere else."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster
from support import make_repository
from terminals import in_terminal

pytestmark = needs_slurm

HOLDS = """\
#!{python}
# ssh, whose network takes {most} bytes of a command's input and no more until there is a file `go`.
import os, subprocess, sys, time
words = [{ssh!r}, *sys.argv[1:]]
if "-O" in words or "-M" in words or "-G" in words:
    os.execv(words[0], words)
child, taken = subprocess.Popen(words, stdin=subprocess.PIPE), 0
while block := os.read(0, 65536):
    taken += len(block)
    while taken > {most} and not os.path.exists({go!r}):
        time.sleep(0.05)
    child.stdin.write(block)
child.stdin.close()
sys.exit(child.wait())
"""


@pytest.fixture
def package(cluster: Cluster) -> Path:
    """A repository of three megabytes that no compression makes smaller."""
    (cluster.project.folder / "noise").write_bytes(random.Random(3).randbytes(3_000_000))
    cluster.script("print('ran')")
    make_repository(cluster.project.folder)
    return cluster.project.folder


def test_code_over_ssh(cluster: Cluster, package: Path, tmp_path: Path) -> None:
    ssh, go = tmp_path / "bin" / "ssh", tmp_path / "go"
    (tmp_path / "bin" / "straight").write_text(ssh.read_text())
    (tmp_path / "bin" / "straight").chmod(0o755)
    straight = str(tmp_path / "bin" / "straight")
    ssh.write_text(HOLDS.format(python=sys.executable, ssh=straight, go=str(go), most=1_000_000))

    def look(said: str) -> None:
        if re.search(r"uploading code · 1\.[0-9] of 3\.0 MB", said):
            go.touch()

    words = ("run", f"./{cluster.word}.py", "--batch", "there", "run.env.packager=git")
    said, code = in_terminal(cluster.project, *words, look=look, TERM="xterm")
    assert (code, go.exists()) == (0, True), said
    assert "sending the code package to lab (3.0 MB)" in said
    lines = said.replace("\x1b[K", "").split("\r")
    assert [line for line in lines if "uploading" in line and len(line) > 80] == []


def test_elsewhere_than_in_a_terminal_it_is_one_line(cluster: Cluster, package: Path) -> None:
    done = cluster.nemotron("run", f"./{cluster.word}.py", "--batch", "there", "run.env.packager=git").succeeds()
    assert "sending the code package to lab (3.0 MB)" in done.err
    assert "uploading" not in done.err

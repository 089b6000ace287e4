"""Which systems it runs on: Linux, macOS as a client, Windows not; each says so instead of failing somewhere."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

TINY = ("nano3", "pretrain", "-c", "tiny")


@pytest.fixture
def macos(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")


def test_a_local_job_on_macos(project, nemotron, macos):
    project.write("train.py", "print(1)")
    for option in ((), ("--run", "laptop"), ("--batch", "laptop")):
        nemotron("-q", "run", "./train.py", *option).refuses("this machine's system is macOS", "--run PROFILE")
    assert nemotron("jobs", "list", "--json").succeeds().json == [], "nothing was recorded"


def test_a_client_on_macos(project, nemotron, macos):
    """What asks nobody, and what is only shown, is the same."""
    for words in (("list",), ("env", "list"), ("jobs", "list"), (*TINY, "--dry-run"), (*TINY, "--run", "lepton", "-d")):
        nemotron(*words).succeeds()


def test_windows(project):
    code = "import sys; sys.platform = 'win32'; from nemotron.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=project.environment(), capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: nemotron does not run on Windows\n  fix: use it in WSL, or on Linux or macOS\n"


def test_the_start_imports_nothing_that_windows_lacks():
    """As far as the message."""
    first = (Path(__file__).parents[1] / "src" / "nemotron" / "__main__.py").read_text(encoding="utf-8")
    head = first.split("def main")[0]
    assert not any(name in head for name in ("fcntl", "pwd", "grp", "resource", "termios", "from nemo"))

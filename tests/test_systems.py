"""Which systems it runs on: Linux, macOS as a client, Windows not; each says so instead of failing somewhere."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from macos import NOT_THERE, client_variables

SOURCE = Path(__file__).parents[1] / "src"
ELSEWHERE = ("jobside", "health", "pod")
"""Folders of what runs where a job runs: on Linux."""
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


def test_doctor_on_macos(project, nemotron, macos):
    said = nemotron("doctor", "laptop")
    assert said.code == 2
    assert "a local job runs on Linux, and this machine's system is macOS" in said.out


def names_used(file: Path) -> Iterator[tuple[str, str]]:
    """Each `module.name` of a file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", name.name) for name in node.names)


def test_the_client_uses_no_name_that_macos_lacks():
    clients = [file for file in SOURCE.rglob("*.py") if not set(ELSEWHERE) & set(file.parts)]
    lacking = {(module, name) for module, names in NOT_THERE.items() for name in names.split()}
    assert {(str(file), *used) for file in clients for used in names_used(file) if used in lacking} == set()
    assert any(used in lacking for file in SOURCE.rglob("jobside/*.py") for used in names_used(file)), "they are found"


def test_a_process_is_known_again_on_macos(tmp_path: Path):
    """By the boot, as a laptop's name changes, and by when it started, whatever the language and the time zone."""
    ask = "import os; from nemo_runspec import processes; print(processes.machine(), processes.started(os.getppid()))"
    given = {**os.environ, **client_variables(tmp_path)}

    def told(**more: str) -> str:
        done = subprocess.run([sys.executable, "-c", ask], env={**given, **more}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    there = told()
    assert there.startswith("6F0A7B0B-")
    assert not there.strip().endswith("None")
    assert told(TZ="Asia/Tokyo", LC_ALL="de_DE.UTF-8") == there


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

"""The job side is Python 3.6: held to it by vermin, and run by the oldest python3 that is to be had here."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
import vermin
from job_scripts import plan_for, run_script

from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import read_markers

SOURCES = Path(str(files("nemo_runspec"))) / "jobside"
MODULES = [
    *sorted(SOURCES.rglob("*.py")),
    *sorted(SOURCES.parent.glob("backends/*/node.py")),
    *sorted(SOURCES.parent.glob("backends/*/jobside/*.py")),
    *sorted(SOURCES.parent.glob("artifacts/checks/*.py")),
]
"""All that runs where a job runs, a platform's own modules too."""
FOLDERS = ("/usr/bin", "/usr/libexec", "/usr/local/bin", "/opt/*/bin", "~/.pyenv/versions/*/bin", "~/.local/bin",
           "~/.local/share/uv/python/*/bin")  # fmt: skip
"""Where interpreters lie, besides the `PATH`."""


@cache
def pythons() -> tuple[tuple[tuple[int, int], str], ...]:
    """Version and path of every python3 from 3.6 on that is to be had, the oldest first."""
    home = pwd.getpwuid(os.getuid()).pw_dir  # HOME is an empty folder in tests
    patterns = [*os.get_exec_path(), *(folder.replace("~", home) for folder in FOLDERS)]
    folders = [path for pattern in patterns for path in Path("/").glob(pattern.lstrip("/"))]
    names = re.compile(r"python3(\.\d+)?|platform-python")
    found = {path.resolve() for folder in folders for path in folder.glob("p*") if names.fullmatch(path.name)}
    versions = {version_of(path): str(path) for path in sorted({*found, Path(sys.executable)})}
    return tuple(sorted((version, path) for version, path in versions.items() if version >= (3, 6)))


def version_of(python: Path) -> tuple[int, int]:
    """Its version; (0, 0) of what does not run."""
    try:
        asked = [python, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2])"]
        major, minor = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError, ValueError):
        return (0, 0)
    return int(major), int(minor)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_every_module_needs_no_more_than_python_3_6(path: Path):
    config = vermin.Config()
    config.set_eval_annotations(False)
    visitor = vermin.visit(path.read_text(encoding="utf-8"), config)
    least = visitor.minimum_versions()[1]
    assert least is None or least <= (3, 6), visitor.output_text()


def test_what_is_newer_is_seen():
    assert vermin.detect("x = {**{}}\nprint(f'{x=}')")[1] > (3, 6)


SCRIPT = """
    import json, os, signal, sys
    print("seen", os.environ["NEMOTRON_JOB_NAME"], os.environ["ODD"], end="")
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
    os.kill(int(os.environ["NEMOTRON_SUPERVISOR"]), signal.SIGUSR1)
    signal.pause()
"""


@pytest.mark.parametrize("at", ["oldest", "newest"])
@pytest.mark.parametrize("language", ["C", "C.UTF-8"])
def test_a_whole_job_with_it(tmp_path: Path, at: str, language: str):
    """Its variables, a signal, exit code, output and record; with text that this Python may take for bytes."""
    version, python = pythons()[0 if at == "oldest" else -1]
    plan = plan_for(tmp_path / "\u00fc", SCRIPT, env={"ODD": "a \u00fc"}, setup=("echo setup",))
    code, output = run_script(plan, tmp_path, NEMOTRON_PYTHON=python, LC_ALL=language)
    assert (code, output) == (7, f"setup\nseen {plan.name} a \u00fc\n"), version
    (record,) = read_markers(Path(JobLayout(plan.job_dir).status))
    assert (record.exit_code, record.received, record.lines) == (7, "USR1", 1)

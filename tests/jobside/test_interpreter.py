"""Which Python a job's supervisor runs by, and how often one is started to find that out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from job_scripts import plan_for, run_script

from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import read_markers

NOTED = '#!/bin/sh\necho started >> "$STARTS"\nexec "$REAL" "$@"\n'
TOO_OLD = '#!/bin/sh\necho started >> "$STARTS"\nexit 1\n'


def program(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def found(tmp_path: Path):
    """Runs a job that finds this folder's programs first, by their names alone; exit code, starts, lines counted."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def run(**extra: str) -> tuple[int, int, int | None]:
        starts = tmp_path / "starts"
        plan = plan_for(tmp_path, cmd="echo runs")
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        code, output = run_script(plan, tmp_path, PATH=path, STARTS=str(starts), REAL=sys.executable, **extra)
        assert output == "runs\n"
        (record,) = read_markers(Path(JobLayout(plan.job_dir).status))
        return code, len(starts.read_text().split()), record.lines

    return folder, run


def test_one_whose_name_says_its_version_is_started_once(found):
    folder, run = found
    program(folder / "python3.6", NOTED)
    (folder / "python3").symlink_to("python3.6")
    assert run() == (0, 1, 1)


def test_so_is_one_that_is_named_with_its_path(found, tmp_path: Path):
    _, run = found
    other = tmp_path / "other"
    other.mkdir()
    python = program(other / "python3.12", NOTED)
    assert run(NEMOTRON_PYTHON=str(python)) == (0, 1, 1)


def test_any_other_is_asked_first(found):
    folder, run = found
    program(folder / "python3", NOTED)
    assert run() == (0, 2, 1)


@pytest.mark.parametrize("name", ["python3.5", "python3.4"])
def test_one_that_is_too_old_or_does_not_run_is_passed_over(found, name: str):
    folder, run = found
    program(folder / name, TOO_OLD)
    (folder / "python3").symlink_to(name)
    program(folder / "python", NOTED)
    (folder / "python3.11").symlink_to("python")
    assert run() == (0, 2, 1)


def test_a_shim_which_has_every_name_is_asked(found):
    folder, run = found
    program(folder / "shim", TOO_OLD)
    for name in ("python3", "python3.12", "pip3"):
        (folder / name).symlink_to("shim")
    program(folder / "python", NOTED)
    (folder / "python3.11").symlink_to("python")
    assert run() == (0, 2, 1)

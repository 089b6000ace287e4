"""What the doctor makes of a login node's answer: programs, clock, quota, each by a stand-in first in `PATH`."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from nemo_runspec.backends.slurm.cluster import Answer
from nemo_runspec.backends.slurm.preflight import NEEDED, LoginRequest, checks, login
from nemo_runspec.backends.slurm.preflight.checks import ask
from nemo_runspec.check import Check, CheckRequest
from nemo_runspec.transport.local import LocalHost
from nemo_runspec.transport.registry import image_of

QUESTION = CheckRequest("c", {})
QUOTA = """\
Disk quotas for user me (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
home:/export/me {used}  50000000 55000000   6days  120000       0       0
"""
"""As `quota -w` of quota-tools 4.06 prints it (its manual page: a star marks what is over a limit)."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`here("gzip", quota="…")`: what a login node says whose `PATH` has no gzip, no Slurm, and this quota."""

    def look(*missing: str, folder: str = "/tmp", mounts: tuple[str, ...] = (), **scripts: str) -> Answer:
        programs = tmp_path / "bin"
        programs.mkdir()
        for name in {*NEEDED, "date", "mktemp", "df", "cat", "touch"} - {*missing, *scripts}:
            (programs / name).symlink_to(shutil.which(name) or "/none")
        for name, text in scripts.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(programs))
        return ask(LocalHost(), LoginRequest(folder, (), mounts))

    return look


def seen(answer: Answer, name: str, of=login.checks) -> Check:
    return next(check for check in of(QUESTION, LoginRequest("/tmp", ()), answer) if check.name == name)


def test_a_program_that_lacks(here):
    answer = here("gzip")
    assert seen(answer, "programs there").seen == "not on PATH there: gzip"
    assert seen(answer, "Slurm").verdict == "failed"


@pytest.mark.parametrize(("shift", "word"), [(3600, "ahead of"), (-3600, "behind")])
def test_a_clock_that_is_off(here, shift: int, word: str):
    clock = seen(here(date=f'exec {shutil.which("date")} --date="{shift} seconds" "$@"'), "clock")
    assert clock.verdict == "warning"
    assert word in clock.seen
    assert 3400 < int(clock.seen.split()[0]) <= 3600


def test_a_clock_that_is_right(here):
    assert seen(here(), "clock").verdict == "ok"


@pytest.mark.parametrize(("used", "verdict"), [("40000000", "ok"), ("51000000*", "failed")])
def test_a_quota(here, used: str, verdict: str):
    check = seen(here(quota=f"cat <<'E'\n{QUOTA.format(used=used)}\nE"), "quota", login.place_checks)
    assert check.verdict == verdict
    assert ("home:/export/me 51000000*" in check.seen) == (verdict == "failed")


def test_a_directory_below_a_file(here, tmp_path: Path):
    (tmp_path / "file").write_text("")
    answer = here(folder=f"{tmp_path}/file/run")
    assert seen(answer, "remote_job_dir", login.place_checks).verdict == "failed"


def test_mounts_are_read_as_the_batch_script_reads_them(here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATA", str(tmp_path))
    (tmp_path / "a b").mkdir()
    sources = ("$DATA/a b", "$NO_SUCH/x", f"{tmp_path}/none", f"{tmp_path}/$(touch {tmp_path}/run)")
    answer = here(mounts=sources)
    checks = {
        c.verdict: c
        for c in login.place_checks(QUESTION, LoginRequest("/tmp", (), sources), answer)
        if c.name == "mounts"
    }
    assert checks["failed"].seen == f"not there: {sources[2]}, {sources[3]}"
    assert checks["warning"].seen == "not known: $NO_SUCH/x"
    assert not (tmp_path / "run").exists()


def test_nothing_is_left_behind(here, tmp_path: Path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    before = time.time()
    answer = here(folder=str(folder))
    assert seen(answer, "remote_job_dir", login.place_checks).seen.startswith(f"{folder} is writable")
    assert list(folder.iterdir()) == []
    assert before <= answer.ended


@pytest.mark.parametrize(
    ("programs", "env", "verdict", "word"),
    [
        ({}, {}, "warning", "no python on the login node's PATH; jobs need one on compute nodes"),
        ({"python": ""}, {}, "ok", "/python on the login node's PATH"),
        ({}, {"startup_commands": ["true"]}, "skipped", "only a job can tell"),
    ],
)
def test_python_without_a_job(here, programs: dict[str, str], env: dict, verdict: str, word: str):
    asked = LoginRequest("/tmp", ())
    (check,) = checks.python_hint(CheckRequest("c", env), asked, here(**programs))
    assert check.verdict == verdict
    assert word in check.seen
    assert ("startup_commands = [" in check.remedy) == (verdict == "warning")
    assert list(checks.python_hint(QUESTION, LoginRequest("/tmp", (), image=image_of("ubuntu")), Answer({}))) == []


def test_slurm_that_does_not_answer(here):
    answer = here(sbatch="sleep 60", squeue="", scancel="", sinfo="", scontrol="", timeout="exit 124")
    assert seen(answer, "controller").seen == "Slurm's programs do not answer in time"
    assert seen(answer, "remote_job_dir", login.place_checks).verdict == "failed"

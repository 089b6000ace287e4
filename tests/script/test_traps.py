"""No stop is lost to how bash reads a substitution, in any of our shells that heed signals."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from job_scripts import plan_for

from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.render import render_job_script

SOURCES = Path(str(files("nemo_runspec")))
SHELLS = ("jobside/*.sh", "backends/*/jobside/*.sh")
"""What becomes part of a shell that heeds signals; what heeds them by itself says so."""

HEEDS = re.compile(r"^\s*trap .*\bTERM\b", re.MULTILINE)
SUBSTITUTION = re.compile(r"\$\((?!\()|(?<![<>])[<>]\(")
ONCE = ("exec 8> >(nemotron_pass)", "exec > >(trap '' TERM INT HUP && exec tee")
"""Pipes that nothing else in bash makes: once each in a shell's life, where they are made while a stop may come."""


def found(text: str) -> list[str]:
    lines = (line.split(" # ")[0].strip() for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [line for line in lines if SUBSTITUTION.search(line) and not line.startswith(ONCE)]


def heeding() -> list[Path]:
    named = {path for pattern in SHELLS for path in SOURCES.glob(pattern)}
    return sorted(named | {path for path in SOURCES.rglob("*.sh") if HEEDS.search(path.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("path", heeding(), ids=lambda path: str(path.relative_to(SOURCES)))
def test_shells_that_heed_signals_have_no_substitution_that_bash_parses(path):
    """bash reads `$(...)` anew each time it comes there, and loses a signal that is pending then (seen with 5.2)."""
    assert found(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("launch", ["direct", "torchrun", "ray"])
def test_neither_has_what_is_put_between_them(tmp_path, launch):
    plan = plan_for(tmp_path, executor="slurm", launch=launch, nodes=2)
    assert found(render_job_script(plan, JobLayout("/nemo_run"))) == []


def test_such_a_substitution_is_seen():
    assert found("x=$(date)\ny=$((1 + 2))\n# $(no)\n") == ["x=$(date)"]
    assert found("read -r x < <(date)") and not found('[ 1 -lt $((2 * (3 + 4))) ] && cat <<< "`date`"')
    assert {path.name for path in heeding()} >= {"fallback.sh", "slurm_fallback.sh", "boot.sh", "squash.sh", "stage.sh"}

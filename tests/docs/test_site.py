"""The site of docs/, the addresses that are told, and the files that a repository is expected to have."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from nemo_runspec.uv_process import find_uv, uv_environment
from nemotron import DOCUMENTATION, __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as strictly as it can be: no page without a place, no link that leads nowhere."""
    folder = tmp_path_factory.mktemp("site")
    tool = [find_uv(), "run", "--quiet", "--frozen", "--isolated", "--only-group", "docs", "mkdocs"]
    done = subprocess.run(
        [*tool, "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**uv_environment(os.environ), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_on_the_site(site):
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / page.stem / "index.html").is_file(), page.name
    for name in ("index.html", "changelog/index.html", "contributing/index.html", "security/index.html"):
        assert (site / name).is_file()
    assert "sbatch" in (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert not list(site.rglob("*.py"))


def test_the_address_stands_in_the_help_and_is_one(nemotron):
    assert DOCUMENTATION in "".join(re.sub("[│\\s]", "", nemotron("--help").succeeds().out))
    assert f"site_url: {DOCUMENTATION}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'Documentation = "{DOCUMENTATION}"' in project
    assert f'version = "{__version__}"' in project


def test_the_changes_name_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", text, re.MULTILINE)[:2] == ["Unreleased", __version__]


def test_the_hooks_run_what_ci_runs():
    """By the tools of the lock file: each hook's program is one that .ci/run has."""
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    entries = re.findall(r"entry: uv run --frozen --group dev (\w+)", hooks)
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert entries == ["ruff", "ruff", "mypy"]
    assert all(f"uv run --frozen --group dev {name}" in ci for name in entries)

"""What REQUIRE_LAB and the lab mark do, tried on a small suite of its own with the project's conftest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUITE = """\
import pytest

@pytest.mark.lab("cluster", how="start it with ./lab up")
def test_in_the_lab():
    pass

def test_anywhere():
    pass
"""
SKIPPING = """\
import pytest

def test_that_gives_up():
    pytest.skip("no tool")
"""
SKIPPING_FILE = "import pytest\npytest.skip('no tool', allow_module_level=True)\n"


def run_suite(folder: Path, text: str, *, required: bool) -> subprocess.CompletedProcess[str]:
    for name in ("conftest.py", "support.py"):
        (folder / name).write_text((HERE / name).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = lab: needs a lab\n", encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k != "REQUIRE_LAB" and not k.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(folder)],
        cwd=folder,
        env={**environment, **({"REQUIRE_LAB": "1"} if required else {})},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_lab_suite_is_left_out_with_a_word(tmp_path):
    done = run_suite(tmp_path, SUITE, required=False)
    assert done.returncode == 0
    assert "1 passed, 1 skipped" in done.stdout
    assert "cluster: start it with ./lab up  [1 tests]" in done.stdout


def test_required_lab_suites_run(tmp_path):
    done = run_suite(tmp_path, SUITE, required=True)
    assert done.returncode == 0
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("text", [SKIPPING, SKIPPING_FILE], ids=["test", "file"])
def test_a_skip_fails_where_the_lab_is_required(tmp_path, text):
    assert run_suite(tmp_path, text, required=False).returncode in (0, 5)
    done = run_suite(tmp_path, text, required=True)
    assert done.returncode in (1, 2)
    assert "REQUIRE_LAB=1 allows no skipped" in done.stdout
    assert "no tool" in done.stdout

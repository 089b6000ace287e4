"""What REQUIRE_LAB, the marks and the fixtures of all tests do, tried on small suites with the project's conftest."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import support
from durations import KNOWN
from together import TOGETHER, group_of

HERE = Path(__file__).parent
SUITE = """\
import pytest

@pytest.mark.lab("cluster", how="start it with ./lab up")
def test_in_the_lab():
    pass

@pytest.mark.slow
def test_that_takes_long():
    pass

def test_anywhere():
    pass
"""
LARGE = """\
import pytest

@pytest.mark.full
def test_of_a_large_library():
    pass
"""
SKIPPING = """\
import pytest

def test_that_gives_up():
    pytest.skip("no tool")
"""
SKIPPING_FILE = "import pytest\npytest.skip('no tool', allow_module_level=True)\n"


def run_suite(
    folder: Path,
    *,
    required: bool | str,
    words: tuple[str, ...] = ("-p", "no:xdist"),
    environment: dict[str, str] | None = None,
    **files: str,
) -> subprocess.CompletedProcess[str]:
    """Runs files of tests: `name="text"` is `name.py`.

    Args:
        required: the tier, True for "1". `environment`: what whoever starts them has set.
    """
    for name in (
        "conftest.py",
        "support.py",
        "warm.py",
        "durations.py",
        "together.py",
        "labs/__init__.py",
        "labs/cache.py",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text((HERE / name).read_text(encoding="utf-8"), encoding="utf-8")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    lab: needs a lab\n    slow: long\n    full: large\n", encoding="utf-8"
    )
    kept = {k: v for k, v in os.environ.items() if k != "REQUIRE_LAB" and not k.startswith("PYTEST_")}
    tier = {"REQUIRE_LAB": required if isinstance(required, str) else "1"} if required else {}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, str(folder)],
        cwd=folder,
        env={**kept, **tier, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_what_is_left_out_is_said(tmp_path):
    done = run_suite(tmp_path, test_it=SUITE, required=False)
    assert done.returncode == 0
    assert "1 passed, 2 skipped" in done.stdout
    assert "cluster: start it with ./lab up  [1 tests]" in done.stdout
    assert "slow: tests that take long; REQUIRE_LAB=1 uv run --group dev pytest  [1 tests]" in done.stdout


@pytest.mark.slow
def test_all_that_is_required_runs(tmp_path):
    done = run_suite(tmp_path, test_it=SUITE, required=True)
    assert done.returncode == 0
    assert "3 passed" in done.stdout
    assert "left out" not in done.stdout


@pytest.mark.slow
def test_the_full_tier_is_one_more(tmp_path):
    done = run_suite(tmp_path, test_it=SUITE, test_large=LARGE, required=True)
    assert done.returncode == 0, done.stdout
    assert "3 passed, 1 skipped" in done.stdout
    assert "REQUIRE_LAB=full uv run --group dev pytest  [1 tests]" in done.stdout
    done = run_suite(tmp_path, test_it=SUITE, test_large=LARGE, required="full")
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
    assert "left out" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("file", [{"test_it": SKIPPING}, {"test_it": SKIPPING_FILE}], ids=["test", "file"])
def test_a_skip_fails_where_the_lab_is_required(tmp_path, file):
    assert run_suite(tmp_path, **file, required=False).returncode in (0, 5)
    done = run_suite(tmp_path, **file, required=True)
    assert done.returncode in (1, 2)
    assert "REQUIRE_LAB=1 allows no skipped" in done.stdout
    assert "no tool" in done.stdout


ALONE = """\
import os
from pathlib import Path

def test_nothing_of_the_users_is_seen():
    assert not (Path.home() / ".nemotron").exists()
    found = {"PYTHONPATH", "NEMOTRON_HOME", "NEMOTRON_RECIPES", "WANDB_API_KEY", "HF_TOKEN"} & set(os.environ)
    assert found == set()
"""


@pytest.mark.slow
def test_the_environment_of_tests_is_nobodys(tmp_path):
    """The user has run sweeps, is logged in everywhere, and has a PYTHONPATH."""
    home, suite = tmp_path / "home", tmp_path / "suite"
    suite.mkdir()
    for kind in ("jobs", "sweeps"):
        (home / ".nemotron" / kind / "mine-1121-aaaaaaaa").mkdir(parents=True)
    users = {"HOME": str(home), "PYTHONPATH": str(home), "NEMOTRON_HOME": str(home), "NEMOTRON_RECIPES": str(home)}
    secrets = {"WANDB_API_KEY": "k" * 40, "HF_TOKEN": "hf_" + "t" * 30}
    before = support.snapshot(home)
    done = run_suite(suite, test_it=ALONE, required=False, environment={**users, **secrets})
    assert done.returncode == 0, done.stdout
    assert support.snapshot(home) == before


@pytest.mark.slow
def test_the_longest_files_are_begun_first(tmp_path):
    test = "def test_it():\n    pass\n"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "durations.json").write_text(json.dumps({"test_c.py": 90, "test_b.py": 300}))
    words = ("-n", "1", "--dist", "loadfile", "--no-loadscope-reorder", "--verbose", "--verbose")
    done = run_suite(tmp_path, words=words, required=False, test_a=test * 2, test_b=test, test_c=test)
    assert re.findall(r"PASSED (test_\w)", done.stdout) == ["test_b", "test_c", "test_a"], done.stdout


@pytest.mark.slow
def test_files_that_belong_together_are_one_process_s(tmp_path):
    first, _, _, last = TOGETHER["a Ray cluster"]
    (folder := tmp_path / "tests" / "recipes").mkdir(parents=True)
    for name in (first, last):
        (folder / name).write_text(
            "import os, pathlib\ndef test_it():\n    pathlib.Path(__file__ + '.by').write_text(str(os.getpid()))\n"
        )
    done = run_suite(tmp_path, words=("-n", "2", "--dist", "loadfile"), required=False)
    assert done.returncode == 0, done.stdout
    assert len({file.read_text() for file in folder.glob("*.by")}) == 1
    assert len(list(folder.glob("*.by"))) == 2


@pytest.mark.parametrize(
    ("node", "group"),
    [
        ("tests/docker/test_docker_left.py::test_it", "a Docker engine"),
        ("tests/behaviour/test_ending.py::test_exit_codes[docker-0]", "a Docker engine"),
        ("tests/behaviour/test_ending.py::test_exit_codes[slurm-0]", "tests/behaviour/test_ending.py"),
        ("tests/remote/test_first_command_here.py::test_it[08_docker-docker]", "a Docker engine"),
        ("tests/recipes/test_rl_tiny.py::test_it", "a Ray cluster"),
    ],
)
def test_what_needs_an_engine_of_docker_shares_one(node, group):
    assert group_of(node) == group


def test_files_that_belong_together_are_files_that_there_are():
    assert [name for names in TOGETHER.values() for name in names if not (HERE / "recipes" / name).is_file()] == []


def test_the_durations_that_are_known_are_of_files_that_there_are():
    assert [name for name in json.loads(KNOWN.read_text("utf-8")) if not (HERE.parent / name).is_file()] == []


def test_the_long_tests_that_are_left_out_are_tests_that_there_are():
    """`slow.json` holds functions, which are easily renamed."""
    left_out = json.loads(KNOWN.with_name("slow.json").read_text("utf-8"))
    assert left_out == sorted(set(left_out))
    for name in left_out:
        file, *_, function = name.split("::")
        assert f"def {function}(" in (HERE.parent / file).read_text("utf-8"), name


def test_a_long_test_is_left_out_by_its_name(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "slow.json").write_text(json.dumps(["test_it.py::test_anywhere"]))
    done = run_suite(tmp_path, test_it=SUITE, required=False)
    assert "3 skipped" in done.stdout
    assert "REQUIRE_LAB=1 uv run --group dev pytest  [2 tests]" in done.stdout

"""What a user installs works: the resolved dependencies import, and the wheel works from anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_runspec.uv_process import find_uv, uv_environment

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_nemo_run_imports_from_the_resolved_install(tmp_path):
    """NeMo-Run 0.11.1 cannot be imported with leptonai 0.47; the project's own bounds must keep it importable."""
    code = "import importlib.metadata as m, nemo_run; print(m.version('nemo_run'), m.version('leptonai'))"
    environment = {**os.environ, "NEMORUN_HOME": str(tmp_path), "NO_VCS_VERSION": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "0.11.1"


def test_the_cli_needs_no_torch_and_no_transformers():
    code = "import importlib.util as u; print([n for n in ('torch', 'transformers') if u.find_spec(n)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def packages_of(*words: str) -> set[str]:
    """What `uv run WORDS` installs from a clone, by the lock file."""
    command = [find_uv(), "export", "--quiet", "--frozen", "--no-hashes", "--no-annotate", "--no-header", *words]
    done = subprocess.run(command, cwd=ROOT, env=uv_environment(os.environ), capture_output=True, text=True, check=True)
    return {line.partition("==")[0] for line in done.stdout.splitlines() if "==" in line}


def test_running_from_a_clone_brings_no_developers_tools():
    """And the README's command for the tests brings them."""
    tools = {"pytest", "pytest-xdist", "hypothesis", "mypy", "ruff", "optuna", "scipy"}
    assert (packages_of() & tools, "nemo-run" in packages_of()) == (set(), True)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [group] = re.findall(r"^    pip install uv && uv run (--group \w+) pytest$", readme, re.MULTILINE)
    assert tools - {"scipy"} <= packages_of(*group.split())


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The `bin` folder of a fresh environment with the wheel in it and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    uv, environment = find_uv(), uv_environment(os.environ)
    words = [uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)]
    subprocess.run(words, env=environment, check=True)
    subprocess.run(
        [uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")], env=environment, check=True
    )
    wheel = next(folder.glob("*.whl"))
    python = str(folder / "venv" / "bin" / "python")
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, str(wheel)], env=environment, check=True)
    return folder / "venv" / "bin"


@pytest.mark.slow
def test_the_wheel_works_from_any_directory(installed, tmp_path):
    environment = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    command = [str(installed / "nemotron"), "list", "--json"]
    listed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    recipes = {recipe["path"]: recipe for recipe in json.loads(listed.stdout)}
    assert {"nano3/pretrain", "nano3/data/prep/pretrain"} <= set(recipes)
    assert str(ROOT) not in listed.stdout
    assert not any("error" in recipe for recipe in recipes.values())
    (tmp_path / "env.toml").write_text('[c]\nexecutor = "slurm"\npartition = "batch"\nremote_job_dir = "/lustre/run"\n')
    words = ["nano3", "pretrain", "-c", "tiny", "--run", "c", "--dry-run", "--json"]
    command = [str(installed / "nemotron"), *words]
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "#SBATCH --partition=batch" in shown.stdout


@pytest.mark.slow
def test_the_wheel_runs_a_job(installed, tmp_path):
    (tmp_path / "train.py").write_text("print('trained')\nraise SystemExit(7)\n")
    environment = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    command = [str(installed / "nemotron"), "run", "./train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert "trained" in done.stdout


@pytest.mark.slow
def test_the_wheel_writes_env_files_by_its_own_python(installed, tmp_path):
    """A step that imports nemotron itself, and a template of one's own over one of the wheel's."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "ours.yaml").write_text(
        "defaults: [slurm, _self_]\noutput: env.ours.toml\nsections: {slurm_base: {account: a}}\n"
    )
    (tmp_path / "below").mkdir()
    environment = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    command = [str(installed / "nemotron"), "-q", "steps", "run", "env/env_toml", "-c", "../ours.yaml"]
    subprocess.run(command, cwd=tmp_path / "below", env=environment, capture_output=True, text=True, check=True)
    text = (tmp_path / "env.ours.toml").read_text()
    assert "# Who pays" in text
    assert 'account = "a"' in text

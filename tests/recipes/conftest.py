"""What the recipe tests share: the recipes' own Python environment, their prepared data, and Megatron's wheels."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from labs.cache import CACHE
from labs.recipe_packages import recipe_packages

from .warm_python import WarmPython

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NANO3 = Path(__file__).resolve().parents[2] / "recipes" / "nano3"
SHARED = NANO3 / "_shared"
DATA_PREP = NANO3 / "data" / "prep" / "pretrain" / "data_prep.py"
DATA_PREPS = sorted((NANO3 / "data" / "prep").glob("*/data_prep.py"))
TRAIN = NANO3 / "pretrain" / "train.py"
SFT = NANO3 / "sft" / "train.py"
EVAL = NANO3 / "eval" / "eval.py"
RL = NANO3 / "rl" / "rl.py"
MEGATRON = ("megatron-bridge==0.3.1", "megatron-core==0.16.1")
RAY_MARK = "NEMOTRON_TESTS_OWN_RAY"
"""A variable of all processes of a test process's cluster, which holds its number."""
BLOCK = re.compile(r"^# /// script\n(?P<content>(?:#(?: .*)?\n)+?)# ///$", re.MULTILINE)

sys.path.insert(0, str(SHARED))


def header(script: Path) -> dict[str, Any]:
    """The PEP 723 block of a script."""
    found = BLOCK.search(script.read_text(encoding="utf-8"))
    assert found, f"{script} has no script block"
    return tomllib.loads("".join(line[2:] if line.startswith("# ") else "\n" for line in _lines(found["content"])))


def recipe_config(script: Path, name: str, **changes: Any) -> dict[str, Any]:
    """A recipe's configuration as the CLI would hand it over: without `run`, `${…}` replaced through `changes`."""
    text = (script.parent / "config" / f"{name}.yaml").read_text(encoding="utf-8")
    for hole, value in changes.items():
        text = text.replace("${run." + hole.replace("__", ".") + "}", str(value))
    config = yaml.safe_load(text)
    del config["run"]
    return config


def pytest_itemcollected(item: pytest.Item) -> None:
    """What trains, or needs what that is made of, is slow, whichever test of a file happens to be the first."""
    if {"recipe_python", "forked", "megatron"} & set(item.fixturenames):  # type: ignore[attr-defined]
        item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def recipe_python() -> Path:
    """A Python that has what nano3's trainings and their data preparation declare; what two name is of one version."""
    declared = sorted({each for script in (TRAIN, SFT, *DATA_PREPS) for each in header(script)["dependencies"]})
    assert len({each.partition("==")[0] for each in declared}) == len(declared)
    return _environment("env", declared, _create_environment) / "bin" / "python"


@pytest.fixture(scope="package")
def ray_cluster(recipe_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables by which a Ray cluster of two CPUs is found: one for the files of tests that run one after another.

    No longer: though idle, its processes look around them all the time. All that use it have one cache of the hub,
    whose place is read as `huggingface_hub` is imported.
    """
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.urandom(32).hex()}
    shared = {"HF_HOME": str(tmp_path_factory.mktemp("hub")), **token}
    code = (
        "import ray, sys\n"
        "known = ray.init(num_cpus=2, include_dashboard=False, logging_level='ERROR')\n"
        "print(known.address_info['gcs_address'], flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [str(recipe_python), "-c", code],
        env=recipe_environment(RAY_USAGE_STATS_ENABLED="0", **{RAY_MARK: str(os.getpid())}, **shared),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield {"RAY_ADDRESS": process.stdout.readline().strip(), **shared}
        process.communicate()


@pytest.fixture(scope="package")
def prepare(
    recipe_python: Path, ray_cluster: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Any]]:
    """Run data preparation (for pretraining, or another script) on a configuration, on the tests' cluster.

    All in one process, which is connected to it.
    """
    driver = WarmPython(recipe_python, SHARED, recipe_environment(**ray_cluster))

    def run(config: dict[str, Any], script: Path = DATA_PREP) -> Any:
        folder = tmp_path_factory.mktemp("prepared")
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        words = ["--config", str(folder / "config.yaml")]
        return driver.run(script, words, recipe_environment(**ray_cluster), folder)

    yield run
    driver.close()


@pytest.fixture(scope="session")
def megatron() -> Path:
    """The published wheels of Megatron-Bridge and megatron-core, unpacked side by side and not imported."""
    return _environment(
        "megatron",
        list(MEGATRON),
        lambda folder, wanted: _uv("pip", "install", "--no-deps", "--target", str(folder), *wanted),
    )


@pytest.fixture(scope="session")
def forked(recipe_python: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run a script in a fork of a Python that has loaded what trainings import: `WarmPython.run`."""
    warm: list[WarmPython] = []

    def run(*words: Any) -> subprocess.CompletedProcess[str]:
        if not warm:
            warm.append(WarmPython(recipe_python, SHARED, recipe_environment()))
        return warm[0].run(*words)

    yield run
    for each in warm:
        each.close()


@pytest.fixture(scope="session")
def run_code(
    forked: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """What a program prints, in the recipes' Python and with what they share: `run_code(text, *words)`."""

    def run(code: str, *words: object) -> str:
        folder = tmp_path_factory.mktemp("code")
        script = folder / "code.py"
        script.write_text(f"import sys; sys.path.insert(0, {str(SHARED)!r})\n{code}", encoding="utf-8")
        done = forked(script, list(map(str, words)), recipe_environment(), folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture(scope="session")
def run_recipe(
    recipe_python: Path,
    forked: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a recipe's script on a configuration, as one process or several.

    `alone=True`, or data preparation, which connects to Ray: as processes of their own, several of them under torchrun;
    else in forks of one that is warm.
    """

    def run(
        script: Path, config: dict[str, Any], processes: int | None = None, alone: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        folder = tmp_path_factory.mktemp("config")
        path = folder / "train.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        if script not in DATA_PREPS and not alone:
            return forked(script, ["--config", str(path)], recipe_environment(**environment), folder, processes or 1)
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        return subprocess.run(
            [str(recipe_python), *(launch if processes else []), str(script), "--config", str(path)],
            env=recipe_environment(**environment),
            capture_output=True,
            text=True,
            timeout=900,
        )

    return run


@pytest.fixture(scope="session")
def tiny_data(run_recipe: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What data preparation makes of `tiny.yaml`: made once for all processes of this run, and only read."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tiny-data"
    with _locked(folder.with_suffix(".lock")):
        done = run_recipe(DATA_PREP, recipe_config(DATA_PREP, "tiny", output_dir=folder))
    assert done.returncode == 0, done.stderr
    return folder


def recipe_environment(**extra: str) -> dict[str, str]:
    """The environment of a job: nothing of a surrounding torchrun or job, and no access to the Hugging Face hub.

    matplotlib locks its folder while it writes the list of fonts there: each test process has one of its own.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NEMOTRON_METRICS_FILE", "PYTHONPATH"}
    }
    fonts = str(CACHE / "matplotlib" / os.environ.get("PYTEST_XDIST_WORKER", "alone"))
    ray = {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}  # it would take a `uv run pytest` above it for its own
    return {**kept, **ray, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "MPLCONFIGDIR": fonts, **extra}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _environment(name: str, wanted: list[str], create: Callable[[Path, list[str]], None]) -> Path:
    """A folder in the cache for what is wanted, made once; two test processes do not make it together."""
    key = hashlib.sha256(json.dumps([sorted(wanted), sys.version_info[:2]]).encode()).hexdigest()[:16]
    folder = CACHE / f"{name}-{key}"
    with _locked(CACHE / f"{name}-{key}.lock"):
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            create(folder, wanted)
            (folder / ".complete").touch()
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _create_environment(folder: Path, wanted: list[str]) -> None:
    python = sys.executable if sys.version_info >= (3, 11) else ">=3.11"
    _uv("venv", "--python", python, str(folder))
    if sys.version_info[:2] == (3, 11):  # what containers have is for this version: compiled once for both
        [packages] = folder.glob("lib/*/site-packages")
        (packages / "shared.pth").write_text(f"{recipe_packages()}\n", encoding="utf-8")
        return
    build_of_torch = [] if _find_links() else ["--torch-backend", "cpu"]
    _uv("pip", "install", "--compile-bytecode", "--python", str(folder / "bin" / "python"), *build_of_torch, *wanted)


def _uv(*arguments: str) -> None:
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    uv = shutil.which("uv", path=search)
    assert uv, "uv is needed to make the recipes' environment; it is a dependency of nemotron"
    environment = {**os.environ, **({"UV_FIND_LINKS": links} if (links := _find_links()) else {})}
    done = subprocess.run([uv, "--quiet", *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"uv {' '.join(arguments)}:\n{done.stderr}"


def _find_links() -> str:
    return os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS", "")

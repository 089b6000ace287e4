"""What may import what, and what a command must not import at all."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import REPOSITORY

SRC = REPOSITORY / "src"
FILES = sorted(SRC.rglob("*.py"))

HEAVY = {
    "nemo_run", "ray", "leptonai", "torch", "transformers", "numpy", "pydantic", "requests", "paramiko", "fabric",
    "wandb", "docker", "matplotlib", "optuna",
}  # fmt: skip
CONFIG = {"hydra", "omegaconf", "yaml", "antlr4"}
LOOKS = {"rich", "jinja2", "pygments", "markdown_it"}

ABSENT = {
    ("--version",): HEAVY | CONFIG | LOOKS,
    ("list",): HEAVY | CONFIG | LOOKS,
    ("list", "--json"): HEAVY | CONFIG | LOOKS,
    ("env", "list"): HEAVY | CONFIG | LOOKS,
    ("env", "show", "my-cluster"): HEAVY | CONFIG | LOOKS,
    ("env", "check"): HEAVY | CONFIG | LOOKS,
    ("env", "schema"): HEAVY | CONFIG | LOOKS,
    ("env", "fields", "slurm"): HEAVY | CONFIG | LOOKS,
    ("jobs", "list"): HEAVY | CONFIG | LOOKS,
    ("jobs", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("docker", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("lepton", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("dgxcloud", "pvcs", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("steps", "list"): HEAVY | CONFIG | LOOKS,
    ("--help",): HEAVY | CONFIG | {"jinja2"},
    ("nano3", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("nano3", "pretrain", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("nano3", "pretrain", "-c", "tiny", "--dry-run"): HEAVY | LOOKS,
    ("nano3", "pretrain", "-c", "tiny", "--dry-run", "--json"): HEAVY | LOOKS,
    ("nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", "--dry-run"): HEAVY | {"rich", "pygments"},
    ("nano3", "pretrain", "-c", "tiny", "--run", "lepton", "--dry-run"): HEAVY | {"rich", "pygments"},
    ("nano3", "pretrain", "-c", "tiny", "--run", "runai", "--dry-run"): HEAVY | {"rich", "pygments"},
    ("nano3", "pretrain", "-c", "tiny", "--run", "gone"): HEAVY | LOOKS,
    ("nano3", "pretrain", "-c", "tiny", "--dryrun"): HEAVY | CONFIG | LOOKS,
}  # fmt: skip

REPORT = """
import sys
from nemotron.cli.main import run
try:
    run(sys.argv[1:])
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), sep="\\n", file=sys.stderr)
"""


def modules_after(project, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *words],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("words", list(ABSENT), ids=" ".join)
def test_no_command_imports_what_it_does_not_use(project, words):
    assert modules_after(project, *words) & ABSENT[words] == set()


def test_the_python_api_imports_nothing_by_itself(project):
    code = "import sys; before = set(sys.modules); import nemo_runspec; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], env=project.environment(), capture_output=True, text=True)
    loaded = {name for name in done.stdout.split() if not name.startswith("nemo_runspec")}
    assert loaded & (HEAVY | CONFIG | LOOKS | {"typer"}) == set()


def imports_of(tree: ast.AST, *, module_level: bool) -> Iterator[str]:
    """Names of imported modules; with `module_level`, only those that importing the file imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
        elif not (module_level and is_later(node)):
            yield from imports_of(node, module_level=module_level)


def is_later(node: ast.AST) -> bool:
    """True for what importing the file does not execute."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def imported(path: Path, *, module_level: bool = False) -> set[str]:
    return set(imports_of(ast.parse(path.read_text(encoding="utf-8")), module_level=module_level))


def name_of(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_toolkit_never_knows_the_product(path):
    names = imported(path)
    assert not {name for name in names if name.startswith(".")}, "imports are absolute"
    if name_of(path).startswith("nemo_runspec/"):
        assert not {name for name in names if name.partition(".")[0] == "nemotron"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_heavy_modules_are_imported_inside_functions(path):
    names = {name.partition(".")[0] for name in imported(path, module_level=True)}
    assert names & HEAVY == set()


LAST = {"transport", "jobs", "supervise", "sweeps"}
ROOMS = {
    "profiles": {"config", "planning", "packaging", "script", "artifacts"} | LAST,
    "config": {"planning", "packaging", "script", "artifacts"} | LAST,
    "packaging": {"config"} | LAST,
    "script": {"config", "profiles", "packaging"} | LAST,
    "planning": {"script"} | LAST,
    "jobs": {"config", "profiles", "packaging", "supervise", "sweeps"},
    "supervise": {"config", "profiles", "sweeps"},
}
"""Room → rooms further down the way that it must not look into."""


@pytest.mark.parametrize("room", list(ROOMS))
def test_no_room_looks_into_one_further_down(room):
    wrong = [
        f"{name_of(path)} imports {name}"
        for path in sorted((SRC / "nemo_runspec" / room).rglob("*.py"))
        for name in imported(path)
        if name.startswith("nemo_runspec.") and name.split(".")[1] in ROOMS[room]
    ]
    assert wrong == []


def test_a_backend_reads_neither_argv_nor_profiles_nor_yaml():
    wrong = []
    for path in sorted((SRC / "nemo_runspec" / "backends").glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        names = imported(path)
        wrong += [f"{name_of(path)}: sys.argv" for _ in [1] if "sys.argv" in text]
        wrong += [f"{name_of(path)}: {n}" for n in names if n.startswith("nemo_runspec.config")]
        wrong += [
            f"{name_of(path)}: {n}"
            for n in names
            if n.startswith("nemo_runspec.profiles") and n != "nemo_runspec.profiles.common"
        ]
    assert wrong == []


def test_the_toolkit_names_no_model_family():
    families = {path.name for path in (REPOSITORY / "recipes").iterdir() if path.is_dir() and path.name != "steps"}
    for path in FILES:
        if name_of(path).startswith("nemo_runspec/"):
            code = ast.parse(path.read_text(encoding="utf-8"))
            documented = [
                node for node in ast.walk(code) if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
            ]
            docs = {ast.get_docstring(node, clean=False) for node in documented}
            texts = {n.value for n in ast.walk(code) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            assert not {t for t in texts - docs if any(family in t for family in families)}, name_of(path)

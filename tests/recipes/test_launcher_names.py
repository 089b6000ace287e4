"""What configurations say to NeMo Evaluator's launcher, held name by name against its published wheel, which is read
and never imported: groups and their keys, the classes that it checks an evaluation by, and the tasks that it knows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import REPOSITORY

from .conftest import EVAL, _environment, _uv, header

RECIPES = REPOSITORY / "recipes"
WHEEL = "nemo-evaluator-launcher==0.2.6"
CONFIGS = sorted(
    file.relative_to(RECIPES).as_posix()
    for file in RECIPES.glob("**/config/*.yaml")
    if "launcher" in (yaml.safe_load(file.read_text(encoding="utf-8")) or {})
)


@pytest.fixture(scope="module")
def launcher() -> Path:
    """The package, unpacked."""

    def install(folder: Path, wanted: list[str]) -> None:
        _uv("pip", "install", "--no-deps", "--target", str(folder), *wanted)

    return _environment("launcher", [WHEEL], install) / "nemo_evaluator_launcher"


def unknown(launcher: Path, config: dict[str, Any]) -> Iterator[str]:
    """Every key, group and task of the launcher's own sections that it does not have."""
    whole = read(launcher / "configs/default.yaml")
    for section in config:
        if section not in (*whole, "execution", "deployment"):
            yield section
    for group in ("execution", "deployment"):
        kind = config[group]["type"]
        file = launcher / "configs" / group / f"{kind}.yaml"
        if not file.is_file():
            yield f"{group}.type={kind}"
            continue
        # `checkpoint_path` of a deployment comes from the glue.
        yield from (f"{group}.{key}" for key in config[group] if key not in read(file))
    target = config.get("target", {})
    yield from (f"target.{key}" for key in target if key not in whole["target"])
    known = whole["target"]["api_endpoint"]
    yield from (f"target.api_endpoint.{key}" for key in target.get("api_endpoint", {}) if key not in known)
    fields, tasks = fields_of(launcher / "common/config_models.py"), known_tasks(launcher)
    evaluation = config["evaluation"]
    yield from (f"evaluation.{key}" for key in evaluation if key not in fields["EvaluationModel"])
    for task in evaluation["tasks"]:
        yield from (f"tasks.{key}" for key in task if key not in fields["TaskModel"])
        if task["name"] not in tasks:
            yield task["name"]


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def fields_of(file: Path) -> dict[str, set[str]]:
    """Class → its annotated fields; the launcher forbids others."""
    classes = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    return {
        each.name: {
            node.target.id
            for node in each.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        for each in classes
    }


def known_tasks(launcher: Path) -> set[str]:
    """`harness.task` of the list that is in the wheel; its YAML takes half a minute to read as such."""
    text = (launcher / "resources/all_tasks_irs.yaml").read_text(encoding="utf-8")
    tasks = re.split(r"^- name: ", text[text.index("\ntasks:") :], flags=re.MULTILINE)[1:]
    harness = [re.search(r"^  harness: (\S+)$", task, re.MULTILINE) for task in tasks]
    return {f"{found[1]}.{task.split()[0]}" for found, task in zip(harness, tasks, strict=True) if found}


def test_all_configurations_are_looked_at():
    assert {
        "nano3/eval/config/default.yaml",
        "super3/eval/config/default.yaml",
        "ultra3/eval/config/default.yaml",
    } < set(CONFIGS)
    assert WHEEL in header(EVAL)["dependencies"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_every_name_is_one_of_the_launchers(launcher, name):
    config = yaml.safe_load((RECIPES / name).read_text(encoding="utf-8"))["launcher"]
    assert list(unknown(launcher, config)) == []
    assert config.get("env_vars") or config.get("target"), "without a variable the launcher ends with an error"


@pytest.mark.slow
def test_a_name_that_it_does_not_have_is_found(launcher):
    config = yaml.safe_load((RECIPES / "nano3/eval/config/default.yaml").read_text(encoding="utf-8"))["launcher"]
    config |= {"excution": {}}
    config["execution"]["out_dir"] = config["target"]["api_endpoint"]["model"] = config["evaluation"]["task"] = 1
    config["deployment"]["type"] = "nothing"
    config["evaluation"]["tasks"] = [{"name": "lm-evaluation-harness.nothing", "limit": 1}]
    assert list(unknown(launcher, config)) == [
        "excution",
        "execution.out_dir",
        "deployment.type=nothing",
        "target.api_endpoint.model",
        "evaluation.task",
        "tasks.limit",
        "lm-evaluation-harness.nothing",
    ]

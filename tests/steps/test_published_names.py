"""What steps name of Megatron-Bridge, which needs a GPU to run: held against the sources of its published wheel."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .conftest import STEPS

pytestmark = pytest.mark.full

WHEEL = "megatron-bridge==0.3.1"
SOURCE = "megatron/bridge/models/conversion/auto_bridge.py"
CONVERSIONS = (
    "convert/hf_to_megatron/step.py",
    "convert/megatron_to_hf/step.py",
    "_shared/nemo_steps/bridge_lora.py",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The published wheel, without what it depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    words = ["uv", "run", "--no-project", "--python", sys.executable, "--with", "pip", "python", "-m", "pip"]
    command = [*words, "download", "-q", "--no-deps", "--ignore-requires-python", "--dest", str(folder), WHEEL]
    subprocess.run(command, check=True, timeout=300)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


@pytest.fixture(scope="module")
def methods(wheel: zipfile.ZipFile) -> dict[str, ast.FunctionDef]:
    """Every method of `AutoBridge`."""
    tree = ast.parse(wheel.read(SOURCE))
    bridge = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "AutoBridge")
    return {node.name: node for node in bridge.body if isinstance(node, ast.FunctionDef)}


def calls(file: str) -> list[tuple[str, list[str], int]]:
    """The methods of a bridge that a step calls: name, keywords, number of values given by their place."""
    tree = ast.parse((STEPS / file).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    bridges = [(node, node.func) for node in found if isinstance(node.func, ast.Attribute)]
    named = [
        (n, f.attr) for n, f in bridges if isinstance(f.value, ast.Name) and f.value.id in ("AutoBridge", "bridge")
    ]
    return [(name, [str(word.arg) for word in node.keywords], len(node.args)) for node, name in named]


def test_the_bridge_is_where_steps_import_it_from(wheel):
    tree = ast.parse(wheel.read("megatron/bridge/__init__.py"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert "AutoBridge" in names


@pytest.mark.parametrize("file", CONVERSIONS)
def test_methods_take_what_steps_give_them(methods, file):
    assert calls(file)
    for name, keywords, count in calls(file):
        arguments = methods[name].args
        places = [argument.arg for argument in arguments.args if argument.arg not in ("self", "cls")]
        assert count <= len(places), (name, places)
        assert arguments.kwarg or set(keywords) <= {*places, *(a.arg for a in arguments.kwonlyargs)}, (name, keywords)


def test_a_step_is_read_as_it_stands():
    assert Path(STEPS / CONVERSIONS[0]).is_file()
    assert ("import_ckpt", ["torch_dtype", "trust_remote_code"], 2) in calls(CONVERSIONS[0])

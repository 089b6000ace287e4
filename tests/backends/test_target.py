"""What a backend's room gets of a plan: its own target, or a mistake of ours that is named."""

from __future__ import annotations

import ast

import pytest
from job_scripts import plan_for
from support import REPOSITORY

from nemo_runspec.backends.local.fields import LocalTarget
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.plans.target import target_of


def test_a_plan_has_the_target_of_its_backend(tmp_path):
    assert isinstance(target_of(plan_for(tmp_path), LocalTarget), LocalTarget)
    with pytest.raises(TypeError, match="SlurmTarget is needed, not of LocalTarget"):
        target_of(plan_for(tmp_path), SlurmTarget)


STRANGERS = {
    "nemotron/cli/main.py": "streams, and click's errors",
    "nemotron/cli/recipe.py": "click's parameters",
    "nemo_runspec/visible.py": "streams",
    "nemo_runspec/console.py": "streams",
    "nemo_runspec/spinner.py": "a thread's own",
    "nemo_runspec/envs.py": "an interpreter's own attribute",
    "nemo_runspec/config/yaml_lines.py": "PyYAML may be built without its C part",
    "nemo_runspec/submission/layout.py": "PyYAML may be built without its C part",
    "nemo_runspec/config/problems.py": "PyYAML's errors",
    "nemo_runspec/config/compose.py": "OmegaConf's errors",
    "nemo_runspec/transport/registry.py": "urllib's errors",
    "nemo_runspec/transport/web.py": "urllib3's errors",
    "nemo_runspec/transport/http_text.py": "urllib3's errors",
    "nemo_runspec/backends/docker/engine.py": "docker-py's errors",
    "nemo_runspec/backends/cloud/storage/s3_wire.py": "errors of the operating system",
    "nemo_runspec/jobside/forward.py": "a package that may be a folder alone",
    "nemo_runspec/typed_json.py": "types of any kind",
}
"""Where an object is asked whether it has an attribute: none of them is ours."""


def test_no_object_of_ours_is_asked_what_it_has():
    found = {
        str(file.relative_to(REPOSITORY / "src"))
        for file in (REPOSITORY / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and asks(node)
    }
    assert found == set(STRANGERS)


def asks(node: ast.Call) -> bool:
    """`hasattr`, and `getattr` of a name that is written out, or with something instead."""
    name = ast.unparse(node.func)
    written = len(node.args) == 3 or (len(node.args) == 2 and isinstance(node.args[1], ast.Constant))
    return name == "hasattr" or (name == "getattr" and written)

"""Programs that travel have all of this package that they import: nemotron is not installed where a job runs."""

from __future__ import annotations

import ast
import io
import re
import zipfile
from collections.abc import Iterator, Mapping

import pytest

from nemo_runspec.backends import BUILTIN, get_backend
from nemo_runspec.backends.cloud.code.upload import data_program
from nemo_runspec.backends.slurm.render import health_program, slurm_programs
from nemo_runspec.script.programs import CHANGES_PROGRAM, CHECKS_PROGRAM, STORE_PROGRAM, pod_programs, programs

MODULE = re.compile(r"^MODULES\['([\w.]+)'\] = r'''(.*?)'''$", re.MULTILINE | re.DOTALL)
OURS = "nemo_runspec"
OF_PODS = f"{OURS}.jobside.pod.main.run_pod"
"""Asked for in pods alone, whose supervisor has it."""


def modules_of_programs() -> Iterator[tuple[str, Mapping[str, str]]]:
    """A program's name, and the text of each module in it."""
    platforms = filter(None, (get_backend(name).node_program for name in BUILTIN))
    found = [
        *programs(CHECKS_PROGRAM, STORE_PROGRAM, CHANGES_PROGRAM), *slurm_programs(), health_program(),
        *(program for platform in platforms for program in pod_programs(platform)),
    ]  # fmt: skip
    yield from ((program.name, modules) for program in found if (modules := dict(MODULE.findall(program.text))))
    with zipfile.ZipFile(io.BytesIO(data_program())) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist() if name.startswith(OURS)}
    yield "data", {name.removesuffix(".py").replace("/", "."): text for name, text in files.items()}


def imported(text: str) -> Iterator[str]:
    """Modules of ours that a module imports when it runs, and names in packages that may be modules."""
    tree = ast.parse(text)
    for branch in [node for node in ast.walk(tree) if isinstance(node, ast.If)]:
        if ast.unparse(branch.test) in ("MYPY", "TYPE_CHECKING"):
            branch.body.clear()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith(OURS))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OURS):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def missing(modules: Mapping[str, str]) -> set[str]:
    names = {name for text in modules.values() for name in imported(text)}
    return {name for name in names if name not in modules and name.rpartition(".")[0] not in modules}


@pytest.mark.parametrize(("name", "modules"), list(modules_of_programs()))
def test_what_travels_has_all_that_it_imports(name: str, modules: Mapping[str, str]):
    assert missing(modules) <= {OF_PODS}


def test_what_is_not_there_is_seen():
    here = {
        f"{OURS}.a": f"from {OURS}.b import c\nfrom {OURS} import b\nif MYPY:\n    import {OURS}.d",
        f"{OURS}.b": "",
    }
    assert missing(here) == set()
    assert missing({**here, f"{OURS}.e": f"import {OURS}.console"}) == {f"{OURS}.console"}

"""What a job's page tells its supervisors is read there, all of it, and nothing is read that no page tells."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cloud_plans import plan_of
from job_scripts import plan_for

import nemo_runspec
from nemo_runspec.backends.cloud.pod.program import node_program, pod_values, render_pod_script
from nemo_runspec.backends.slurm.jobside.job import BatchJob
from nemo_runspec.backends.slurm.render import batch_values
from nemo_runspec.jobside.job import JobTask
from nemo_runspec.jobside.pod.values import PodJob
from nemo_runspec.plans.model import Plan
from nemo_runspec.script import render
from nemo_runspec.script.node_identity import ALONE

SLURM = {"remote_job_dir": "/data/run", "time": "00:05:00"}
LEPTON = {"container_image": "a/b:1", "nemo_run_dir": "/mnt/x"}
START = Path(nemo_runspec.__file__).parent / "jobside" / "start.sh"


def keys_read(reader: type, name: str) -> set[str]:
    """Keys that a class takes out of what its constructor calls so. They are all that it does with it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.getattr_static(reader, "__init__"))))
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is(node.value, name):
            found.append(ast.literal_eval(node.slice))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is(node.func.value, name):
            assert node.func.attr == "get"
            found.append(ast.literal_eval(node.args[0]))
    assert len(found) == len(uses) - 1, "it is assigned once, and a key is taken out of it everywhere else"
    return set(found)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def job(tmp_path: Path) -> dict[str, Any]:
    """What every job tells."""
    return render.job_values(plan_for(tmp_path), ALONE)


def batch(tmp_path: Path) -> dict[str, Any]:
    """What a batch script tells."""
    return batch_values(plan_of("slurm", SLURM))


def pod(tmp_path: Path) -> dict[str, Any]:
    """What a pod's script tells."""
    return pod_values(plan_of("lepton", LEPTON), "platform")


@pytest.mark.parametrize(("told", "reader"), [(job, JobTask), (batch, BatchJob), (pod, PodJob)])
def test_values(tmp_path: Path, told: Callable[[Path], dict[str, Any]], reader: type):
    assert set(told(tmp_path)) == keys_read(reader, "given")


def words_told(plan: Plan) -> set[str]:
    """Words that any page may have: those of start.sh, of a node's identity, and of a pod's script."""
    common = re.findall(r'"(\w+)=\$|/#/(\w+)=', START.read_text())
    pods = re.findall(r'nemotron_words=\("(\w+)=', render_pod_script(plan, node_program("lepton")))
    return {word for pair in common for word in pair if word} | set(render._WORDS) | set(pods)


def test_words(tmp_path: Path):
    many = {"version"}  # may come any number of times, and so is read from the words themselves
    for reader in (JobTask, PodJob):
        assert 'key == "version"' in inspect.getsource(reader)
    read = keys_read(JobTask, "found") | keys_read(PodJob, "found")
    assert words_told(plan_of("lepton", LEPTON)) == read | many

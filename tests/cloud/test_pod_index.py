"""Pods of a platform that is not ours: a variable of its own says which node each is, and ours say nothing there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pod_process import cloud_plan, loaded, start, without

NODE = """\
from nemo_runspec.jobside.pod.values import PodAddress

INDEX = ("POD_ORDINAL", "POD_NUMBER")


def place(pod):
    return PodAddress("127.0.0.1", "29400")
"""
TELL = "import json, os; print(json.dumps([os.environ[name] for name in ('NODE_RANK', 'NNODES')]))"
OTHERS = {"LEPTON_JOB_WORKER_INDEX": "7", "RANK": "8", "PET_NODE_RANK": "9"}


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The module that such a platform's backend names as its `node_program`."""
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "pods_of_others.py").write_text(NODE)
    monkeypatch.syspath_prepend(str(tmp_path / "module"))
    return "pods_of_others"


@pytest.mark.parametrize("name", ["POD_ORDINAL", "POD_NUMBER"])
def test_each_of_two_nodes_knows_its_number(tmp_path, platform, name):
    cargo = loaded(cloud_plan(tmp_path, TELL, nodes=2), platform=platform)
    pods = [start(cargo, platform=platform, **OTHERS, **{name: str(index)}) for index in (1, 0)]
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].text + pods[1].text
    told = [json.loads(next(line[line.index('["') :] for line in pod.text.split("\n") if '["' in line)) for pod in pods]
    assert told == [["1", "2"], ["0", "2"]]
    assert [pod.end.node for pod in pods] == [1, 0]


def test_one_that_is_not_told_says_by_which_variables(tmp_path, platform):
    pod = start(loaded(cloud_plan(tmp_path, TELL, nodes=2), platform=platform), platform=platform, **OTHERS)
    assert pod.wait() == 1
    assert pod.end.reason == "nothing says which of 2 nodes this is: no POD_ORDINAL, no POD_NUMBER"


def test_without_python_it_is_known_too(tmp_path, platform):
    bare = without(tmp_path, "python", "python3")
    plan = cloud_plan(tmp_path, TELL, nodes=2)
    cargo = loaded(plan, platform=platform)
    pods = [start(cargo, platform=platform, PATH=bare, **OTHERS, POD_ORDINAL=str(index)) for index in (0, 1)]
    assert [pod.wait() for pod in pods] == [1, 1]
    assert [(pod.end.node, pod.end.reason_code) for pod in pods] == [(0, "image"), (1, "image")]

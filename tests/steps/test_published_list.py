"""Every name of a library that a step uses is on the list of published names; the full tier makes the list anew."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import published

from .conftest import STEPS


def test_every_name_that_steps_use_is_listed():
    listed = {published.Name(each["module"], each["kind"], each["name"]) for each in published.committed()["published"]}
    assert published.used() == listed, "make it anew: python tests/steps/published.py"


def test_versions_are_those_that_headers_pin():
    headers = "".join(file.read_text(encoding="utf-8") for file in STEPS.rglob("step.py"))
    pinned = dict(re.findall(r'^#   "([\w-]+)(?:\[[\w,]+\])?==([\w.]+)"', headers, re.MULTILINE))
    assert {"nemo-automodel", "nvidia-modelopt", "nemo-curator", "peft", "transformers"} <= pinned.keys()
    assert {
        name: published.VERSIONS[name] for name in pinned.keys() & published.VERSIONS.keys()
    }.items() <= pinned.items()
    assert {each["version"] for each in published.committed()["published"]} <= {
        *published.VERSIONS.values(), *published.LATER.values()
    }  # fmt: skip


def test_every_name_of_nemo_rl_was_read_in_its_source():
    source = published.committed()["nemo_rl"]
    assert published.nemo_rl_used() == {name for file in source["read"].values() for name in file["names"]}
    assert all(len(file["commit"]) == 40 for file in source["read"].values())
    images = [file.read_text(encoding="utf-8") for file in STEPS.glob("rl/nemo_rl/*/step.py")]
    assert images
    assert all(source["image"] in text and source["image"].endswith(source["tag"]) for text in images)


def test_a_name_that_a_step_begins_to_use_is_seen():
    tree = ast.parse("if 1:\n    from megatron.bridge.peft.lora import DoesNotExist\n    import nemo_automodel.none")
    names = {name.name for name in published.names_imported(tree)}
    assert names == {"megatron.bridge.peft.lora.DoesNotExist", "nemo_automodel.none"}


@pytest.mark.full
def test_the_list_is_what_the_published_wheels_have():
    invented = {
        published.Name("megatron", "import", "megatron.bridge.peft.lora.DoesNotExist"),
        published.Name("megatron", "key", "TrainingConfig.train_itres"),
        published.Name("nemo_automodel", "target", "nemo_automodel.NeMoAutoModelForCausalLM.from_nothing"),
    }
    listed, missing = published.facts(published.used() | invented)
    assert listed == published.committed()["published"]
    assert set(missing) == invented

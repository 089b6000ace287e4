"""Job names: valid everywhere, and never the same twice."""

from __future__ import annotations

import re
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.catalog import find_recipes
from nemo_runspec.planning.names import MAX_LENGTH, name_for, new_name
from nemo_runspec.plans.labels import Labels
from nemo_runspec.sweeps.model import new_group

LABEL = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")


@given(st.text(max_size=60))
def test_a_name_is_an_rfc_1123_label_that_begins_with_a_letter(recipe):
    name = new_name(recipe)
    assert LABEL.fullmatch(name)
    assert "--" not in name
    assert len(name) <= MAX_LENGTH == 34


def test_a_name_says_what_it_is_of():
    assert re.fullmatch(
        r"nano3-data-prep-pretr-\d{4}-[0-9a-z]{8}|nano3-data-prep-pre.*", new_name("nano3/data/prep/pretrain")
    )
    assert new_name("nano3/pretrain").startswith("nano3-pretrain-")
    assert new_name("3d/x").startswith("j-3d-x-")
    assert new_name("").startswith("job-")


def test_every_recipe_and_step_has_names_of_its_own():
    """What the room of a name cuts off is not what tells two of them apart. No `steps-` takes from that room."""
    heads = {name_for(Labels(), recipe.path).rsplit("-", 2)[0]: recipe.path for recipe in find_recipes()}
    assert len(heads) == len(find_recipes())
    assert heads["data-prep-pretrain-p"] == "steps/data_prep/pretrain_prep"
    assert heads["sft-automodel"] == "steps/sft/automodel"
    assert not [head for head in heads if head.startswith("steps")]
    assert name_for(Labels(name="mine"), "steps/sft/automodel").startswith("mine-")
    assert new_group(Labels(), "steps/sft/automodel").startswith("sweep-sft-automodel-"[:20])


def test_ten_thousand_names_of_one_recipe_differ():
    assert len({new_name("nano3/pretrain") for _ in range(10_000)}) == 10_000


def test_names_of_32_processes_at_once_differ():
    code = "from nemo_runspec.planning.names import new_name\nfor _ in range(50): print(new_name('nano3/pretrain'))"
    children = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(32)]
    names = [name for child in children for name in child.communicate()[0].split()]
    assert len(names) == 1600
    assert len(set(names)) == 1600

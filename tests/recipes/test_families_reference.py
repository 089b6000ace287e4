"""The families beside those of NVIDIA-NeMo/Nemotron: what differs is what the table of each page says, no more."""

from __future__ import annotations

import re

import pytest
import yaml
from support import REPOSITORY

from nemo_runspec.catalog import Recipe, find_recipes

RECIPES = REPOSITORY / "recipes"
RAY, LATER_RAY = "anyscale/ray:2.49.2-py312", "anyscale/ray:2.55.1-py312"
NANO, SUPER = "nemo:25.11.nemotron_3_nano", "nemo:26.02.nemotron_3_super"
NANO_RL, SUPER_RL = "nemo-rl:v0.4.0.nemotron_3_nano", "nemo-rl:v0.5.0.nemotron_3_super"

NEMOTRON = {
    "nano3": {
        "data/prep/pretrain": ("ray", "1 × 0", RAY),
        "data/prep/sft": ("ray", "1 × 0", RAY),
        "data/prep/rl": ("ray", "1 × 0", RAY),
        "pretrain": ("torchrun", "2 × 8", NANO),
        "sft": ("torchrun", "1 × 8", NANO),
        "rl": ("ray", "1 × 8", NANO_RL),
    },
    "super3": {
        "data/prep/pretrain": ("ray", "1 × 0", RAY),
        "data/prep/sft": ("ray", "1 × 0", RAY),
        "data/prep/rl": ("ray", "1 × 0", RAY),
        "data/prep/rl/rlvr": ("ray", "1 × 0", RAY),
        "data/prep/rl/swe1": ("direct", "1 × 0", RAY),
        "data/prep/rl/swe2": ("direct", "1 × 0", RAY),
        "data/prep/rl/rlhf": ("direct", "1 × 0", RAY),
        "pretrain": ("torchrun", "4 × 8", SUPER),
        "pretrain-test": ("torchrun", "1 × 1", ""),
        "sft": ("torchrun", "4 × 8", SUPER),
        "sft-test": ("torchrun", "1 × 1", ""),
        "rl": ("ray", "1 × 8", SUPER_RL),
        "rl-test": ("ray", "1 × 1", SUPER_RL),
        "rl/stage1_rlvr": ("ray", "109 × 8", SUPER_RL),
        "rl/stage2_swe1": ("ray", "64 × 8", SUPER_RL),
        "rl/stage2_swe2": ("ray", "64 × 8", SUPER_RL),
        "rl/stage3_rlhf": ("ray", "72 × 8", SUPER_RL),
    },
    "ultra3": {
        "data/prep/pretrain": ("ray", "1 × 0", LATER_RAY),
        "data/prep/sft": ("ray", "1 × 0", LATER_RAY),
        "pretrain": ("torchrun", "96 × 8", "ultra3-pretrain.sqsh"),
        "pretrain-test": ("torchrun", "1 × 1", ""),
        "sft": ("torchrun", "384 × 8", "ultra3-sft.sqsh"),
    },
    "omni3": {
        "data/prep/sft": ("ray", "1 × 0", RAY),
        "data/prep/rl": ("ray", "1 × 0", RAY),
        "sft": ("torchrun", "2 × 8", "omni3-sft.sqsh"),
        "rl/mpo": ("ray", "4 × 8", "omni3-rl.sqsh"),
        "rl/text": ("ray", "16 × 8", "omni3-rl.sqsh"),
        "rl/vision": ("ray", "4 × 8", "omni3-rl.sqsh"),
    },
}
"""Nemotron's: stage → launch (its `python` is our `direct`), nodes × GPUs, image (of nvcr.io/nvidia, or whole; a file
in somebody's home directory by its name)."""

WHAT = ("launch", "nodes × GPUs", "image")
STAGE = "stage"
"""What a row is about where only one of the two has the stage; its shape is told."""

TITLE = "## Where it differs from Nemotron's"
ROW = re.compile(rf"^\| (`[^|]+) \| ({'|'.join((*WHAT, STAGE))}) \| ([^|]*) \| ([^|]*) \| [^|]{{10,}} \|$", re.M)


def ours(family: str) -> dict[str, tuple[str, str, str]]:
    """The stages that prepare data or train; evaluations, pipes, builds and reports have no header in Nemotron."""
    found = {}
    for recipe in find_recipes([RECIPES]):
        if recipe.family == family and recipe.spec.kind in ("data", "train"):
            spec = recipe.spec
            shape = f"{spec.nodes} × {spec.gpus_per_node}"
            found[recipe.path.partition("/")[2]] = (spec.launch, shape, image(recipe))
    return found


def image(recipe: Recipe) -> str:
    """The header's, or what the configuration takes in its place: `VARIABLE, else IMAGE`."""
    config = yaml.safe_load((recipe.config_dir / "default.yaml").read_text(encoding="utf-8"))
    named = config["run"]["env"].get("container_image") or recipe.spec.image or ""
    if found := re.fullmatch(r"\$\{oc\.env:(\w+)(?:,(.*))?\}", named):
        named = f"{found[1]}, else {found[2]}" if found[2] else found[1]
    return str(named).replace("nvcr.io/nvidia/", "")


def told(family: str) -> dict[tuple[str, str], tuple[str, str]]:
    """The rows of the page's table: stage and what differs → there, here."""
    text = (RECIPES / family / "README.md").read_text(encoding="utf-8")
    rows = {}
    for stages, what, there, here in ROW.findall(text.partition(TITLE)[2]):
        for stage in re.findall(r"`([^`]+)`", stages):
            rows[stage, what] = (there.replace("`", "").strip("– "), here.replace("`", "").strip("– "))
    return rows


@pytest.mark.parametrize("family", sorted(NEMOTRON))
def test_what_differs_is_what_the_page_says(family):
    here, there, found = ours(family), NEMOTRON[family], {}
    for stage in {**there, **here}:
        if stage in here and stage in there:
            pairs = zip(WHAT, there[stage], here[stage], strict=True)
            found |= {(stage, what): (theirs, own) for what, theirs, own in pairs if theirs != own}
        else:
            found[stage, STAGE] = tuple(each[stage][1] if stage in each else "" for each in (there, here))
    assert found == told(family)

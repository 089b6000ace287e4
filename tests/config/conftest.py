"""A recipe whose configs use what Hydra offers: defaults lists, groups, packages, interpolations."""

from __future__ import annotations

import pytest
from support import HEADER

CONFIGS = {
    "default": """\
defaults:
  - base
  - optimizer: adam
  - data@train.data: small
  - optional nothing: here
  - _self_
train:
  steps: 10
  name: run-${train.steps}
list: [1, 2, {a: 3}]
nothing: null
text: plain
flag: false
ratio: 0.5
run:
  env:
    nodes: 1
""",
    "base": "seed: 1\ntrain:\n  steps: 1\n  seed: ${seed}\n",
    "optimizer/adam": "name: adam\nlr: 0.001\nbetas: [0.9, 0.95]\n",
    "optimizer/sgd": "name: sgd\nlr: 0.1\nmomentum: 0\n",
    "data/small": "size: 10\npath: /small\n",
    "data/large": "size: 1000\npath: /large\n",
    "data/placed": "# @package elsewhere\nsize: 5\n",
    "mandatory": "value: ???\nother: 1\n",
}


@pytest.fixture
def recipe(project):
    """The recipe `mine/train`; returns its config folder."""
    project.recipe("mine/train", header=HEADER, **CONFIGS)
    return project.folder / "recipes" / "mine" / "train" / "config"

"""The tiny chain over three seeds: pretrained, fine-tuned, trained by rewards, each better than the one before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import EVAL, NANO3, SFT, TRAIN, recipe_config
from .test_rl_tiny import RL, records

pytestmark = pytest.mark.full  # three seeds take seven minutes of two quiet cores
PREP = NANO3 / "data" / "prep"


@pytest.fixture(scope="module")
def prepared(prepare, tiny_data, tmp_path_factory) -> dict[str, Path]:
    """The data of all stages, as `tiny` has it."""
    made = {"pretrain": tiny_data}
    for name in ("sft", "rl"):
        made[name] = tmp_path_factory.mktemp(f"{name}-data")
        script = PREP / name / "data_prep.py"
        done = prepare(recipe_config(script, "tiny", output_dir=made[name], pretrain__path=tiny_data), script)
        assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_stage_is_better_than_the_one_before(run_recipe, ray_cluster, prepared, tmp_path, seed):
    def run(script: Path, name: str, environment: dict[str, str] | None = None, **paths: Path) -> Path:
        config = recipe_config(script, "tiny", output_dir=tmp_path / name, **paths)
        for section in ("rng", "grpo"):
            if section in config:
                config[section]["seed"] = seed
        done = run_recipe(script, config, **(environment or {}))
        assert done.returncode == 0, done.stderr
        return tmp_path / name

    def measured(name: str, model: Path) -> dict[str, Any]:
        run(EVAL, f"eval-{name}", model__path=model, text__path=prepared["pretrain"])
        return dict(json.loads((tmp_path / f"eval-{name}" / "results.json").read_text())["results"])

    base = run(TRAIN, "base", data__path=prepared["pretrain"])
    sft = run(SFT, "sft", data__path=prepared["sft"], base__path=base, text__path=prepared["pretrain"])
    rl = run(RL, "rl", ray_cluster, data__path=prepared["rl"], base__path=sft)
    found = {name: measured(name, model) for name, model in {"base": base, "sft": sft, "rl": rl}.items()}

    right, lost = (
        [found[name]["questions"][key] for name in ("base", "sft", "rl")]
        for key in ("exact_match,none", "perplexity,none")
    )
    assert right[0] < right[1] < right[2] and right[2] - right[1] >= 0.2, found
    assert lost[0] > lost[1] > lost[2], found
    assert found["rl"]["text"]["perplexity,none"] < 2 * found["base"]["text"]["perplexity,none"], found
    for key in ("val_reward", "val_exact_match"):
        values = list(records(rl, key).values())
        assert values[-1] - values[0] >= 0.2, (key, values)

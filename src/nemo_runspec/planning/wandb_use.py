"""Tells whether a job logs to W&B: what `[wandb]` leaves open matters to such jobs alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from omegaconf import OmegaConf

from nemo_runspec.artifacts.wandb import BACKEND
from nemo_runspec.catalog import Recipe
from nemo_runspec.config.compose import Composition
from nemo_runspec.profiles.profile import placeholders
from nemo_runspec.source import Layer, Source

_NAME = re.compile(r"wandb", re.IGNORECASE)
_ASKED = frozenset({Layer.YAML, Layer.CLI})


def drop_unused_placeholders(composition: Composition, recipe: Recipe, cmd: str | None) -> None:
    """Takes out of `run.wandb` what a site has not filled in yet, where the job does not log to W&B.

    Args:
        cmd: the command in place of the recipe's own.
    """
    left = placeholders(composition.resolved("run.wandb"), {})
    if left and not uses_wandb(composition, recipe, cmd):
        for line in left:
            text = "still a placeholder, and nothing in this job names W&B"
            composition.put(f"run.wandb.{line.key}", None, Source(Layer.AUTO, text=text))
        composition.put("run.wandb.forward", None, Source(Layer.AUTO, text="what [wandb] asks for is not filled in"))


def uses_wandb(composition: Composition, recipe: Recipe, cmd: str | None) -> bool:
    """True if something of the job names W&B: its code, dependencies, command, configuration, artifacts.

    W&B's settings count where the recipe or the command line has some, not where they are the env file's; that its
    metrics may be sent on, which a recipe only offers, counts where anybody else has asked for it.
    """
    if composition.select("run.wandb.mode") == "disabled":
        return False
    if recipe.spec.produces and composition.select("run.artifacts.backend") == BACKEND:
        return True
    said = {path: source.layer for path, source in composition.sources.items() if path.startswith("run.wandb.")}
    forward = said.pop("run.wandb.forward", Layer.DEFAULT)
    if composition.select("run.wandb.forward") and forward not in (Layer.DEFAULT, Layer.YAML):
        return True
    return not _ASKED.isdisjoint(said.values()) or any(map(_NAME.search, _texts(composition, recipe, cmd)))


def _texts(composition: Composition, recipe: Recipe, cmd: str | None) -> Iterator[str]:
    spec = recipe.spec
    yield from (*spec.dependencies, *spec.setup, cmd or spec.cmd or "")
    config = OmegaConf.to_container(composition.cfg, resolve=False)
    yield json.dumps({key: value for key, value in config.items() if key != "run"} if isinstance(config, dict) else "")
    for script in (recipe.script,) if recipe.own else _modules(recipe.folder):
        yield script.read_text(encoding="utf-8", errors="replace")


def _modules(folder: Path) -> list[Path]:
    """A recipe's own Python. What its family shares does more than any of its recipes need."""
    return [script for script in sorted(folder.glob("*.py")) if script.is_file()]

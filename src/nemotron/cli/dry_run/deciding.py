"""The one table of the page: each fact once, by the value that decides, with its source."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from nemo_runspec.plans.meant_keys import BUILD, deciding_key, keys_of, meant_keys
from nemo_runspec.plans.model import Artifact, Plan
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import COMMAND_LINE, Layer, Source
from nemo_runspec.text import count
from nemotron.cli.dry_run.facts import artifact_note, written_to
from nemotron.cli.dry_run.rows import PageRow, ShownPlaces

_UNSET: tuple[Any, ...] = (None, "", (), [], {})
_TITLE = frozenset({"name", "recipe", "config", "mode", "profile", "env.executor"})
"""Keys of `run` that the first lines of the page tell."""
_OF_NOBODY = (Layer.DEFAULT, Layer.AUTO)


def deciding_rows(plan: Plan) -> list[PageRow]:
    """The table's rows."""
    places = ShownPlaces(plan.sources.values())
    rows = [*_of_profile(plan, places), *_of_artifacts(plan, places), *_of_run(plan, places)]
    told = {str(row.value) for row in rows if "/" in str(row.value)}
    return [*rows, *_of_environment(plan, told), *_of_config(plan, places)]


def counted(plan: Plan) -> str:
    """How many values of the config are as its files have them, and are no row; '' for none."""
    places = ShownPlaces(plan.sources.values())
    found = Counter(
        places.file(source) for path in flatten(plan.config) if (source := plan.sources.get(path)) and _is_yaml(source)
    )
    return ", ".join(f"{count(number, 'value')} as in {file}" for file, number in found.items())


def _of_profile(plan: Plan, places: ShownPlaces) -> Iterator[PageRow]:
    """What the profile and the command line say of where and how; of keys for one fact, the one that decides."""
    env, target = plan.run["env"], asdict(plan.target)
    weaker = _weaker(plan, target)
    for name, value in flatten(env).items():
        source = plan.sources.get(f"run.env.{name}")
        if name in weaker or f"env.{name}" in _TITLE or not _was_set(value, source):
            continue
        made = target.get(name)
        if isinstance(made, str) and isinstance(value, str) and made not in ("", value):
            yield PageRow(f"run.env.{name}", made, f"{places.name(source)}, as {plan.executor} takes it")
        else:
            yield PageRow(f"run.env.{name}", value, places.name(source))


def _weaker(plan: Plan, target: dict[str, Any]) -> set[str]:
    """Keys of the profile in whose place another decides, or that are meant for other jobs."""
    env, given = plan.run["env"], [key for key in plan.run["env"] if _layer(plan, key) is Layer.CLI]
    weaker = set() if plan.recipe.kind == BUILD else {key for key in env if key.startswith(f"{BUILD}_")}
    for base in env:
        keys = [key for key in keys_of(base) if env.get(key) not in _UNSET]
        if keys not in ([], [base]):
            taken = [key for key in meant_keys(base, plan.mode, plan.recipe.kind) if env.get(key) == target.get(base)]
            weaker |= {*keys} - {deciding_key(taken, env, given)}
    return weaker


def _layer(plan: Plan, key: str) -> Layer | None:
    source = plan.sources.get(f"run.env.{key}")
    return source.layer if source else None


def _of_artifacts(plan: Plan, places: ShownPlaces) -> Iterator[PageRow]:
    for artifact in plan.consumes:
        source = _source_of(plan, artifact)
        yield PageRow(
            f"reads {artifact.name}", artifact.path or "not named", places.name(source), artifact_note(plan, artifact)
        )
    for artifact in plan.produces:
        path = written_to(artifact)
        yield PageRow(f"writes {artifact.name}", path, places.name(_source_of(plan, artifact)))


def _source_of(plan: Plan, artifact: Artifact) -> Source | None:
    """Where somebody has named the path, else the artifact."""
    path, named = (plan.sources.get(f"run.{artifact.name}.{key}") for key in ("path", "artifact"))
    return named if path is None or path.layer in _OF_NOBODY else path


def _of_run(plan: Plan, places: ShownPlaces) -> Iterator[PageRow]:
    """The rest of the `run` section, as far as somebody has written it."""
    others = {"env", *(artifact.name for artifact in (*plan.consumes, *plan.produces))}
    for name, value in flatten({key: value for key, value in plan.run.items() if key not in others}).items():
        source = plan.sources.get(f"run.{name}")
        if name not in _TITLE and _was_set(value, source) and not (source and source.layer in _OF_NOBODY):
            yield PageRow(f"run.{name}", value, places.name(source))


def _of_environment(plan: Plan, told: set[str]) -> Iterator[PageRow]:
    """Variables that follow from no row above, secrets by name, the script's own arguments.

    Args:
        told: paths that stand in a row already.
    """
    given = plan.run["env"].get("env_vars") or {}
    for variable in plan.env:
        follows = variable.name in given or variable.source.startswith("run.") or variable.value in told
        if not follows:
            yield PageRow(variable.name, variable.value, variable.source)
    for secret in plan.secrets:
        detail = f": {secret.detail}" if secret.detail else ""
        yield PageRow(secret.name, "(secret)", f"{secret.origin}{detail}")
    if plan.launch.args:
        made = plan.recipe.kind == BUILD
        yield PageRow("arguments", shlex.join(plan.launch.args), "made of the config" if made else COMMAND_LINE)


def _of_config(plan: Plan, places: ShownPlaces) -> Iterator[PageRow]:
    """Values of the config that its files do not have."""
    for path, value in flatten(plan.config).items():
        source = plan.sources.get(path)
        if source is None or not _is_yaml(source):
            yield PageRow(path, value, places.name(source))
    for override in plan.overrides:
        if override.startswith("~"):
            yield PageRow(override.partition("=")[0], "(taken away)", COMMAND_LINE)


def _is_yaml(source: Source) -> bool:
    return source.layer is Layer.YAML


def _was_set(value: Any, source: Source | None) -> bool:
    return value not in _UNSET and (source is None or source.layer is not Layer.DEFAULT)

"""Rules over a plan: what a profile must have for what a recipe needs; held before a submission and by `env check`.

A rule that is broken stops a plan where the job could only fail or hang; where it may be meant it is a warning. A
profile that is named after a step, `<target>_<step>`, is there for that step alone: it asks for nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.backends import find_backend
from nemo_runspec.catalog import STEPS
from nemo_runspec.errors import UserError
from nemo_runspec.planning.kept import storage_of
from nemo_runspec.planning.rl_placement import misplaced, placement_of
from nemo_runspec.plans.model import Plan
from nemo_runspec.profiles.common import COMMON
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.profiles.profile import one_or_all
from nemo_runspec.source import Layer

_OF_IMAGES = ("/opt/", "/usr/", "/etc/", "/tmp/", "/workspace/", "/root/", "/var/", "/dev/", "/proc/", "/sys/")
"""Where paths of a config mean the image's own files."""

_NAMES_A_PATH = re.compile(
    r"path|dir|file|folder|root|data|model|checkpoint|ckpt|tokenizer|output|input|cache|load|save"
)
"""In the last words of a key whose absolute path is one of data or of a model, and no address."""


@dataclass(frozen=True)
class RuleCase:
    """What the rules look at.

    Args:
        gpus: as `wanted_gpus`.
    """

    plan: Plan
    gpus: int | None

    @property
    def named(self) -> bool:
        """True if the profile is named after the recipe's step."""
        return is_named_after(self.plan.profile or "", self.plan.recipe.path)


@dataclass(frozen=True)
class RuleFinding:
    """What breaks a rule. `key`: the value of the plan that says it, for its place; `stops`: or it is a warning."""

    what: str
    key: str
    remedy: str
    stops: bool = True


class BrokenRule(UserError):
    """A profile and a recipe that do not fit each other."""


def guarded(plan: Plan, gpus: int | None) -> Plan:
    """The plan, with what is odd about it among its warnings.

    Args:
        gpus: as `RuleCase.gpus`.

    Raises:
        UserError: what its job could only fail or hang with, all of it at once.
    """
    found = findings(plan, gpus)
    errors: list[UserError] = [
        BrokenRule(each.what, where=_place(plan, each.key), remedy=each.remedy) for each in found if each.stops
    ]
    if errors:
        raise one_or_all(f"{plan.recipe.path.removeprefix(f'{STEPS}/')} on profile '{plan.profile}' has", errors)
    return replace(plan, warnings=(*plan.warnings, *(warning_of(plan, each) for each in found)))


def findings(plan: Plan, gpus: int | None) -> list[RuleFinding]:
    """What breaks a rule. Args: as of `guarded`."""
    return [finding for rule in RULES for finding in rule(RuleCase(plan, gpus))]


def warning_of(plan: Plan, finding: RuleFinding) -> str:
    """A finding as one line."""
    place = _place(plan, finding.key)
    return f"{finding.what}{f' ({place})' if place else ''}; fix: {finding.remedy}"


def is_named_after(profile: str, path: str) -> bool:
    """True if a profile is named after a step, `<target>_<step>`, as generated env files have them."""
    step = path.removeprefix(f"{STEPS}/").replace("/", "_")
    return path.startswith(f"{STEPS}/") and profile.endswith(f"_{step}")


def _unused_gpus(case: RuleCase) -> Iterator[RuleFinding]:
    """A recipe without GPUs gets none: the profile must be able to run it on CPUs."""
    plan = case.plan
    asked = plan.target.gpus(plan.resources)
    keys = [f"run.env.{key}" for key in _asking_for_gpus(plan) if _is_said(plan, f"run.env.{key}")]
    if case.gpus != 0 or not asked or not keys or _is_typed(plan, keys):
        return
    key = keys[0]
    yield RuleFinding(
        f"{_gpus(asked)} would be taken for a recipe that uses none",
        key,
        "leave GPUs out of the profile, or name one for CPUs",
        stops=case.named,
    )


def _ray_cores(case: RuleCase) -> Iterator[RuleFinding]:
    """Ray starts a process per GPU and some of its own, and places nothing on a node with fewer cores."""
    plan = case.plan
    cores, needed = plan.target.cores(plan.resources), max(plan.resources.gpus_per_node + 1, 2)
    if plan.launch.kind != "ray" or cores is None or cores.number >= needed:
        return
    there = f"{cores.number} CPU core{'s' * (cores.number != 1)}"
    yield RuleFinding(
        f"Ray would have {there} per node, and needs {needed}: one for each GPU, and one for itself",
        f"run.env.{cores.key}",
        f"run.env.{cores.key}={max(2 * plan.resources.gpus_per_node, 4)} or more",
        stops=cores.told,
    )


def _rl_placement(case: RuleCase) -> Iterator[RuleFinding]:
    """An RL job has the GPUs that training, generation and the reward model add up to."""
    plan = case.plan
    placement = placement_of(plan.config) if plan.launch.kind == "ray" else None
    if placement is not None:
        known = plan.target.gpus_of_node(plan.resources)
        per_node = plan.resources.gpus_per_node if known is None else known
        for found in misplaced(placement, plan.resources.nodes, per_node):
            yield RuleFinding(found.what, _asked_by(plan, found.key), found.remedy, stops=found.stops)


def _asked_by(plan: Plan, key: str) -> str:
    """The key of the profile that says how large the job is, where what has no room is the whole of it."""
    cluster, _, size = key.rpartition(".")
    if cluster.rpartition(".")[2] != "cluster":
        return key
    keys = {"num_nodes": ("nodes",), "gpus_per_node": _asking_for_gpus(plan)}.get(size, ())  # NeMo-RL's keys → ours
    return next((f"run.env.{each}" for each in keys if _is_said(plan, f"run.env.{each}")), key)


def _asking_for_gpus(plan: Plan) -> tuple[str, ...]:
    """Keys of the executor by which GPUs are asked for, its own first, as they decide where both are set."""
    backend = find_backend(plan.executor)
    keys = (*(backend.fields if backend else ()), *COMMON)
    return tuple(dict.fromkeys(key.name for key in keys if key.asks_gpus))


def _unseen_paths(case: RuleCase) -> Iterator[RuleFinding]:
    """Paths of data and models that a config names lie on a mount."""
    plan = case.plan
    storage = storage_of(plan)
    if storage is None or storage.whole:
        return
    mounts = ", ".join(mount.target for mount in storage.mounts if mount.source != plan.job_dir)
    for key, path in _paths(plan):
        if why := storage.why_absent(path):
            item = storage.example.replace("{path}", f"/{path.split('/')[1]}")
            what = f"{key}: {path} {why}{f' ({mounts})' if mounts else ''}, so only the image can have it"
            yield RuleFinding(what, key, f"add to {storage.key}: {item}", stops=False)


def _paths(plan: Plan) -> Iterator[tuple[str, str]]:
    """Absolute paths of data and models: those that are named as inputs, and those in the config; each once."""
    seen = {artifact.path for artifact in (*plan.consumes, *plan.produces) if artifact.artifact}
    named = {f"run.{artifact.name}.path": artifact.path for artifact in plan.consumes}
    for key, value in {**named, **flatten(plan.config)}.items():
        if not _NAMES_A_PATH.search(".".join(key.lower().split(".")[-2:])):
            continue
        for path in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(path, str) and _is_path(path) and path not in seen:
                seen.add(path)
                yield key, path


def _is_path(text: str) -> bool:
    return text.startswith("/") and text.count("/") > 1 and not text.startswith(_OF_IMAGES)


RULES: tuple[Callable[[RuleCase], Iterator[RuleFinding]], ...] = (
    _unused_gpus, _ray_cores, _rl_placement, _unseen_paths,
)  # fmt: skip
"""That parents exist and that mounts have the executor's shape is held where profiles are read and targets are made."""


def _is_said(plan: Plan, key: str) -> bool:
    """True if the profile or the command line says it."""
    source = plan.sources.get(key)
    return source is not None and source.layer in (Layer.PROFILE, Layer.CLI) and bool(plan.run["env"].get(key[8:]))


def _is_typed(plan: Plan, keys: list[str]) -> bool:
    """True if somebody has typed one of them for this job: it is meant."""
    return any(plan.sources[key].layer is Layer.CLI for key in keys)


def _place(plan: Plan, key: str) -> str | None:
    """Where a value was written, or the nearest table above it."""
    while key:
        source = plan.sources.get(key)
        if source is not None and (source.file or source.layer is Layer.CLI):
            return source.place()
        inside = (each for path, each in plan.sources.items() if path.startswith(f"{key}.") and each.file)
        if (found := next(inside, None)) is not None:
            return found.place()
        key = key.rpartition(".")[0]
    return plan.env_file


def _gpus(number: int) -> str:
    return f"{number} GPU{'s' * (number != 1)}"


def wanted_gpus(header: int | None, yaml: Mapping[str, Any]) -> int | None:
    """GPUs per node that a recipe may use: as its `run.env` asks for, else its header; None where neither says.

    That a small configuration of it does without them says nothing of the profiles for it.
    """
    env = yaml.get("env")
    said = env.get("gpus_per_node") if isinstance(env, Mapping) else None
    return said if isinstance(said, int) and said else header

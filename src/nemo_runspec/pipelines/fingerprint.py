"""Fingerprints of stages: a few digests, so that a later run knows whether it would make the same."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.artifacts.store import latest_path
from nemo_runspec.backends import get_backend
from nemo_runspec.plans.model import BUNDLED, Artifact, Plan

PARTS = ("code", "config", "place", "inputs")
"""In the order in which they are told. `place`: where the outputs lie; `inputs`: what the stage reads."""

_MOST_FILES = 10_000
_OWN = frozenset({"name", "mode", "profile", "wandb", "env", "artifacts", "output_dir", "config", "recipe"})
"""Keys of `run` that say how and where a stage runs, and not what it makes."""


def fingerprint(plan: Plan, handed: Mapping[str, str]) -> dict[str, str]:
    """The digests of one stage.

    Args:
        handed: input → the job that makes it, of those that come from an earlier stage.
    """
    names = {plan.name: "{job}"} | {a.path: f"{{{a.name}}}" for a in (*plan.consumes, *plan.produces) if a.path}
    return {
        "code": _digest([plan.bundle.digest, _package(plan), _command(plan), _image(plan)]),
        "config": _digest(_neutral([plan.config, _run(plan), _variables(plan)], names)),
        "place": _digest([plan.run["artifacts"]["root"], _outputs(plan)]),
        "inputs": _digest([_inputs(plan, handed)]),
    }


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The parts that differ."""
    return [part for part in PARTS if before.get(part) != now.get(part)]


def _package(plan: Plan) -> Any:
    """The code package's digest. One that there was too much to read for is like no other."""
    return plan.name if plan.package.kind != "none" and not plan.package.digest else plan.package.digest


def _command(plan: Plan) -> Any:
    launch, python = plan.launch, plan.python
    head = [launch.head_setup, launch.head_only] if launch.head_setup or launch.head_only else []
    parts = [launch.kind, launch.cmd, launch.args, launch.setup, python.dependencies, python.requires_python, python.uv]
    return [*parts, *head]


def _image(plan: Plan) -> str:
    return str(plan.target.container_image or "")


def _run(plan: Plan) -> Any:
    artifacts = {a.name for a in (*plan.consumes, *plan.produces)}
    return {key: value for key, value in plan.run.items() if key not in _OWN | artifacts}


def _variables(plan: Plan) -> Any:
    given = plan.run["env"].get("env_vars") or {}
    return {key: value for key, value in given.items() if not key.startswith(("NEMO_RUN_DIR", "WANDB_"))}


def _outputs(plan: Plan) -> Any:
    return [[a.name, (a.path or "").replace(plan.name, "{job}")] for a in plan.produces]


def _inputs(plan: Plan, handed: Mapping[str, str]) -> Any:
    local = not get_backend(plan.executor).remote
    return [[a.name, handed.get(a.name) or _from_outside(a, plan, local=local)] for a in plan.consumes]


def _from_outside(artifact: Artifact, plan: Plan, *, local: bool) -> Any:
    """What identifies an input; where only the job will know which version is the newest, nothing is the same."""
    path = artifact.path
    is_open = not local and bool(path and artifact.artifact and path.endswith(latest_path("", artifact.artifact)))
    return plan.name if is_open else _of_path(path, local=local)


def _of_path(path: str | None, *, local: bool) -> Any:
    """An input from outside: its path, and on this machine how large it is and when it was changed last."""
    if not path or not local or path.startswith(BUNDLED):
        return path
    sizes = sorted(_stats(Path(path)))
    return [path, len(sizes), sum(size for size, _ in sizes), max((when for _, when in sizes), default=0)]


def _stats(path: Path) -> Sequence[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    folders = [str(path)] if path.is_dir() else []
    if not folders and path.exists():
        known = path.stat()
        return [(known.st_size, known.st_mtime_ns)]
    for folder in folders:
        for parent, _, files in os.walk(folder):
            for name in files:
                known = os.lstat(f"{parent}/{name}")
                found.append((known.st_size, known.st_mtime_ns))
            if len(found) > _MOST_FILES:
                return found
    return found


def _neutral(value: Any, names: Mapping[str, str]) -> str:
    """As text, with what is different in every run put out."""
    text = json.dumps(value, sort_keys=True, default=str)
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text


def _digest(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

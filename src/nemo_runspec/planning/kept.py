"""Checks that what a job writes outlives it, and that what it reads is there: from the plan alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.paths import below
from nemo_runspec.plans.model import Artifact, Plan
from nemo_runspec.plans.storage import Storage
from nemo_runspec.source import Layer


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A path that a job is told. `what`: in words; `key`: the value of the plan that says it, for its place."""

    what: str
    path: str
    key: str


def storage_of(plan: Plan) -> Storage | None:
    """What a plan's paths lie on; None for a backend that does not tell."""
    target = plan.target
    return target.storage(plan.job_dir)


def problems_of(plan: Plan) -> list[UserError]:
    """What would be lost when the job ends, or is not there when it starts, each with its place and its mend."""
    storage = storage_of(plan)
    if storage is None:
        return []
    lost = [_lost(plan, told, why, storage) for told in written_by(plan) if (why := storage.why_lost(told.path))]
    absent = [_absent(plan, told, why, storage) for told in _read_by(plan) if (why := storage.why_absent(told.path))]
    return [*lost, *absent]


def problem_lines(plan: Plan) -> list[str]:
    """The same as one line each."""
    return [f"{each.what}; fix: {each.remedy}" for each in problems_of(plan)]


def written_by(plan: Plan) -> Iterator[NamedPath]:
    """The paths that a job is told to write: what its recipe makes, `run.output_dir` where something names it, and a
    `NEMO_RUN_DIR` of the user's own."""
    made = [artifact for artifact in plan.produces if artifact.path]
    yield from (NamedPath(f"output '{a.name}'", str(a.path), _key(plan, a)) for a in made)
    folder = plan.run.get("output_dir")
    if isinstance(folder, str) and all(folder != artifact.path for artifact in made) and _is_told(plan, folder):
        yield NamedPath("run.output_dir", folder, "run.output_dir")
    own = ((plan.run.get("env") or {}).get("env_vars") or {}).get("NEMO_RUN_DIR")
    if own:
        yield NamedPath("NEMO_RUN_DIR", str(own), "run.env.env_vars.NEMO_RUN_DIR")


def _read_by(plan: Plan) -> Iterator[NamedPath]:
    """The versions of artifacts that it reads. What lies at a path that somebody named may be the image's own."""
    stored = (artifact for artifact in plan.consumes if artifact.artifact and artifact.path)
    yield from (NamedPath(f"input '{a.name}'", str(a.path), _key(plan, a)) for a in stored)


def _is_told(plan: Plan, folder: str) -> bool:
    """True if the script or a variable names a folder, or what is below it."""
    texts = [*_texts(plan.config), *(variable.value for variable in plan.env), *plan.launch.args]
    return any(below(text, folder) for text in texts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (text for each in value for text in _texts(each))
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))


def _key(plan: Plan, artifact: Artifact) -> str:
    """What says where an artifact lies: the store's root, or a path that was named."""
    root = (plan.run.get("artifacts") or {}).get("root")
    return "run.artifacts.root" if root and below(str(artifact.path), str(root)) else f"run.{artifact.name}.path"


def _lost(plan: Plan, told: NamedPath, why: str, storage: Storage) -> UserError:
    what = f"{told.what} would be lost when the job ends: {told.path} {why}"
    return UserError(what, where=_place(plan, told.key), remedy=_mend(told, storage))


def _absent(plan: Plan, told: NamedPath, why: str, storage: Storage) -> UserError:
    what = f"{told.what} cannot be read: {told.path} {why}"
    return UserError(what, where=_place(plan, told.key), remedy=_mend(told, storage))


def _mend(told: NamedPath, storage: Storage) -> str:
    place = f"/{told.path.strip('/').split('/')[0]}" if told.path.startswith("/") else "/data"
    item = storage.example.replace("{path}", place)
    below_a_mount = next((mount.target for mount in storage.mounts if not mount.lost), "")
    other = f", or set {told.key} to a path below {below_a_mount}" if below_a_mount else ""
    return f"add to {storage.key}: {item}{other}"


def _place(plan: Plan, key: str) -> str | None:
    """Where a path was written; of one that follows from the directory for jobs, where that was."""
    found = (plan.sources.get(name) for name in (key, f"run.env.{get_backend(plan.executor).run_dir_key}"))
    written = (source for source in found if source and (source.file or source.layer is Layer.CLI))
    return next((source.place() for source in written), plan.env_file)

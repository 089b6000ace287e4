"""The inputs and outputs of a plan put into its composition, so that the rest of it can refer to where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.artifacts.changes import NUMBERED
from nemo_runspec.artifacts.store import BUCKETS
from nemo_runspec.artifacts.wandb import BACKEND, is_asked
from nemo_runspec.config.compose import Composition
from nemo_runspec.errors import UserError
from nemo_runspec.planning.artifacts import MAKE, SettledVersions, inputs_of, outputs_of, settled_root, with_checkers
from nemo_runspec.planning.made_types import require_made_type
from nemo_runspec.planning.references import reference_of
from nemo_runspec.planning.run_section import AUTO
from nemo_runspec.plans.model import Artifact
from nemo_runspec.runspec import Runspec


@dataclass(frozen=True, slots=True)
class Placed:
    """What a recipe reads and writes, with the paths as its job names them. `root`: the folder of the store."""

    consumes: tuple[Artifact, ...]
    produces: tuple[Artifact, ...]
    warnings: tuple[str, ...] = ()
    root: str = ""


def place_artifacts(
    composition: Composition,
    spec: Runspec,
    job: str,
    run_dir: str,
    *,
    local: bool,
    settled: SettledVersions = SettledVersions(),  # noqa: B008  (frozen)
) -> Placed:
    """Settles where the artifacts lie, and writes that and `run.output_dir` into the composition.

    Args:
        job: the job's name, of which outputs are a version.
        run_dir: what `NEMO_RUN_DIR` is for the job.
        settled: as `inputs_of`.
        local: whether the job's paths are paths of this machine.

    Raises:
        UserError: a `make` that does not exist, or an input of a type that is not taken.
    """
    run: dict[str, Any] = {
        item.name: composition.resolved(f"run.{item.name}") for item in (*spec.consumes, *spec.produces)
    }
    uses_store = any(table.get("artifact") and not table.get("path") for table in run.values())
    root = _root(composition, run_dir, local=local, uses_store=uses_store)
    in_bucket = str(composition.select("run.artifacts.root")).startswith(BUCKETS)
    asked = is_asked(composition.resolved("run.artifacts"), composition.resolved("run.wandb"))
    if not asked:
        _refuse_numbers(composition, run)
    try:
        consumes = inputs_of(spec, run, root, settled, local=local, later=in_bucket or asked)
    except UserError as error:
        raise error.at(composition.place(f"{error.key}.artifact") if error.key else None) from None
    produces = outputs_of(spec, run, root, job, local=local)
    for artifact in (*consumes, *produces):
        _require_make(composition, artifact)
        _put_path(composition, artifact, run[artifact.name].get("path"))
    for artifact in consumes:
        _put_reference(composition, artifact)
        _require_type(composition, artifact)
    if composition.select("run.output_dir") is None:
        first = next((a.path for a in produces if a.path), None)
        composition.put("run.output_dir", first or f"{run_dir}/outputs/{job}", AUTO)
    if composition.select("run.artifacts.check") is not False:
        consumes, produces = with_checkers(consumes), with_checkers(produces)
    return Placed(consumes, produces, _of_wandb(composition) if run else (), root)


def _root(composition: Composition, run_dir: str, *, local: bool, uses_store: bool) -> str:
    """The folder of the store; of one in a bucket, that in which the job has what it reads and writes."""
    named = composition.select("run.artifacts.root")
    if str(named).startswith(BUCKETS):
        return f"{run_dir}/artifacts"
    root = str(named or f"{run_dir}/artifacts")
    own = root.startswith(f"{run_dir}/")  # which may begin with a home directory that only the platform knows
    if local or (named and uses_store and not own):
        try:
            root = settled_root(root, local=local)
        except UserError as error:
            raise UserError(
                error.what, where=composition.place("run.artifacts.root") if named else None, remedy=error.remedy
            ) from None
    if root != named:
        source = composition.source_of("run.artifacts.root") if named else None
        composition.put("run.artifacts.root", root, source or AUTO)
    return root


def _require_make(composition: Composition, artifact: Artifact) -> None:
    if artifact.make is not None and artifact.make not in MAKE:
        raise UserError(
            f"run.{artifact.name}.make must be one of {', '.join(MAKE)}, not {artifact.make!r}",
            where=composition.place(f"run.{artifact.name}.make"),
        )


def _require_type(composition: Composition, artifact: Artifact) -> None:
    try:
        require_made_type(artifact)
    except UserError as error:
        raise error.at(composition.place(f"run.{artifact.name}.artifact")) from None


def _put_path(composition: Composition, artifact: Artifact, named: str | None) -> None:
    if artifact.path and artifact.path != named:
        source = composition.source_of(f"run.{artifact.name}.path") if named is not None else None
        composition.put(f"run.{artifact.name}.path", artifact.path, source or AUTO)


def _put_reference(composition: Composition, artifact: Artifact) -> None:
    """The name and the version apart, so that the rest can refer to them."""
    words = {"artifact": artifact.artifact, "version": artifact.version}
    for key, value in words.items():
        path = f"run.{artifact.name}.{key}"
        if value and composition.select(path) != value:
            composition.put(path, value, composition.source_of(f"run.{artifact.name}.artifact") or AUTO)


def _refuse_numbers(composition: Composition, run: Mapping[str, Any]) -> None:
    """Raises `UserError` for a version by its number where W&B numbers them, and is not asked."""
    if composition.select("run.artifacts.backend") != BACKEND:
        return
    for name, table in run.items():
        _, wanted = reference_of(table) if table and not table.get("path") else (None, "")
        if NUMBERED.match(wanted):
            raise UserError(
                f"'{table['artifact']}': W&B numbers versions, and it is not asked (run.wandb.mode)",
                where=composition.place(f"run.{name}.artifact"),
                remedy="name the job that made it, NAME:JOB, or the newest one, NAME",
            )


def _of_wandb(composition: Composition) -> tuple[str, ...]:
    """What is odd about artifacts that W&B is told of.

    Raises:
        UserError: nobody says of which project.
    """
    if composition.select("run.artifacts.backend") != BACKEND:
        return ()
    if not composition.select("run.wandb.project"):
        raise UserError(
            '[artifacts] backend = "wandb" needs to know of which project',
            where=composition.place("run.artifacts.backend"),
            remedy='[wandb] project = "NAME", or run.wandb.project=NAME',
        )
    if composition.select("run.wandb.mode") == "disabled":
        return ("W&B is disabled (run.wandb.mode): what this job makes is a version in its store alone",)
    if composition.select("run.env.array"):
        return ("what the tasks of an array make together is a version in its store alone, not at W&B",)
    return ()

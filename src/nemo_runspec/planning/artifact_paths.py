"""The inputs and outputs of a plan put into its composition, so that the rest of it can refer to where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from nemo_runspec.config.compose import Composition
from nemo_runspec.errors import UserError
from nemo_runspec.planning.artifacts import MAKE, inputs_of, outputs_of, settled_root
from nemo_runspec.planning.run_section import AUTO
from nemo_runspec.plans.model import Artifact
from nemo_runspec.runspec import Runspec
from nemo_runspec.source import Layer


@dataclass(frozen=True, slots=True)
class Placed:
    """What a recipe reads and writes, with the paths as its job names them."""

    consumes: tuple[Artifact, ...]
    produces: tuple[Artifact, ...]
    warnings: tuple[str, ...] = ()


def place_artifacts(
    composition: Composition,
    spec: Runspec,
    job: str,
    run_dir: str,
    *,
    local: bool,
    versions: Mapping[str, str] = MappingProxyType({}),
) -> Placed:
    """Settles where the artifacts lie, and writes that and `run.output_dir` into the composition.

    Args:
        job: the job's name, of which outputs are a version. `run_dir`: what `NEMO_RUN_DIR` is for the job.
        versions: as `inputs_of`.
        local: whether the job's paths are paths of this machine.

    Raises:
        UserError: a `make` that does not exist.
    """
    run: dict[str, Any] = {
        item.name: composition.resolved(f"run.{item.name}") for item in (*spec.consumes, *spec.produces)
    }
    uses_store = any(table.get("artifact") and not table.get("path") for table in run.values())
    root = _root(composition, run_dir, local=local, uses_store=uses_store)
    consumes = inputs_of(spec, run, root, versions, local=local)
    produces = outputs_of(spec, run, root, job, local=local)
    for artifact in (*consumes, *produces):
        _require_make(composition, artifact)
        _put_path(composition, artifact, run[artifact.name].get("path"))
    if composition.select("run.output_dir") is None:
        first = next((a.path for a in produces if a.path), None)
        composition.put("run.output_dir", first or f"{run_dir}/outputs/{job}", AUTO)
    return Placed(consumes, produces, _warnings(composition) if run else ())


def _root(composition: Composition, run_dir: str, *, local: bool, uses_store: bool) -> str:
    """The folder of the file store."""
    named = composition.select("run.artifacts.root")
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


def _put_path(composition: Composition, artifact: Artifact, named: str | None) -> None:
    if artifact.path and artifact.path != named:
        source = composition.source_of(f"run.{artifact.name}.path") if named is not None else None
        composition.put(f"run.{artifact.name}.path", artifact.path, source or AUTO)


def _warnings(composition: Composition) -> tuple[str, ...]:
    """That somebody asks for a store there is not. By default nobody does, see `artifact_backend`."""
    source = composition.source_of("run.artifacts.backend")
    asked = source is not None and source.layer is not Layer.DEFAULT
    if not asked or composition.select("run.artifacts.backend") != "wandb":
        return ()
    return ("artifacts are kept in the file store: the wandb backend is not built in this release",)

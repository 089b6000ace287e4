"""Which of a workspace's resource shapes has the GPUs that a plan asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runspec.backends.lepton.api import LeptonApi, id_of, section
from nemo_runspec.errors import UserError
from nemo_runspec.transport.reading import count, number, text, texts


def resolve_shape(api: LeptonApi, gpus: int, group: str = "") -> str:
    """The only shape with exactly that many GPUs per node. Raises `UserError` where there is none, or another.

    Args:
        group: id of the node group that is to have it; '' for any.
    """
    shapes = job_shapes(api, group)
    fitting = sorted({id_of(shape) for shape in shapes if gpus_of(shape) == gpus})
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UserError(
            f"resource_shape: {len(fitting)} shapes have {gpus} GPUs per node",
            remedy=f"name one of them: {', '.join(fitting)}",
        )
    have = ", ".join(described(shapes)) or "none for jobs"
    where = "that node group" if group else "the workspace"
    raise UserError(f"resource_shape: no shape of {where} has {gpus} GPUs per node", remedy=f"shapes there are: {have}")


def job_shapes(api: LeptonApi, group: str = "") -> list[dict[str, Any]]:
    """The shapes that jobs may have, of one node group where it is named by its id."""
    found = []
    for shape in api.shapes(group):
        spec = section(shape, "spec")
        listed, of_group = texts(spec.get("listable_in")), text(spec.get("node_group_id"))
        if (not listed or "job" in listed) and (not group or not of_group or of_group == group):
            found.append(shape)
    return found


def gpus_of(shape: Mapping[str, Any]) -> float:
    """GPUs of a node of this shape; a part of one where it shares it."""
    spec = section(shape, "spec")
    part = number(spec.get("accelerator_fraction"))
    return part if part is not None and 0 < part < 1 else float(count(spec.get("accelerator_num")) or 0)


def described(shapes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each shape with its GPUs, the fewest first, each once."""
    pairs = {id_of(shape): gpus_of(shape) for shape in shapes}
    ordered = sorted(pairs.items(), key=lambda pair: (pair[1], pair[0]))
    return [f"{id} ({gpus:g} GPU{'' if gpus == 1 else 's'})" for id, gpus in ordered]

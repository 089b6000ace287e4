"""The workload that is posted for a plan, with named holes for what only the platform knows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget
from nemo_runspec.backends.dgxcloud.spec import ATTEMPT, BOOT, DISTRIBUTED, TRAININGS, Spec, base_spec, merge
from nemo_runspec.backends.dgxcloud.spec import CARGO as CARGO_PIECE
from nemo_runspec.planning.model import Plan


class Hole(str):
    """The name of a value that only the platform knows; no text of a user's is one."""

    __slots__ = ()


PROJECT, CLUSTER, CARGO = Hole("PROJECT_ID"), Hole("CLUSTER_ID"), Hole("CARGO")
"""`CARGO` stands for variables, one or many."""


def kind_of(nodes: int) -> str:
    """Which of run:ai's kinds of workload a job is."""
    return DISTRIBUTED if nodes > 1 else TRAININGS


def payload_of(plan: Plan) -> dict[str, Any]:
    """The body of `POST /workloads/{kind}`, holes and all."""
    from nemo_runspec.backends.cloud.pod.program import boot_program

    target: DgxCloudTarget = plan.target
    variables = [
        {"name": BOOT, "value": boot_program()},
        {"name": ATTEMPT, "value": "0"},
        CARGO,
        *(_reference(name, reference) for name, reference in target.secret_vars.items()),
    ]
    spec = base_spec(
        image=target.container_image,
        nodes=plan.resources.nodes,
        gpus=plan.resources.gpus_per_node,
        pvcs=target.pvcs,
        framework=target.distributed_framework,
        variables=variables,
    )
    master = {"masterSpecSameAsWorker": True} if plan.resources.nodes > 1 else {}
    spec = merge(spec, target.custom_spec).spec
    return {"name": plan.name, "projectId": PROJECT, "clusterId": CLUSTER, **master, "spec": spec}


def holes_of(plan: Plan, payload: Mapping[str, Any]) -> tuple[str, ...]:
    """A line for each hole that is left: its name, what it is, and when it is filled."""
    meanings = _meanings(plan)
    return tuple(f"{hole}: {meanings[hole]}" for hole in dict.fromkeys(_open(payload)))


def fill(payload: Mapping[str, Any], facts: Mapping[Hole, Any]) -> dict[str, Any]:
    """The payload with these holes filled, the others as they are. A list of values takes a hole's place in a list."""
    filled: dict[str, Any] = _filled(payload, facts)
    return filled


def cargo_variables(words: Iterable[str]) -> list[Spec]:
    """The words of a cargo as the variables that boot.sh reads them from."""
    return [{"name": f"{CARGO_PIECE}{number}", "value": word} for number, word in enumerate(words)]


def credential_of(reference: str) -> str:
    """The credential of `credential/key`."""
    return reference.partition("/")[0]


def credential_hole(reference: str) -> Hole:
    """The hole of a reference's credential."""
    return Hole(f"SECRET:{credential_of(reference)}")


def as_text(payload: Mapping[str, Any]) -> str:
    """A payload as it is shown and kept; what is sent is this, read again."""
    return json.dumps(payload, indent=2, ensure_ascii=False) + "\n"


def _reference(name: str, reference: str) -> Spec:
    return {"name": name, "secret": {"name": credential_hole(reference), "key": reference.partition("/")[2]}}


def _meanings(plan: Plan) -> dict[Hole, str]:
    target: DgxCloudTarget = plan.target
    project = target.project_name or "the project"
    found = {
        PROJECT: f"the id of project {project}, asked for when it is submitted",
        CLUSTER: f"the id of the cluster of {project}, asked for when it is submitted",
        CARGO: "variables with the job's files, or where its pods fetch them, made when it is submitted",
    }
    for reference in target.secret_vars.values():
        name = credential_of(reference)
        found[credential_hole(reference)] = f"the cluster's secret of credential {name}, asked for when it is submitted"
    return found


def _open(value: Any) -> Iterator[Hole]:
    if isinstance(value, Hole):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _open(each)


def _filled(value: Any, facts: Mapping[Hole, Any]) -> Any:
    if isinstance(value, Hole):
        return facts.get(value, value)
    if isinstance(value, dict):
        return {key: _filled(each, facts) for key, each in value.items()}
    if isinstance(value, list):
        return [found for each in value for found in _spliced(each, facts)]
    return value


def _spliced(value: Any, facts: Mapping[Hole, Any]) -> list[Any]:
    found = _filled(value, facts)
    return found if isinstance(value, Hole) and isinstance(found, list) else [found]

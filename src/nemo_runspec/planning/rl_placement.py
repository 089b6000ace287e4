"""The placement of an RL job: training, generation and the reward model, and whether its cluster has room for them.

The rules are NeMo-RL's own (`setup` of nemo_rl/algorithms/grpo.py, 0.6): it asserts them once the job has its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ConfigTable = Mapping[str, Any]

_COLOCATED = "policy.generation.colocated"
_REWARD = "env.reward_model"


@dataclass(frozen=True)
class Placement:
    """What the config says of its cluster.

    Args:
        prefix: of the keys below, as the config has them: '' or such as `nemo_rl.`.
        nodes, gpus: of the cluster; the GPUs of each node.
        colocated: generation shares the GPUs of training.
        generation: nodes and GPUs per node of generation where it does not; None where nothing is said.
        reward: the same of the reward model; None where the config uses none.
        ranks: GPUs that one copy of the model is spread over while it is trained.
    """

    prefix: str
    nodes: int
    gpus: int
    colocated: bool = True
    generation: tuple[int | None, int | None] = (None, None)
    reward: tuple[int, int] | None = None
    ranks: int = 1


@dataclass(frozen=True)
class Misplaced:
    """What does not fit. `key`: the value of the config that says it; `stops`: or GPUs are merely left over."""

    what: str
    key: str
    remedy: str
    stops: bool = True


def placement_of(config: ConfigTable) -> Placement | None:
    """The placement that a composed config describes; None for one that is not NeMo-RL's."""
    for prefix, table in (("", config), *((f"{key}.", value) for key, value in config.items())):
        if isinstance(table, Mapping) and _count(table, "cluster.num_nodes") and "policy" in table:
            return _read(prefix, table)
    return None


def misplaced(placement: Placement, nodes: int, gpus: int) -> Iterator[Misplaced]:
    """What has no room on so many nodes with so many GPUs each."""
    yield from _beyond(placement, nodes, gpus)
    train = _left_for_training(placement)
    if isinstance(train, Misplaced):
        yield train
        return
    if train % placement.ranks:
        yield Misplaced(
            f"a copy of the model takes {placement.ranks} GPUs, of which {train} for training are no multiple",
            f"{placement.prefix}policy",
            "more nodes, or smaller tensor, pipeline or context parallel sizes",
        )


def _beyond(placement: Placement, nodes: int, gpus: int) -> Iterator[Misplaced]:
    for key, wanted, there, word in (
        ("num_nodes", placement.nodes, nodes, "nodes"),
        ("gpus_per_node", placement.gpus, gpus, "GPUs per node"),
    ):
        if wanted != there:
            more = f"run.env.{'nodes' if key == 'num_nodes' else key}={wanted}"
            what = f"the config places its models on {wanted} {word}, and the job has {there}"
            name = f"{placement.prefix}cluster.{key}"
            yield Misplaced(what, name, f"{more}, or {name}={there}", stops=wanted > there)


def _left_for_training(placement: Placement) -> int | Misplaced:
    """GPUs that are left for training."""
    reward = placement.reward or (0, 0)
    alone = placement.nodes == 1
    nodes = placement.nodes if alone else placement.nodes - reward[0]
    gpus = placement.gpus - reward[1] if alone else placement.gpus
    if nodes < 1 or gpus < 1:
        all_of_them = f"{placement.nodes} x {placement.gpus} GPUs"
        if placement.reward is None:
            key = f"{placement.prefix}cluster.{'gpus_per_node' if gpus < 1 else 'num_nodes'}"
            return Misplaced(f"{all_of_them} are none to train on", key, "as many as the job has")
        return Misplaced(
            f"the reward model takes {reward[0]} x {reward[1]} GPUs, which leaves nothing of {all_of_them}",
            f"{placement.prefix}{_REWARD}.resources.{'gpus_per_node' if alone else 'num_nodes'}",
            "more nodes, or fewer GPUs for the reward model",
        )
    if placement.colocated:
        return nodes * gpus
    return _beside_on_a_node(placement, gpus) if nodes == 1 else _beside_on_nodes(placement, nodes)


def _beside_on_a_node(placement: Placement, gpus: int) -> int | Misplaced:
    """What generation leaves of the one node that it shares with training."""
    nodes, taken = placement.generation
    if taken and taken < gpus and nodes in (None, 1):
        return gpus - taken
    name = f"{placement.prefix}{_COLOCATED}.resources"
    return Misplaced(
        f"generation beside training takes 1 to {gpus - 1} of {gpus} GPUs of one node, not {_said(nodes, taken)}",
        f"{name}.gpus_per_node",
        f"{name}.gpus_per_node={max(gpus // 2, 1)} {name}.num_nodes=1",
    )


def _beside_on_nodes(placement: Placement, nodes: int) -> int | Misplaced:
    """What generation leaves of several nodes, of which it takes whole ones."""
    taken, gpus = placement.generation
    if taken and taken < nodes and gpus == placement.gpus:
        return (nodes - taken) * gpus
    name = f"{placement.prefix}{_COLOCATED}.resources"
    return Misplaced(
        f"generation takes 1 to {nodes - 1} of {nodes} nodes, and all their GPUs, not {_said(taken, gpus)}",
        f"{name}.num_nodes",
        f"{name}.num_nodes={nodes // 2} {name}.gpus_per_node={placement.gpus}",
    )


def _said(nodes: int | None, gpus: int | None) -> str:
    return f"num_nodes = {nodes or 'null'} and gpus_per_node = {gpus or 'null'}"


def _read(prefix: str, table: ConfigTable) -> Placement:
    resources = f"{_COLOCATED}.resources"
    return Placement(
        prefix,
        nodes=_count(table, "cluster.num_nodes") or 1,
        gpus=_count(table, "cluster.gpus_per_node") or 0,
        colocated=_at(table, f"{_COLOCATED}.enabled") is not False,
        generation=(_count(table, f"{resources}.num_nodes"), _count(table, f"{resources}.gpus_per_node")),
        reward=_reward(table),
        ranks=_ranks(table),
    )


def _reward(table: ConfigTable) -> tuple[int, int] | None:
    """The reward model's nodes and GPUs per node, where a data set is judged by one."""
    uses = _at(table, f"{_REWARD}.enabled") is True or "reward_model" in _environments(table.get("data"))
    resources = _at(table, f"{_REWARD}.resources")
    if not uses or not isinstance(resources, Mapping):
        return None
    return _count(resources, "num_nodes") or 0, _count(resources, "gpus_per_node") or 0


def _environments(data: Any) -> Iterator[Any]:
    """The environments that data sets name."""
    if isinstance(data, Mapping):
        yield data.get("env_name")
        yield from (name for below in data.values() for name in _environments(below))
    elif isinstance(data, (list, tuple)):
        yield from (name for below in data for name in _environments(below))


def _ranks(table: ConfigTable) -> int:
    megatron = _at(table, "policy.megatron_cfg.enabled") is True
    inside = "policy.megatron_cfg." if megatron else "policy.dtensor_cfg."
    sizes = ("tensor_model_parallel_size", "pipeline_model_parallel_size") if megatron else ("tensor_parallel_size",)
    product = 1
    for size in (*sizes, "context_parallel_size"):
        product *= _count(table, inside + size) or 1
    return product


def _at(table: ConfigTable, path: str) -> Any:
    value: Any = table
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _count(table: ConfigTable, path: str) -> int | None:
    value = _at(table, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None

"""How the processes hold the model: each one a copy of it (DistributedDataParallel), or each one a part (FSDP2).

A checkpoint holds the whole model either way, so it is resumed by any number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from nano3.settings import SettingsError

from .ranks import Ranks
from .settings import Train

WHOLE = states.StateDictOptions(full_state_dict=True, cpu_offload=True)


def spread(model: Any, train: Train, ranks: Ranks) -> torch.nn.Module:
    """The model as training calls it. Make the optimizer after this: its parameters may be others then."""
    if not train.fully_shard:
        return DistributedDataParallel(model) if ranks.world_size > 1 else model
    if not dist.is_initialized():  # one process alone
        dist.init_process_group(
            "nccl" if ranks.device.type == "cuda" else "gloo", store=dist.HashStore(), rank=0, world_size=1
        )
    mesh = init_device_mesh(ranks.device.type, (ranks.world_size,))
    policy = MixedPrecisionPolicy()
    if train.precision == "bf16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:  # one at a time is whole, while it computes
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


@contextmanager
def gathered(model: torch.nn.Module) -> Iterator[None]:
    """Each process has the whole model meanwhile: it may ask it more or less often than the others do.

    Afterwards all parts are as `spread` has left them: FSDP2 keeps the outermost one whole between forward and
    backward, as it is needed again at once.
    """
    parts = [part for part in model.modules() if isinstance(part, FSDPModule)]
    try:
        for part in parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(part is not model, recurse=False)


def whole(value: torch.Tensor) -> torch.Tensor:
    """A number that the processes have together; all of them ask."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def state_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
    """The weights and the optimizer's state, whole, in the first process; all of them ask."""
    return states.get_state_dict(model, optimizer, options=WHOLE)  # type: ignore[return-value]


def give_state(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, weights: dict[str, Any], state: dict[str, Any]
) -> None:
    """Set both from whole ones, which every process has.

    Raises:
        SettingsError: the optimizer's state is not kept by the names of weights, as releases before 2026-11-23 left it.
    """
    if not all(isinstance(name, str) for name in state["state"]):
        raise SettingsError(
            "the checkpoint is of an earlier release, whose optimizer's state has no names; start anew in another "
            "output_dir, or leave checkpoint.load out"
        )
    states.set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state, options=WHOLE)

"""The processes that train together: which one this is, where it computes, and sums over all (one sum per call)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist

from nano3.settings import SettingsError

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Ranks:
    """This process among all; torchrun's environment says which. `device` is what it computes on."""

    rank: int
    world_size: int
    device: torch.device = CPU

    @property
    def is_first(self) -> bool:
        """Only the first process prints and writes."""
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """The sums over all processes, in double precision."""
        if self.world_size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor)
        return [float(value) for value in tensor]

    def parts(self, count: int) -> Iterator[Ranks]:
        """This process as `count` smaller ones, whose shares of a batch add up to its own."""
        for part in range(count):
            yield replace(self, rank=self.rank * count + part, world_size=self.world_size * count)

    def wait(self) -> None:
        """Return when every process has come here."""
        if self.world_size > 1:
            dist.barrier()


def choose_device(gpus: int, local_rank: int = 0, local_world_size: int = 1) -> torch.device:
    """What one of the processes of a machine computes on: a GPU of its own where each has one, else a processor.

    Args:
        gpus: how many of them torch sees.

    Raises:
        SettingsError: the job was given GPUs, and torch sees fewer than there are processes: nobody is to find out
            after hours that they were idle. Not where CUDA_VISIBLE_DEVICES is -1, which somebody has said.
    """
    if gpus >= local_world_size:
        return torch.device("cuda", local_rank)
    given = int(os.environ.get("NEMOTRON_GPUS_PER_NODE") or 0)
    if given and os.environ.get("CUDA_VISIBLE_DEVICES") != "-1":
        raise SettingsError(
            f"the job was given GPUs (gpus_per_node={given}), and torch {torch.__version__} sees {gpus}, which is not "
            f"one for each process of this machine ({local_world_size}); CUDA_VISIBLE_DEVICES=-1 in run.env.env_vars "
            "computes on processors"
        )
    return CPU


def join(threads: int) -> Ranks:
    """Join the other processes; each computes with so many threads. Raises `SettingsError` as `choose_device` does."""
    said = {name: int(os.environ.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    device = choose_device(torch.cuda.device_count(), said["LOCAL_RANK"], said["LOCAL_WORLD_SIZE"] or 1)
    ranks = Ranks(said["RANK"], said["WORLD_SIZE"] or 1, device)
    torch.set_num_threads(threads)
    on_gpus = device.type == "cuda"
    if on_gpus:
        torch.cuda.set_device(device)
    if ranks.world_size > 1:
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpus else "gloo")
    return ranks


def leave() -> None:
    """Leave the other processes."""
    if dist.is_initialized():
        dist.destroy_process_group()

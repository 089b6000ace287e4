"""The processes that train together: which one this is, and sums over all of them (gloo, one sum per call)."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist

MOST_THREADS = 4


@dataclass(frozen=True)
class Ranks:
    """This process among all; torchrun's environment says which."""

    rank: int
    world_size: int

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

    def wait(self) -> None:
        """Return when every process has come here."""
        if self.world_size > 1:
            dist.barrier()


def join(threads: int | None) -> Ranks:
    """Join the other processes, and share the processor's cores between those of this machine."""
    ranks = Ranks(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
    neighbours = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(threads or min(MOST_THREADS, max(1, cores // neighbours)))
    if ranks.world_size > 1:
        dist.init_process_group("gloo")
    return ranks


def leave(ranks: Ranks) -> None:
    """Leave the other processes."""
    if ranks.world_size > 1:
        dist.destroy_process_group()

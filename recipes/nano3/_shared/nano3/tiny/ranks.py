"""The processes that train together: which one this is, and sums over all of them (gloo, one sum per call)."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist


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


def join(threads: int) -> Ranks:
    """Join the other processes; each computes with so many threads."""
    ranks = Ranks(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
    torch.set_num_threads(threads)
    if ranks.world_size > 1:
        dist.init_process_group("gloo")
    return ranks


def leave(ranks: Ranks) -> None:
    """Leave the other processes."""
    if ranks.world_size > 1:
        dist.destroy_process_group()

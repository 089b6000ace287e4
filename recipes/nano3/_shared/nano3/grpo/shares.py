"""Which part of the cluster's GPUs each actor takes."""

from __future__ import annotations

import math


def gpu_share(gpus: float, actors: int) -> float:
    """GPUs for each of so many actors, as Ray's `num_gpus`: a whole one where there are enough, else a part of one.

    Ray gives a part of a GPU from one GPU alone, so those that share one are counted by GPU: three actors on two GPUs
    take a half each. Without a GPU it is 0, and they compute on processors.
    """
    whole = math.floor(gpus)
    return 1 / math.ceil(actors / whole) if whole else 0.0

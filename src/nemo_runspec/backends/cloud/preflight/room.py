"""Checks that a job's pods fit on the machines that there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemo_runspec.check import Check, failed, ok, warning


@dataclass(frozen=True, slots=True)
class Room:
    """GPUs of one machine. `total`: that it has; `free`: that nobody uses; 0 of them on one that takes no jobs."""

    total: int
    free: int


def room_check(where: str, rooms: Sequence[Room], nodes: int, gpus: int) -> Check:
    """Checks whether so many pods fit: not at all is a failure, not now a warning, as the job will wait.

    Args:
        where: in words.
        rooms: one for each machine that takes jobs.
        gpus: of one pod; 0 fits anywhere.
    """
    wanted = f"{nodes} node{'' if nodes == 1 else 's'} of {gpus} GPU{'' if gpus == 1 else 's'}"
    if gpus == 0:
        return ok("room", f"{where}: {len(rooms)} machines; the job asks for no GPU")
    ever, now = (sum(getattr(each, side) // gpus for each in rooms) for side in ("total", "free"))
    seen = f"{where}: {wanted} wanted, {now} free now, {ever} in all"
    if ever < nodes:
        return failed("room", seen, "ask for less (nodes, gpus_per_node), or for other nodes")
    if now < nodes:
        return warning("room", f"{seen}: the job will wait", "wait, or take other nodes; queue_timeout says how long")
    return ok("room", seen)

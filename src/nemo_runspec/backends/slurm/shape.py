"""How large a Slurm job is: GPUs asked for in any of sbatch's ways, and how many tasks its array has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends.checks import short
from nemo_runspec.errors import UserError

if TYPE_CHECKING:
    from nemo_runspec.backends.slurm.fields import SlurmTarget
    from nemo_runspec.plans.model import Resources

# `gpu`, `gpu:2`, `gpu:h100`, `gpu:h100:2`, `gpu=2`: sbatch's manual page, --gres.
_GRES = re.compile(r"(?:gres[:/])?gpu(?::(?P<type>[\w.-]*[A-Za-z][\w.-]*))?(?:[:=](?P<count>\d{1,9}))?", re.ASCII)

_TASKS = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", re.ASCII)
_MOST = 4_000_000
"""The largest number that Slurm gives a task, however it is set up (MaxArraySize, slurm.conf's manual page)."""


def gpus_of_job(target: SlurmTarget, resources: Resources) -> int | None:
    """GPUs over all nodes; None where one of the options is not understood, or nothing says what whole nodes have.

    `gpus_per_node`, else `gpus_per_task`, else `gres`; the larger number, where `additional_parameters` asks too.
    """
    extra = target.additional_parameters.items()
    counts = [_by_keys(target, resources), *(_by_option(*pair) for pair in extra if _asks_for_gpus(*pair))]
    known = [count for count in counts if count is not None]
    return max(known) if len(known) == len(counts) else None


def _by_keys(target: SlurmTarget, resources: Resources) -> int | None:
    if resources.gpus_per_node:
        return resources.nodes * resources.gpus_per_node
    if target.gpus_per_task:
        return resources.nodes * resources.nproc_per_node * target.gpus_per_task
    count = gpus_in(target.gres or "")
    return None if count is None or (target.gpus_untold and not count) else resources.nodes * count


def gpus_in(gres: str) -> int | None:
    """GPUs among generic resources: 6 in `gpu:a100:4(S:0-1),gpu:v100:2`; None where one of them is not understood."""
    items = [item.strip() for item in re.sub(r"\([^)]*\)", "", gres).split(",")]
    found = [_GRES.fullmatch(item) for item in items if item.startswith(("gpu", "gres"))]
    return sum(int(match["count"] or 1) for match in found if match) if all(found) else None


def array_size(array: str | None) -> int:
    """Tasks of `--array`: `0-99`, `1,3,5`, `0-15:4`, with or without `%N`; 1 without an array."""
    total = 0
    for part in (array or "").split("%")[0].split(","):
        if match := _TASKS.fullmatch(part):
            first, last, step = (int(text or 0) for text in match.groups())
            total += max(0, (last if match[2] else first) - first) // max(1, step) + 1
    return max(1, total)


def array_problem(array: str | None) -> list[UserError]:
    """What is wrong with an `array`, if anything."""
    if not array:
        return []
    tasks, sign, parallel = array.partition("%")
    matches = [_TASKS.fullmatch(part) for part in tasks.split(",")]
    whole = all(match and _MOST >= int(match[2] or match[1]) >= int(match[1]) for match in matches)
    if whole and (not sign or re.fullmatch(r"[0-9]{1,7}", parallel)):
        return []
    remedy = f"such as 0-7, 0-15:4 or 1,3,5%2, its numbers up to {_MOST:,}"
    return [UserError(f"array is not one that Slurm takes: {short(array)}", remedy=remedy, key="array")]


def _asks_for_gpus(option: str, value: Any) -> bool:
    """`gpus`, `gpus_per_socket`, and `tres_per_task` where it names them; `gpu_bind` and `gpu_freq` ask for none."""
    return option.startswith("gpus") or (option.startswith("tres") and "gpu" in str(value))


def _by_option(option: str, value: Any) -> int | None:
    """GPUs of the whole job in `--gpus=[type:]count,…`; None for every other option."""
    if option != "gpus" or isinstance(value, bool):
        return None
    counts = [part.rpartition(":")[2] for part in str(value).split(",")]
    return sum(map(int, counts)) if all(re.fullmatch(r"[0-9]{1,9}", count) for count in counts) else None

"""How many GPUs a draft asks of each node, and the most that a node of its partitions has, in use, free or down."""

from __future__ import annotations

import re

from nemo_runspec.backends.slurm.preflight.asking import Answer
from nemo_runspec.backends.slurm.preflight.draft import Draft

_OPTION = re.compile(r"^#SBATCH --(gpus-per-node|gres)=(\S+)$", re.MULTILINE)
_COUNT = re.compile(r"(?:^|,)(?:gres[:/])?gpu(?::[^:,(]+)?[:=]([0-9]{1,9})(?=[,(]|$)")


def too_many(draft: Draft, answer: Answer) -> str:
    """What is wrong where no node has so many; '' where one has, or where that is not known."""
    wanted, most = _wanted(draft), _most(draft, answer)
    if most is None or wanted <= most:
        return ""
    return f"{wanted} GPUs on a node are asked for, and none has more than {most}"


def _wanted(draft: Draft) -> int:
    said = [f"gpu:{words}" if name == "gpus-per-node" else words for name, words in _OPTION.findall(draft.script)]
    return max(map(_gpus, said), default=0)


def _most(draft: Draft, answer: Answer) -> int | None:
    """Out of sinfo's GRES, which stand in its rows whatever state the nodes are in (seen with 22.05)."""
    wanted = draft.partition.split(",") if draft.partition else answer.column("partitions", 0)
    rows = [row for row in answer["partitions"].rows if len(row) in (5, 6) and row[0] in wanted]
    return max((_gpus(row[3]) for row in rows), default=None)


def _gpus(gres: str) -> int:
    """`gpu:a100:4(S:0-1),gpu:v100:2` → 6."""
    return sum(map(int, _COUNT.findall(re.sub(r"\([^)]*\)", "", gres))))

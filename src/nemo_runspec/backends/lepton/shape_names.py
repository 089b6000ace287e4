"""The GPUs that a resource shape's name tells of. Pure: the workspace is asked in `shapes.py`."""

from __future__ import annotations

import math
import re

_COUNTED = re.compile(r"gpu\.(?P<count>\d{1,3}(?:\.\d{1,3})?)x[a-z][a-z0-9.-]*", re.ASCII)
_OF_ONE = frozenset({"gpu.a10", "gpu.a10.6xlarge", "gpu.a100-40gb", "gpu.a100-80gb", "gpu.h100-sxm"})
"""Those of leptonai's own list (`VALID_SHAPES`, 0.26) that name no number: a GPU each."""


def gpus_in(name: str) -> int | None:
    """GPUs of a node of a shape: 8 of `gpu.8xh100-sxm`, 0 of `cpu.small`, 1 for a part of one. None: not said."""
    if name.startswith("cpu."):
        return 0
    found = _COUNTED.fullmatch(name)
    if found:
        return math.ceil(float(found["count"]))
    return 1 if name in _OF_ONE else None

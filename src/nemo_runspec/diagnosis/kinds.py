"""Kinds of failures: whose fault each is, and whether another attempt is worth it. One table, for every backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

KNOWN = "known error"
"""An error that the recipe itself knows."""


class Fault(str, Enum):
    """Whose fault a failure is."""

    CODE = "user code"
    CONFIGURATION = "configuration"
    NODE = "node"
    PLATFORM = "platform"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """What follows from a failure's kind.

    Args:
        retry: True where another attempt may succeed though nothing was changed. What a job did itself it does again.
        event: what happened, behind "attempt 2 of 3 after"; '' for the kind itself.
    """

    fault: Fault
    retry: bool = False
    event: str = ""


def _all(kind: Kind, *names: str) -> dict[str, Kind]:
    return dict.fromkeys(names, kind)


KINDS: Mapping[str, Kind] = {
    **_all(
        Kind(Fault.CODE),
        "user code", "import error", "torchrun", "command not found", "missing file", "permission", "crash",
        "arguments", "setup", "out of GPU memory", "stall", "artifact", KNOWN,
    ),
    **_all(
        Kind(Fault.CONFIGURATION),
        "account", "constraint", "credentials", "dependency", "GPU driver", "image", "mounts", "no GPU",
        "out of memory", "partition", "port in use", "QoS", "Ray", "reservation", "shared memory", "time limit",
    ),
    **_all(Kind(Fault.PLATFORM), "cancelled", "capacity", "launch", "lost", "network", "registration", "storage"),
    **_all(Kind(Fault.UNKNOWN), "", "communication", "interrupted", "killed"),
    "eviction": Kind(Fault.PLATFORM, retry=True),
    "preemption": Kind(Fault.PLATFORM, retry=True),
    "node": Kind(Fault.NODE, retry=True, event="a bad node"),
    "node failure": Kind(Fault.NODE, retry=True),
    "Ray node": Kind(Fault.NODE, retry=True),
    "health check": Kind(Fault.NODE, retry=True),
    "bad GPU": Kind(Fault.NODE, retry=True),
}  # fmt: skip
"""By `Diagnosis.kind`."""


def kind_of(name: str) -> Kind:
    """What follows from a kind; nothing from one that a plug-in, or another release, has made up."""
    return KINDS.get(name) or KINDS[""]

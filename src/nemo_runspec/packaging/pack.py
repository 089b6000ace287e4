"""The archive of a plan's code package. (Being written: see the contract in the lead's message.)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.planning.model import Package


@dataclass(frozen=True, slots=True)
class Packed:
    """`archive`: None for kind none; `bytes`: of the archive."""

    archive: Path | None
    digest: str
    bytes: int


def pack(package: Package, say: Callable[[str], None]) -> Packed:
    """The archive of a plan's package."""
    raise NotImplementedError


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks it."""
    raise NotImplementedError

"""The oldest Python that this machine has and that the job side runs on."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_NAME = re.compile(r"python3(\.\d+)?")
_SAYS = "import sys; print(*sys.version_info[:2])"


@functools.cache
def oldest_python() -> Path:
    """Among those on `PATH` and beside the one that runs this; at worst that one itself."""
    found = {path: version for path in _candidates() if (version := _version(path)) >= (3, 6)}
    return min(found, key=lambda path: found[path], default=Path(sys.executable))


def _candidates() -> Iterator[Path]:
    beside = Path(sys.base_prefix).parent.glob("*/bin")
    for folder in (*map(Path, os.environ.get("PATH", "").split(os.pathsep)), *beside):
        yield from (path for path in folder.glob("python3*") if _NAME.fullmatch(path.name))


def _version(python: Path) -> tuple[int, ...]:
    """() where it does not run."""
    done = subprocess.run([python, "-I", "-S", "-c", _SAYS], capture_output=True, text=True, check=False)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()

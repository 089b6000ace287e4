"""Where a script of the user's own lies inside the code package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nemo_runspec.planning.model import Package


def folder_in_package(package: Package, script: str) -> str | None:
    """The folder of a script, as a path inside the package; None where what is packaged does not hold it.

    The parts of a `hybrid` package lie in folders of their own; nothing of it is taken for the script's.
    """
    folder = Path(os.path.realpath(script)).parent
    for base in map(Path, map(os.path.realpath, _bases(package))):
        if folder.is_relative_to(base):
            return folder.relative_to(base).as_posix()
    return None


def _bases(package: Package) -> Iterator[str]:
    """Folders whose content lies at the top of the package."""
    if package.root is None:
        return
    if package.kind == "git":
        yield f"{package.root}/{str(package.options.get('packager_subpath') or '').strip('/')}"
    elif package.kind == "pattern":
        folders = package.options.get("packager_relative_path") or "."
        yield from (str(Path(package.root, name)) for name in ([folders] if isinstance(folders, str) else folders))

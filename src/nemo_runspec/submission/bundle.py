"""The job bundle on its way into the job directory: read once, compared with the plan, written."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.packaging.bundle import digest
from nemo_runspec.plans.model import Bundle, BundleFile


def read_bundle(bundle: Bundle) -> dict[BundleFile, bytes]:
    """The bundle's files with their contents.

    Raises:
        UserError: a file is gone, or the recipe has changed since the plan was made.
    """
    contents = {file: _read(file) for file in bundle.files}
    if bundle.digest and digest({file.path: content for file, content in contents.items()}) != bundle.digest:
        changed = [file.path for file, content in contents.items() if len(content) != file.size]
        raise UserError(
            f"the recipe has changed since the plan was made: {', '.join(changed) or 'its contents differ'}",
            where=str(Path(bundle.files[0].source).parent) if bundle.files else None,
            remedy="make the plan again",
        )
    return contents


def write_bundle(contents: dict[BundleFile, bytes], folder: Path) -> None:
    """Lays the files out below a folder; what was executable stays so."""
    paths.private_dir(folder)
    for file, content in contents.items():
        target = folder / PurePosixPath(file.path)
        paths.private_dir(target.parent)
        target.write_bytes(content)
        target.chmod(0o700 if os.access(file.source, os.X_OK) else 0o600)


def _read(file: BundleFile) -> bytes:
    path = PurePosixPath(file.path)
    if path.is_absolute() or ".." in path.parts:
        raise UserError(f"a path of the plan's bundle leads out of it: {file.path}")
    try:
        return Path(file.source).read_bytes()
    except OSError as error:
        raise UserError(
            f"cannot read {file.source}: {error.strerror}", where=file.source, remedy="make the plan again"
        ) from None

"""The place of a folder of this machine in a package. Told by the package's options alone: no file is looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nemo_runspec.packaging.model import Unready
from nemo_runspec.packaging.options import PackagePart, parts_of
from nemo_runspec.plans.model import Package


def places_in_package(package: Package, folder: Path) -> tuple[str, ...]:
    """Paths in the package where a folder may lie, the likeliest first; none where no part reaches it.

    Several parts may reach a folder, and which of its files each brings is another matter. A part that begins nearer to
    the folder comes first, and what is in git before what patterns add.
    """
    if package.root is None or package.kind == "none":
        return ()
    here = Path(os.path.realpath(folder))
    found = [
        (-len(base.parts), rank, prefix + here.relative_to(base).as_posix())
        for rank, base, prefix in _bases(package)
        if here.is_relative_to(base)
    ]
    return tuple(dict.fromkeys(os.path.normpath(place) for *_, place in sorted(found, key=lambda row: row[:2])))


def _bases(package: Package) -> Iterator[tuple[int, Path, str]]:
    """Folders whose content lies at a place of the package, with that place: '' or `folder/`."""
    try:
        parts = parts_of(package.kind, package.options)
    except Unready:
        return
    for part in parts:
        for rank, name in _folders(part):
            yield rank, Path(os.path.realpath(Path(package.root or ".", name))), part.prefix


def _folders(part: PackagePart) -> Iterator[tuple[int, str]]:
    if part.kind == "git":
        yield 0, part.subpath or "."
    yield from ((1, folder) for _, folder in part.patterns)

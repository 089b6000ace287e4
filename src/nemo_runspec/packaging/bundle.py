"""The job bundle: the script, its recipe's folder and its family's shared code. It always travels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from nemo_runspec.catalog import Recipe
from nemo_runspec.errors import UserError
from nemo_runspec.plan.model import Bundle, BundleFile

_SKIPPED = frozenset({"__pycache__", "tests"})
_PREFIX = "recipes"


def make_bundle(recipe: Recipe) -> Bundle:
    """Lists and digests what a recipe ships. A script of the user's own ships alone.

    Raises:
        UserError: a file that cannot be read.
    """
    files = [(recipe.script.name, recipe.script)] if recipe.own else list(_recipe_files(recipe))
    digest = hashlib.sha256()
    entries = []
    for path, source in sorted(files):
        content = _read(source)
        digest.update(f"{path}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        entries.append(BundleFile(path, str(source), len(content)))
    return Bundle(tuple(entries), sum(e.size for e in entries), digest.hexdigest())


def script_in_bundle(recipe: Recipe) -> str:
    """The script's path inside the bundle."""
    if recipe.own:
        return recipe.script.name
    return f"{_PREFIX}/{recipe.script.relative_to(recipe.root).as_posix()}"


def _recipe_files(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    family = recipe.root / recipe.family
    shared = [d for d in sorted(family.glob("_*")) if d.is_dir() and d.name not in _SKIPPED]
    for folder in (recipe.folder, *shared):
        for file in _files(folder, folder):
            yield f"{_PREFIX}/{file.relative_to(recipe.root).as_posix()}", file


def _files(folder: Path, top: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name in _SKIPPED or entry.suffix == ".pyc":
            continue
        if entry.is_dir() and not entry.is_symlink():
            if not _is_recipe(entry):
                yield from _files(entry, top)
        elif entry.is_file():
            yield entry


def _is_recipe(folder: Path) -> bool:
    """A command of its own below this one ships with itself, not with its parent."""
    return any(b"tool.runspec" in f.read_bytes()[:65536] for f in folder.glob("*.py"))


def _read(source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror}", where=str(source)) from None

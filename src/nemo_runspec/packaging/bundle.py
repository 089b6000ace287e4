"""The job bundle: the script, its recipe's folder and its family's shared code, and those of a recipe that it uses.

It always travels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from nemo_runspec.catalog import Recipe, declares_itself, scripts_in
from nemo_runspec.digests import digest_of, digest_of_text
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Bundle, BundleFile

_SKIPPED = frozenset({"__pycache__", "tests"})
_PREFIX = "recipes"
_PAGE = "README.md"
"""A recipe's page, at the top of its folder: for people, so a change of it makes no other job."""


def make_bundle(recipe: Recipe) -> Bundle:
    """Lists and digests what a recipe ships. A script of the user's own ships alone.

    Raises:
        UserError: a file that cannot be read.
    """
    # By path: the shared code of a recipe that is a family by itself lies in its own folder too.
    files = {recipe.script.name: recipe.script} if recipe.own else dict(_recipe_files(recipe))
    contents = {path: _read(source) for path, source in sorted(files.items())}
    entries = tuple(BundleFile(path, str(files[path]), len(content)) for path, content in contents.items())
    return Bundle(entries, sum(e.size for e in entries), digest(contents))


def digest(contents: Mapping[str, bytes]) -> str:
    """What `Bundle.digest` is for files with these contents, by their paths in the bundle."""
    return digest_of_text("".join(f"{path}\0{digest_of(content)}\n" for path, content in sorted(contents.items())))


def script_in_bundle(recipe: Recipe) -> str:
    """The script's path inside the bundle."""
    if recipe.own:
        return recipe.script.name
    return f"{_PREFIX}/{recipe.script.relative_to(recipe.root).as_posix()}"


def _recipe_files(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    yield from _own_files(recipe)
    if recipe.used:
        yield from _own_files(recipe.used)


def _own_files(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    family = recipe.root / recipe.family
    shared = [d for d in sorted(family.glob("_*")) if d.is_dir() and d.name not in _SKIPPED]
    for folder in (recipe.folder, *shared):
        for file in _files(folder):
            if file != folder / _PAGE:
                yield f"{_PREFIX}/{file.relative_to(recipe.root).as_posix()}", file


def _files(folder: Path) -> Iterator[Path]:
    for entry in _entries(folder):
        if entry.name.startswith(".") or entry.name in _SKIPPED or entry.suffix == ".pyc":
            continue
        if entry.is_dir() and not entry.is_symlink():
            # A command of its own below this one ships with itself, not with its parent.
            if not any(declares_itself(script) for script in scripts_in(entry)):
                yield from _files(entry)
        elif entry.is_file():
            yield entry


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise UserError(f"cannot read {folder}: {error.strerror}", where=str(folder)) from None


def _read(source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror}", where=str(source)) from None

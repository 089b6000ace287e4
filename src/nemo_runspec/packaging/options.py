"""The packager's options out of a profile: which parts a package has, and where in it each goes."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.packaging.model import Unready
from nemo_runspec.plans import defaults

PREFIX = "packager_"
PATTERN, RELATIVE, PARTS, DIRTY = "include_pattern", "relative_path", "sub_packagers", "dirty"

_STRING, _STRINGS, _BOOL = (
    ("a string", (str,)),
    ("a string or a list of strings", (str, list, tuple)),
    ("true or false", (bool,)),
)
_PART_KEYS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "packager": _STRING, "subpath": _STRING, "include_submodules": _BOOL, PATTERN: _STRINGS, RELATIVE: _STRINGS,
    DIRTY: _STRING, "merge": _STRING,
}  # fmt: skip
_CHOICES: Mapping[str, tuple[str, ...]] = {"packager": ("git", "pattern"), DIRTY: defaults.DIRTY_CHOICES}


@dataclass(frozen=True, slots=True)
class PackagePart:
    """One source of a package.

    Args:
        name: how a hybrid calls it, '' for a package of one part.
        kind: `git` or `pattern`.
        prefix: where it goes in the package: '' or `folder/`.
        patterns: what is packaged or added as it is now, each with the folder it is relative to.
        dirty: one of `defaults.DIRTY_CHOICES`.
    """

    name: str
    kind: str
    prefix: str = ""
    subpath: str = ""
    submodules: bool = True
    patterns: tuple[tuple[str, str], ...] = ()
    dirty: str = defaults.DIRTY

    @property
    def label(self) -> str:
        """How an error names it."""
        return f"part '{self.name}'" if self.name else "the package"


def parts_of(kind: str, options: Mapping[str, Any]) -> tuple[PackagePart, ...]:
    """The parts of a package.

    Args:
        options: the profile's `packager_` keys, and `dirty`.

    Raises:
        UserError: an unknown key or value of a part, a folder outside the package.
        Unready: a pattern package without a pattern, a hybrid without parts.
    """
    if kind != "hybrid":
        return (_part("", kind, "", without_prefix(options)),)
    plain = without_prefix(options)
    tables = plain.get(PARTS) or {}
    if not tables or not all(isinstance(table, Mapping) for table in tables.values()):
        raise Unready(
            'packager = "hybrid" needs packager_sub_packagers, a table of tables',
            remedy='packager_sub_packagers = { code = { packager = "git", subpath = "src" } }',
            key="packager",
        )
    at_root, dirty = bool(plain.get("extract_at_root")), plain.get(DIRTY)
    return tuple(_sub_part(str(name), table, at_root, dirty) for name, table in tables.items())


def set_options(env: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The options that a profile sets. `dirty` is one where there is a git part and it is not the default."""
    given = {
        k: v for k, v in env.items() if isinstance(k, str) and k.startswith(PREFIX) and v not in (None, [], "", {})
    }
    dirty = env.get(DIRTY) or defaults.DIRTY
    return given | ({DIRTY: dirty} if dirty != defaults.DIRTY and kind in ("git", "hybrid") else {})


def has_git(kind: str, options: Mapping[str, Any]) -> bool:
    """True if anything of a package is taken from a commit. Raises nothing, whatever the options are."""
    tables = without_prefix(options).get(PARTS) or {}
    return kind == "git" or (kind == "hybrid" and any(_is_git(table) for table in tables.values()))


def without_prefix(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by their short names."""
    return {str(key).removeprefix(PREFIX): value for key, value in options.items()}


def listed(value: Any) -> list[str]:
    """A string or a list of them as a list."""
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _is_git(table: Any) -> bool:
    return isinstance(table, Mapping) and without_prefix(table).get("packager") == "git"


def _sub_part(name: str, table: Mapping[str, Any], at_root: bool, dirty: Any) -> PackagePart:
    options = without_prefix(table)
    for key, value in options.items():
        _check_key(f"packager_sub_packagers.{name}", key, value)
    folder = str(options.get("merge", "." if at_root else name))
    prefix = _inside(
        folder, f"packager_sub_packagers.{name}: merge" if "merge" in options else "packager_sub_packagers"
    )
    kind = str(options.get("packager", "pattern"))
    return _part(name, kind, prefix, {DIRTY: dirty, **options})


def _check_key(at: str, key: str, value: Any) -> None:
    if key not in _PART_KEYS:
        raise UserError(
            f"{at} has an unknown key '{key}'",
            remedy=did_you_mean(key, _PART_KEYS) or f"keys: {', '.join(_PART_KEYS)}",
            key=PREFIX + PARTS,
        )
    title, types = _PART_KEYS[key]
    if not isinstance(value, types):
        raise UserError(f"{at}.{key} must be {title}, not {value!r}", key=PREFIX + PARTS)
    if key in _CHOICES and value not in _CHOICES[key]:
        raise UserError(f"{at}: {key} must be {' or '.join(_CHOICES[key])}, not {value!r}", key=PREFIX + PARTS)


def _part(name: str, kind: str, prefix: str, options: Mapping[str, Any]) -> PackagePart:
    patterns = _patterns(options)
    if kind == "pattern" and not patterns:
        whose = f" ({name})" if name else ""
        raise Unready(
            f'packager = "pattern" needs packager_include_pattern{whose}',
            remedy='packager_include_pattern = "src/**/*.py"',
            key="packager",
        )
    subpath = _inside(str(options.get("subpath") or ""), "packager_subpath").rstrip("/")
    submodules = options.get("include_submodules")
    dirty = str(options.get(DIRTY) or defaults.DIRTY)
    return PackagePart(name, kind, prefix, subpath, submodules is None or bool(submodules), patterns, dirty)


def _patterns(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    patterns, folders = listed(options.get(PATTERN) or []), listed(options.get(RELATIVE) or ".")
    folders = folders * len(patterns) if len(folders) == 1 else folders
    if patterns and len(folders) != len(patterns):
        raise UserError(
            f"{PREFIX}{PATTERN} has {len(patterns)} patterns and {PREFIX}{RELATIVE} {len(folders)} folders",
            remedy=f"give {PREFIX}{RELATIVE} once, or once for each pattern",
            key=PREFIX + PATTERN,
        )
    return tuple(zip(patterns, folders, strict=False))


def _inside(folder: str, key: str) -> str:
    """A folder of the package as a prefix: '' for its root, else with a slash at the end."""
    plain = posixpath.normpath(folder.strip("/") or ".")
    if plain == ".":
        return ""
    if plain.split("/")[0] == ".." or "\0" in plain:
        raise UserError(f"{key}: '{folder}' is outside", remedy="name a folder inside", key=key.partition(":")[0])
    return f"{plain}/"

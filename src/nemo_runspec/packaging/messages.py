"""Messages about a package, in a dry run and at a submission: what stays behind, what travels uncommitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.options import DIRTY, PREFIX, has_git
from nemo_runspec.plans import defaults
from nemo_runspec.plans.model import Package
from nemo_runspec.text import count

_NAMED = 8
_UNSET: tuple[Any, ...] = (None, "", False, [], (), {})


def left_behind(package: Package) -> tuple[str, ...]:
    """One line for each kind of change that is not sent as somebody may think; none where a package has no commit."""
    behind = (("uncommitted file", package.uncommitted), ("untracked file", package.untracked))
    lines = [f"NOT sent: {names_in_words(noun, names)}" for noun, names in behind if names]
    if package.pointers:
        lines.append(f"sent as pointers of Git LFS: {names_in_words('file', package.pointers)}")
    if package.filters:
        lines.append(f"filters of git are not run before the submission: {', '.join(package.filters)}")
    return (*lines, *(_bundled(package) if has_git(package.kind, package.options) else ()))


def sent_uncommitted(package: Package) -> tuple[str, ...]:
    """One line where changes travel that are in no commit, and one where the recipe is not what the commit has."""
    included = f"sent, not committed: {names_in_words('file', package.included)}"
    return (*((included,) if package.included else ()), *_bundled(package))


def without_effect(env: Mapping[str, Any], package: Package) -> tuple[str, ...]:
    """One line where the profile asks for something about a package that this package cannot do."""
    if has_git(package.kind, package.options):
        return ()
    asked = [f'dirty = "{env[DIRTY]}"'] if env.get(DIRTY) not in (None, defaults.DIRTY) else []
    if package.kind == "none":
        asked += [key for key, value in env.items() if key.startswith(PREFIX) and value not in (*_UNSET, True)]
    if not asked:
        return ()
    why = "no code is packaged" if package.kind == "none" else "nothing of the package is taken from a commit"
    return (f'{", ".join(asked)}: without effect, as {why} (packager = "{package.kind}")',)


def problems_of(package: Package) -> list[UserError]:
    """What keeps the package from being packed, with the mends."""
    return [UserError(problem.what, remedy=problem.remedy or None) for problem in package.problems]


def problem_lines(package: Package) -> list[str]:
    """The same as one line each."""
    return [f"{p.what}; fix: {p.remedy}" if p.remedy else p.what for p in package.problems]


def names_in_words(noun: str, names: Sequence[str]) -> str:
    """`3 files: a, b, c`: their count and the first of them."""
    shown = ", ".join(name if name.isprintable() else ascii(name)[1:-1] for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{count(len(names), noun)}: {shown}{more}"


def _bundled(package: Package) -> tuple[str, ...]:
    included = set(package.included)
    names = [name for name in package.bundled if name not in included]
    return (f"sent as they are now, not as committed: {names_in_words('file', names)}",) if names else ()

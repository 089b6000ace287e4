"""What is said about a package, in a dry run and at a submission: what stays behind, what travels uncommitted."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_runspec.planning.model import Package

_NAMED = 8


def left_behind(package: Package) -> tuple[str, ...]:
    """One line for each kind of change that does not travel; none where everything does."""
    behind = (("uncommitted file", package.uncommitted), ("untracked file", package.untracked))
    lines = [f"NOT sent: {names_in_words(noun, names)}" for noun, names in behind if names]
    if package.pointers:
        lines.append(f"sent as pointers of Git LFS: {names_in_words('file', package.pointers)}")
    return tuple(lines)


def sent_uncommitted(package: Package) -> tuple[str, ...]:
    """One line where changes travel that are in no commit."""
    return (f"sent, not committed: {names_in_words('file', package.included)}",) if package.included else ()


def names_in_words(noun: str, names: Sequence[str]) -> str:
    """`3 files: a, b, c`: their count and the first of them."""
    shown = ", ".join(name if name.isprintable() else ascii(name)[1:-1] for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{len(names):,} {noun}{'' if len(names) == 1 else 's'}: {shown}{more}"

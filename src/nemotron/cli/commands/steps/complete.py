"""Completes identifiers, categories, types and tags of steps after TAB. An error offers nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.steps import all_steps, category_of, step_id


def idents(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Identifiers; those whose last part begins so, where none does as a whole."""
    known = [step_id(recipe) for recipe in _steps()]
    whole = _beginning(known, incomplete)
    return whole or [ident for ident in known if ident.rpartition("/")[2].startswith(incomplete)]


def categories(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Categories that have a step."""
    return _beginning((category_of(step_id(recipe)) for recipe in _steps()), incomplete)


def types(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Types of artifacts."""
    from nemo_runspec.artifacts.types import Types

    try:
        return _beginning(Types.load().names(), incomplete)
    except UserError:
        return []


def tags(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Tags of steps."""
    readable = [recipe for recipe in _steps() if not recipe.problem()]
    return _beginning(sorted(tag for recipe in readable for tag in recipe.spec.tags), incomplete)


def _steps() -> list[Any]:
    try:
        return all_steps()
    except UserError:
        return []


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.startswith(incomplete)]

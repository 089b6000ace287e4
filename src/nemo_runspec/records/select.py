"""Which jobs are meant: by state, recipe, profile, sweep, tags and age."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from nemo_runspec.duration import FORMS, parse_duration
from nemo_runspec.errors import UserError, did_you_mean, suggest
from nemo_runspec.records.index import Entry
from nemo_runspec.records.record import STATES


@dataclass(frozen=True, slots=True)
class Filter:
    """What jobs have to be; None and empty are no condition.

    Args:
        states: any of them.
        recipe: its path, or the beginning of it up to a `/`.
        tags: all of them.
        since: recorded within that many seconds.
        older: in its state for more than that many.
    """

    states: tuple[str, ...] = ()
    recipe: str | None = None
    profile: str | None = None
    group: str | None = None
    since: float | None = None
    older: float | None = None
    tags: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """True where it lets everything through."""
        return self == Filter()


def states_of(words: Iterable[str]) -> tuple[str, ...]:
    """States as they are typed, also several in one word with commas between.

    Raises:
        UserError: there is no such state.
    """
    found = [state.strip() for word in words for state in word.split(",")]
    for state in found:
        if state not in STATES:
            raise UserError(
                f"there is no state '{state}'", remedy=did_you_mean(state, STATES) or f"states: {', '.join(STATES)}"
            )
    return tuple(found)


def duration_of(text: str, option: str, *, bare: bool = False) -> float:
    """The length of time that was given to an option, in seconds; `bare` as in `parse_duration`.

    Raises:
        UserError: not a length of time.
    """
    try:
        return parse_duration(text, bare=bare)
    except ValueError:
        forms = f"{FORMS}, or a number of seconds" if bare else FORMS
        raise UserError(f"{option}: '{text}' is not a length of time", remedy=f"such as {forms}") from None


def select(entries: Sequence[Entry], wanted: Filter, known_recipes: Callable[[], Iterable[str]]) -> list[Entry]:
    """The entries a filter lets through, in their order.

    Args:
        known_recipes: paths of recipes there are, with jobs or without; asked only for a recipe without jobs.

    Raises:
        UserError: a recipe, profile or sweep without jobs whose name is near one that has some.
    """
    recipe = wanted.recipe.strip("/").replace(" ", "/") if wanted.recipe else None
    if recipe is not None and not any(_is_below(e.recipe, recipe) for e in entries):
        _refuse_misspelt("recipe", recipe, {e.recipe for e in entries}, known_recipes)
    if wanted.profile:
        _refuse_misspelt("profile", wanted.profile, {e.profile for e in entries})
    if wanted.group:
        _refuse_misspelt("group", wanted.group, {e.group for e in entries})
    for tag in wanted.tags:
        _refuse_misspelt("tag", tag, {tag for e in entries for tag in e.tags})
    after, before = _ago(wanted.since), _ago(wanted.older)
    return [
        e
        for e in entries
        if (not wanted.states or e.state in wanted.states)
        and (recipe is None or _is_below(e.recipe, recipe))
        and (not wanted.profile or e.profile == wanted.profile)
        and (not wanted.group or e.group == wanted.group)
        and (not wanted.tags or set(wanted.tags) <= set(e.tags))
        and (after is None or e.created >= after)
        and (before is None or e.changed <= before)
    ]


def _is_below(recipe: str, wanted: str) -> bool:
    return recipe == wanted or recipe.startswith(f"{wanted}/")


def _refuse_misspelt(
    what: str, word: str, used: set[str | None] | set[str], others: Callable[[], Iterable[str]] | None = None
) -> None:
    """Silence where the word is known, or near to nothing: then there is no such job yet."""
    names = {name for name in used if name}
    if word in names or suggest(word, names) is None or (others is not None and word in others()):
        return
    raise UserError(f"no job has the {what} '{word}'", remedy=did_you_mean(word, names))


def _ago(seconds: float | None) -> str | None:
    """That long ago as records write it: times of one form in UTC, so that texts compare as times do."""
    if seconds is None:
        return None
    return (datetime.now(timezone.utc) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")

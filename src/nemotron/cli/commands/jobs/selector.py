"""Jobs meant by conditions instead of names: one set of options, and one meaning of them, for all commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError
from nemotron.cli.click import Parameter, TyperOption
from nemotron.cli.commands.build import option
from nemotron.cli.commands.jobs import complete
from nemotron.cli.complete import tags

if TYPE_CHECKING:
    from nemo_runspec.records.index import Entry
    from nemo_runspec.records.select import Filter
    from nemo_runspec.sweeps.overview import Overview


@dataclass(frozen=True)
class Conditions:
    """What was asked for, as it was typed."""

    states: Sequence[str] = ()
    recipe: str | None = None
    profile: str | None = None
    group: str | None = None
    tags: Sequence[str] = ()
    since: str | None = None
    older_than: str | None = None

    @property
    def empty(self) -> bool:
        """True where every job meets them."""
        return not any(getattr(self, each.name) for each in fields(self))

    def filter(self, overview: Overview) -> Filter:
        """What jobs have to be.

        Raises:
            UserError: no state, no length of time, or `last` where the newest is no sweep.
        """
        from nemo_runspec.records.select import Filter, duration_of, states_of

        since = duration_of(self.since, "--since") if self.since else None
        older = duration_of(self.older_than, "--older-than") if self.older_than else None
        states, group = states_of(self.states), group_of(overview, self.group)
        return Filter(states, self.recipe, self.profile, group, since, older, tuple(self.tags))

    def select(self, overview: Overview) -> list[Entry]:
        """The jobs and sweeps that meet them, the newest first. Raises as `filter`, and for a misspelt word."""
        from nemo_runspec.records.select import select

        return select(overview.everything, self.filter(overview), known_recipes)


def conditions() -> list[Parameter]:
    """Parser parameters of the conditions."""
    return [
        _many("states", "--state", "STATE", "Only jobs in this state; may be given again.", complete.states),
        option("--recipe", "Only jobs of this recipe, or of all below it.", value="RECIPE", complete=complete.recipes),
        option("--profile", "Only jobs on this profile.", value="PROFILE", complete=complete.profiles),
        option("--group", "Only jobs of this sweep, or of the 'last'.", value="GROUP", complete=complete.groups),
        _many("tags", "--tag", "TAG", "Only jobs with this tag; of several, with all of them.", tags),
        option("--since", "Only jobs recorded within this time, such as 2h or 3d.", value="TIME"),
        option("--older-than", "Only jobs in their state for longer, such as 30d.", value="TIME"),
    ]


def selecting(call: Callable[..., int]) -> Callable[..., int]:
    """The command function, given one `Conditions` as `wanted` in the place of the options of `conditions`."""

    def selected(**given: Any) -> int:
        typed: dict[str, Any] = {each.name: given.pop(each.name) for each in fields(Conditions)}
        return call(wanted=Conditions(**typed), **given)

    return selected


def group_of(overview: Overview, word: str | None) -> str | None:
    """The sweep that `--group` names. Raises `UserError` where `last` is none."""
    if word != "last" or not overview.everything:
        return word
    entry = overview.one(word)
    if not entry.is_sweep:
        raise UserError(f"the newest is the job '{entry.name}', and no sweep", remedy="nemotron jobs list names them")
    return entry.name


def known_recipes() -> Iterable[str]:
    """Paths of the recipes there are."""
    from nemo_runspec.catalog import find_recipes

    return [recipe.path for recipe in find_recipes()]


def _many(name: str, long: str, value: str, help_text: str, offered: Any) -> TyperOption:
    return TyperOption(
        param_decls=[name, long],
        type=str,
        multiple=True,
        metavar=value,
        help=help_text,
        shell_complete=offered,
    )

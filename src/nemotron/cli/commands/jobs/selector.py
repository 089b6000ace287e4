"""Jobs meant by conditions instead of names: one set of options, and one meaning of them, for all commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError
from nemo_runspec.text import count
from nemotron.cli.click import Parameter, TyperOption
from nemotron.cli.commands.jobs import complete
from nemotron.cli.complete import tags
from nemotron.cli.parameters import option

if TYPE_CHECKING:
    from nemo_runspec.records import JobStore
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
        option(
            "--group", "Only jobs of this sweep or pipeline, or of the 'last'.", value="GROUP", complete=complete.groups
        ),
        _many("tags", "--tag", "TAG", "Only jobs with this tag; of several, with all of them.", tags),
        option("--since", "Only jobs recorded within this time, such as 2h or 3d.", value="TIME"),
        option("--older-than", "Only jobs in their state for longer, such as 30d.", value="TIME"),
    ]


def everything(help_text: str = "All of them.") -> Parameter:
    """The parser parameter of `--all`."""
    return TyperOption(param_decls=["everything", "--all"], type=bool, is_flag=True, default=False, help=help_text)


def yes() -> Parameter:
    """The parser parameter that answers the question before it is asked."""
    return TyperOption(param_decls=["yes", "-y", "--yes"], type=bool, is_flag=True, default=False, help=_YES)


def words_of(
    overview: Overview,
    words: Sequence[str],
    wanted: Conditions,
    verb: str,
    *,
    everything: bool = False,
    accepts: Callable[[Entry], bool] = lambda _: True,
) -> list[str]:
    """The names that are meant: those that were typed, or those of the jobs and sweeps that meet the conditions.

    Args:
        verb: the command.
        everything: `--all` was given: no condition.
        accepts: whether the command has something to do with a job; asked of conditions, not of names.

    Raises:
        UserError: neither names nor conditions, or both; what `Conditions.select` raises.
    """
    by_condition = everything or not wanted.empty
    if words and by_condition:
        raise UserError(
            "jobs are meant by their names, or by conditions, one of the two", remedy="leave one of them out"
        )
    if not words and not by_condition:
        raise UserError(
            f"jobs {verb}: which jobs?", remedy=f"nemotron jobs {verb} JOB…, or conditions, such as --tag X"
        )
    return list(words) or [entry.name for entry in wanted.select(overview) if accepts(entry)]


def asked(overview: Overview, names: Sequence[str], verb: str, *, sure: bool) -> bool:
    """True if the person wants that done with the jobs and sweeps that conditions have found: how many, how many GPUs.

    Raises:
        UserError: nobody can be asked.
    """
    from nemotron.cli.confirm import confirmed

    meant = overview.meant(names)
    jobs, sweeps = overview.with_members(meant), [entry for entry in meant if entry.is_sweep]
    live = [entry for entry in jobs if not entry.over] or jobs
    told = f"{verb} {counted(live, sweeps)}{gpus_said(overview.job_store, live)}"
    return confirmed(
        f"{told}: {_named([*(entry.name for entry in sweeps), *(entry.name for entry in live)])}?",
        yes=sure,
        what=f"this would {told}, and there is no terminal to ask in",
        remedy="add -y, or name the jobs; nemotron jobs list with the same conditions shows them",
    )


def counted(jobs: Sized, groups: Iterable[Entry]) -> str:
    """`3 jobs and 1 sweep and 1 pipeline`."""
    nouns = Counter(entry.noun for entry in groups)
    return " and ".join([count(len(jobs), "job"), *(count(number, noun) for noun, number in sorted(nouns.items()))])


def gpus_said(store: JobStore, entries: Sequence[Entry]) -> str:
    """`, 24 GPUs` of jobs together, as far as their plans say it; '' where none has any."""
    from nemo_runspec.planning.gpu_time import gpus_of

    known = [gpus for entry in entries if (gpus := gpus_of(store.folder(entry.name))) is not None]
    return f", {count(sum(known), 'GPU')}" if sum(known) else ""


def selecting(call: Callable[..., int]) -> Callable[..., int]:
    """The command function, given one `Conditions` as `wanted` in the place of the options of `conditions`."""

    def selected(**given: Any) -> int:
        typed: dict[str, Any] = {each.name: given.pop(each.name) for each in fields(Conditions)}
        return call(wanted=Conditions(**typed), **given)

    return selected


def group_of(overview: Overview, word: str | None) -> str | None:
    """The sweep or pipeline that `--group` names. Raises `UserError` where `last` is none."""
    if word != "last" or not overview.everything:
        return word
    entry = overview.one(word)
    if not entry.is_sweep:
        raise UserError(
            f"the newest is the job '{entry.name}', and no sweep or pipeline", remedy="nemotron jobs list names them"
        )
    return entry.name


def known_recipes() -> Iterable[str]:
    """Paths of the recipes there are."""
    from nemo_runspec.catalog import find_recipes

    return [recipe.path for recipe in find_recipes()]


_YES = "Do it without asking."
_SHOWN = 3


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _many(name: str, long: str, value: str, help_text: str, offered: Any) -> TyperOption:
    return TyperOption(
        param_decls=[name, long],
        type=str,
        multiple=True,
        metavar=value,
        help=help_text,
        shell_complete=offered,
    )

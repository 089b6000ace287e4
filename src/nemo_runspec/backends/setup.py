"""Questions to a person from which a profile is written: each backend brings its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.field import Field


@dataclass(frozen=True, slots=True)
class SetupChoice:
    """An answer that was found to be possible. `note`: a few words on it."""

    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class SetupQuestion:
    """One question.

    Args:
        name: of the option that answers it, in snake case: mostly the profile key.
        text: what is asked, without a question mark.
        default: what no answer means.
        choices: what was found; another answer is taken, too.
        needed: whether there has to be an answer.
        closed: whether it has to be one of the choices.
        number: whether the answer is a whole number.
        taken: answers that are not free any more.
    """

    name: str
    text: str
    default: str = ""
    choices: tuple[SetupChoice, ...] = ()
    needed: bool = True
    closed: bool = False
    number: bool = False
    taken: tuple[str, ...] = ()


class Interview(ABC):
    """Whoever answers: a person at a terminal, or the options of a command line."""

    @abstractmethod
    def ask(self, question: SetupQuestion) -> str:
        """The answer; the default, perhaps '', where there is none."""

    @abstractmethod
    def given(self, name: str) -> str:
        """What an option says that nobody is asked for; '' where it was not given."""

    @abstractmethod
    def say(self, line: str) -> None:
        """Tells what was found, or could not be."""


def _nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Setup:
    """How a profile of an executor comes about.

    Args:
        ask: asks, looks up what it can, and gives the profile's values but for `executor`.
        title: the platform's name.
        options: name in snake case → help, of all that an option may answer.
        found: what of the platform is found from here, in a few words; '' for nothing. Asks no network.
        image: whether a job needs a container image, of its recipe where the profile has none.
        preferred: whether jobs are meant for it where it is found from here.
        profile: what a profile is called where its answers name nothing; '' for the executor's name.
    """

    ask: Callable[[Interview], Mapping[str, Any]]
    title: str
    options: Mapping[str, str] = field(default_factory=dict)
    found: Callable[[], str] = _nothing
    image: bool = False
    preferred: bool = False
    profile: str = ""


IMAGE = "container_image"


def helps_of(fields: Iterable[Field], *names: str) -> dict[str, str]:
    """The help of options that answer for a profile key: the keys' own words.

    Raises:
        KeyError: there is no such key.
    """
    helps = {field.name: field.help for field in fields}
    return {name: helps[name] for name in names}


def ask_image(interview: Interview, choices: tuple[SetupChoice, ...] = ()) -> dict[str, str]:
    """The container image, which may be left to recipes."""
    text = "Container image (empty: each recipe's own)"
    return set_values({IMAGE: interview.ask(SetupQuestion(IMAGE, text, choices=choices, needed=False))})


def set_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that have a value."""
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


def best(choices: tuple[SetupChoice, ...]) -> str:
    """The first of what was found, '' for nothing."""
    return choices[0].value if choices else ""

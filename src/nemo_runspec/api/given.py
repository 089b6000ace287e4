"""Names, tags and environment variables given with a plan or a sweep, beside what it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nemo_runspec.errors import UserError
from nemo_runspec.planning.given import GivenVariable, given_variables
from nemo_runspec.planning.request import texts
from nemo_runspec.plans.labels import Labels, labels_of


def labels(name: object, tags: object, note: object) -> Labels:
    """As `plans.labels.labels_of`. Raises `UserError` also for what is no text, and tags that are no list."""
    for key, value in (("name", name), ("note", note)):
        if value is not None:
            text(key, value)
    return labels_of(name, texts("tags", tags), note)  # type: ignore[arg-type]  # looked at above


def variables(env: object) -> tuple[GivenVariable, ...]:
    """Variables by their names, over those of the profile.

    Raises:
        UserError: no table of texts, or a name that no variable has.
    """
    if not isinstance(env, Mapping) or not all(isinstance(word, str) for pair in env.items() for word in pair):
        raise UserError(f"env is a table of texts, not {_seen(env)}", remedy='such as env={"NCCL_DEBUG": "INFO"}')
    for name in env:
        if "=" in name:
            raise UserError(f"env: {name!r} is not the name of an environment variable")
    return given_variables(f"{name}={value}" for name, value in env.items())


def text(key: str, value: object) -> str:
    """A text given as the argument of that name. Raises `UserError` for anything else."""
    if not isinstance(value, str):
        raise UserError(f"{key} is text, not {value!r}")
    return value


def seconds(key: str, value: object) -> float:
    """A length of time given as the argument of that name. Raises `UserError` for what is none, and below 0."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
        raise UserError(f"{key} is a number of seconds, not {value!r}", remedy="0 or more")
    return float(value)


def lines(key: str, value: object) -> int:
    """A number of lines given as the argument of that name. Raises `UserError` for what is none, and below 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UserError(f"{key} is a number of lines, not {value!r}", remedy="0 or more")
    return value


def words(labels: Labels, variables: Iterable[GivenVariable]) -> list[str]:
    """How the command line says the same; of a variable its name alone, as its value may be a secret."""
    found = ["--name", labels.name] if labels.name else []
    found += [word for tag in labels.tags for word in ("--tag", tag)]
    found += ["--note", labels.note] if labels.note else []
    return [*found, *(word for variable in variables for word in ("--env", variable.name))]


def _seen(env: object) -> str:
    """What was given, without values: one may be a secret."""
    return f"one of {', '.join(map(str, env))}" if isinstance(env, Mapping) else repr(env)

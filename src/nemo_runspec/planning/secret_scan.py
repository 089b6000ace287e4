"""Keeps secrets out of everything a job writes down: a config, an argument, a command or a variable that holds one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.redact import is_weak, redactor_of
from nemo_runspec.secret_names import holds_secret
from nemo_runspec.secrets import of_environment


def refuse_leaks(plan: Plan, values: Mapping[str, str]) -> None:
    """Raises `UserError` where a secret would be written into a script, a config or a job file.

    Args:
        plan: the plan about to be shown or sent.
        values: the secrets found for it, by name.
    """
    for path, value in (*_leaves("", plan.config), *_leaves("run.", _beside_env(plan))):
        if holds_secret(path.rsplit(".", 1)[-1], value):
            raise _refusal(path, plan, "a secret does not belong in a config, which is written to files")
    # A word in lower case may stand in a plan for itself, where nobody has said that it is a secret of this job.
    around = {name: value for name, value in of_environment().items() if not (value.isalpha() and value.islower())}
    for name, secret in {**around, **values}.items():
        if is_weak(secret):
            continue
        redactor = redactor_of((secret,))
        for place, text in _texts(plan):
            if redactor.redact(text) != text:
                raise _refusal(place, plan, f"the value of secret {name} would be written down in {place}")


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Dotted path and value of every scalar, also inside lists."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(f"{prefix}{key}.", below)
    elif isinstance(value, (list, tuple)):
        for below in value:
            yield from _leaves(prefix, below)
    else:
        yield prefix.removesuffix("."), value


def _beside_env(plan: Plan) -> dict[str, Any]:
    """`run` without `run.env`, whose secrets are known by their declaration."""
    return {key: value for key, value in plan.run.items() if key != "env"}


def _texts(plan: Plan) -> Iterator[tuple[str, str]]:
    for path, value in {**flatten(plan.config), **flatten(plan.run, "run.")}.items():
        yield path, value if isinstance(value, str) else repr(value)
    for argument in plan.launch.args:
        yield "an argument after --", argument
    for command in plan.launch.head_setup:
        yield "head_startup_commands", command
    for command in plan.launch.setup:
        yield "startup_commands", command
    for variable in plan.env:
        yield f"environment variable {variable.name}", variable.value


def _refusal(place: str, plan: Plan, what: str) -> UserError:
    source = plan.sources.get(place)
    return UserError(
        f"{place}: {what}" if place not in what else what,
        where=source.place() if source else None,
        remedy='put it into the environment, list its name under secrets = ["NAME"] in the profile, '
        "and let the script read the variable",
    )

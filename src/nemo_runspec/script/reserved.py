"""Which variables a job can be given: names that bash takes and that neither it nor nemotron sets itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nemo_runspec.errors import Problems, UserError
from nemo_runspec.plans.model import EnvVar

RESERVED = frozenset({
    "NEMOTRON_JOB_NAME", "NEMOTRON_JOB_DIR", "NEMOTRON_METRICS_FILE", "NEMOTRON_NODE_RANK", "NEMOTRON_NUM_NODES",
    "NEMOTRON_NODE_IPS", "NEMOTRON_GPUS_PER_NODE", "NEMOTRON_SETUP_DONE", "WORLD_SIZE", "RANK", "LOCAL_RANK",
    "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "NNODES", "NEMOTRON_ATTEMPT", "NEMOTRON_ATTEMPTS",
})  # fmt: skip
"""Variables that nemotron or torchrun sets in every job. `MASTER_ADDR` and `MASTER_PORT` may be given."""

WAITS = (
    "NEMOTRON_BARRIER_SECONDS", "NEMOTRON_LOST_SECONDS", "NEMOTRON_REGISTER_SECONDS", "NEMOTRON_RESOLVE_SECONDS",
    "NEMOTRON_STOP_SECONDS",
)  # fmt: skip
"""Variables that may be given, for how long the job's own scripts wait: whole seconds."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = "nemotron_"
_READ_ONLY = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"})


def check_environment(variables: Iterable[EnvVar], secrets: Iterable[str] = ()) -> None:
    """Refuses what a job would not get as it is written.

    Args:
        variables: the job's variables.
        secrets: names of the variables that hold its secrets.

    Raises:
        UserError: a name that is none, or one that nemotron or bash sets itself, or seconds that are none; all of them
            at once.
    """
    variables = tuple(variables)
    found = [_problem(variable.name, variable.name, variable.source) for variable in variables]
    found += [_no_seconds(variable) for variable in variables if variable.name in WAITS]
    found += [_problem(name, f"secrets: {name}") for name in dict.fromkeys(secrets)]
    problems = [problem for problem in found if problem is not None]
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise Problems(f"{len(problems)} variables cannot be given to a job", problems)


def _problem(name: str, said: str, source: str | None = None) -> UserError | None:
    if not _NAME.fullmatch(name):
        return UserError(
            f"{said!r} is not the name of an environment variable",
            where=source,
            remedy="a name holds letters, digits and _, and begins with no digit",
        )
    if name in RESERVED or name.startswith(_OURS):
        return UserError(f"{said} cannot be set for a job", where=source, remedy="take it out: nemotron sets it")
    if name in _READ_ONLY:
        return UserError(f"{said} cannot be set for a job", where=source, remedy="take it out: bash sets it")
    return None


def _no_seconds(variable: EnvVar) -> UserError | None:
    if re.fullmatch("[0-9]{1,9}", variable.value):
        return None
    said = f"{variable.name} is a number of seconds, and {variable.value!r} is none"
    return UserError(said, where=variable.source, remedy=f"a whole number: {variable.name} = 600")

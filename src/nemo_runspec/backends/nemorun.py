"""The common part of all backends' NeMo-Run executors: how it is imported, packagers, the environment.

Facts about NeMo-Run in this module were seen in 0.11.1.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.field import carried_keys
from nemo_runspec.plans.model import Package, Plan


def import_nemo_run(home: str | None = None) -> Any:
    """NeMo-Run, imported (about three seconds).

    It runs `git rev-parse` for its own version and reads `NEMORUN_HOME` once, both while it is imported; the second
    is set here unless the user did. It must not hold `/nemo_run`, which NeMo-Run replaces in jobs without a container.

    Args:
        home: what `NEMORUN_HOME` should be; by default a folder of nemotron's own.
    """
    os.environ.setdefault("NO_VCS_VERSION", "1")
    os.environ.setdefault("NEMORUN_HOME", home or str(paths.home() / "experiments"))
    import nemo_run

    return nemo_run


def make_packager(package: Package) -> Any:
    """The NeMo-Run packager of a plan's code package: its own, or one that gives it the archive nemotron makes.

    Raises:
        UserError: options that packager does not have, or without those it needs.
    """
    from nemo_runspec.packaging.nemorun import packager_of

    return packager_of(package)


def same_arguments(target: Any) -> dict[str, Any]:
    """The executor's arguments that the keys of a plan's target fill, as lists and tables that NeMo-Run may change."""
    keys = [declared for declared in carried_keys(type(target)) if declared.nemo_run]
    return {str(declared.nemo_run): _own_copy(getattr(target, declared.name)) for declared in keys}


def _own_copy(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_own_copy(each) for each in value]
    return dict(value) if isinstance(value, dict) else value


def plain_environment(plan: Plan) -> dict[str, str]:
    """The plan's variables for executors that hand them over as data. Secrets are not among them."""
    return {variable.name: variable.value for variable in plan.env}


def shell_environment(plan: Plan) -> dict[str, str]:
    """The plan's variables for executors that write `export NAME=value`: quoted, because NeMo-Run quotes nothing.

    Raises:
        UserError: a name that NeMo-Run would change, as it writes all names in capitals.
    """
    for variable in plan.env:
        if variable.name != variable.name.upper():
            raise UserError(
                f"NeMo-Run would export the variable {variable.name} as {variable.name.upper()}",
                where=variable.source,
                remedy="set it in the script, or let nemotron run the script",
            )
    return {variable.name: shlex.quote(variable.value) for variable in plan.env}


def need(secrets: Mapping[str, str] | None, plan: Plan, key: str) -> str:
    """A credential of the profile, which is no part of a plan.

    Raises:
        UserError: it was not given.
    """
    value = (secrets or {}).get(key)
    if not value:
        raise UserError(
            f"executor '{plan.executor}' needs {key}, whose value no plan holds",
            where=plan.env_file,
            remedy=f'set {key} = "${{oc.env:…}}" in the profile',
        )
    return value

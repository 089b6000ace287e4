"""Recipes of `python = "nemotron"`: tools that work on files of this machine, run by the Python that runs nemotron."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.base import Backend
from nemo_runspec.catalog import Recipe
from nemo_runspec.errors import UserError
from nemo_runspec.profiles.profile import Profile
from nemo_runspec.runspec import Runspec
from nemo_runspec.runspec_keys import OWN_PYTHON
from nemo_runspec.source import display_path


def refuse_elsewhere(recipe: Recipe, backend: Backend, profile: Profile | None) -> None:
    """Raises `UserError` where such a recipe was to run elsewhere, in a container, or with packages of its own."""
    if recipe.spec.python != OWN_PYTHON:
        return
    if recipe.spec.dependencies or recipe.spec.cmd:
        own = "dependencies" if recipe.spec.dependencies else "[tool.runspec.run] cmd"
        what = f'{own} beside python = "{OWN_PYTHON}", which runs the script in nemotron\'s own environment'
        raise UserError(what, where=display_path(recipe.script), remedy="keep one of them")
    if profile is None or not (backend.remote or backend.in_container):
        return
    raise UserError(
        f"{recipe.command.rpartition(' ')[2]} works on files of this machine, and profile '{profile.name}' runs on "
        f"'{backend.name}'; nothing was submitted",
        remedy="leave out --run and --batch",
    )


def command_of(spec: Runspec) -> str | None:
    """The command that the header gives, with `{script}` and `{config}`; None for the launcher's own."""
    if spec.python != OWN_PYTHON:
        return spec.cmd
    return f"{shlex.quote(sys.executable)} {{script}} --config {{config}}"


def packaged(env: Mapping[str, Any], spec: Runspec) -> Mapping[str, Any]:
    """The profile as far as it says what is packaged: such a recipe runs where it is called, not in a copy."""
    return {**env, "packager": "none"} if spec.python == OWN_PYTHON else env

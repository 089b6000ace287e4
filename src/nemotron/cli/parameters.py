"""Short ways to make commands and their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nemotron.cli.click import Command, TyperArgument, TyperOption
from nemotron.cli.command import Group, OneCommand
from nemotron.cli.text import literal

SETTINGS = {"help_option_names": ["--help", "-h"]}


def command(name: str, help_text: str, call: Callable[..., int], *params: Any) -> OneCommand:
    """A command whose callback gets the parameters by name and returns an exit code."""
    return OneCommand(name, help=help_text, callback=call, params=list(params), context_settings=dict(SETTINGS))


def group(name: str, help_text: str, *commands: Command) -> Group:
    """A group of commands; without one of them it shows its help."""
    return Group(
        name=name, help=help_text, commands=list(commands), no_args_is_help=True, context_settings=dict(SETTINGS)
    )


def argument(
    name: str, help_text: str, *, required: bool = True, complete: Any = None, many: bool = False
) -> TyperArgument:
    """A positional argument; `many` takes all that are left."""
    return TyperArgument(
        param_decls=[name],
        type=str,
        required=required,
        nargs=-1 if many else 1,
        help=literal(help_text),
        metavar=name.upper(),
        shell_complete=complete,
    )


def option(
    long: str, help_text: str, *, value: str | None = None, complete: Any = None, panel: str | None = None
) -> TyperOption:
    """An option with a value, or a flag where `value` is None. `panel`: its part of the help."""
    name = long.lstrip("-").replace("-", "_")
    return TyperOption(
        param_decls=[f"as_{name}" if name == "json" else name, long],
        is_flag=value is None,
        type=str if value else bool,
        default=None if value else False,
        metavar=value,
        help=literal(help_text),
        show_default=False,
        shell_complete=complete,
        rich_help_panel=panel,
    )

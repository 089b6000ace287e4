"""The parts of Typer's own copy of Click that this command line needs, named in one place.

Typer 0.28 carries Click inside (`typer._click`) and exports only some of it; the version is pinned for that reason.
"""

from __future__ import annotations

from typer import Abort, Exit
from typer._click.core import Command, Context, Parameter
from typer._click.exceptions import (
    BadOptionUsage,
    BadParameter,
    ClickException,
    MissingParameter,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)
from typer._click.shell_completion import CompletionItem
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

__all__ = [
    "Abort",
    "BadOptionUsage",
    "BadParameter",
    "ClickException",
    "Command",
    "CompletionItem",
    "Context",
    "Exit",
    "MissingParameter",
    "NoArgsIsHelpError",
    "NoSuchOption",
    "Parameter",
    "TyperArgument",
    "TyperCommand",
    "TyperGroup",
    "TyperOption",
    "UsageError",
]

"""The common part of all commands: `-v` and `-q`, errors in our words, help in the terminal's own colours."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any

from nemo_runspec import tracing
from nemo_runspec.console import be_quiet, is_quiet, note
from nemo_runspec.errors import UserError
from nemotron.cli.click import (
    Command,
    Context,
    NoArgsIsHelpError,
    Parameter,
    TyperCommand,
    TyperGroup,
    TyperOption,
    UsageError,
)
from nemotron.cli.text import colour_wanted, paint
from nemotron.cli.usage import in_our_words, no_command


def usual_talk() -> None:
    """Neither `-v` nor `-q`: how a process begins, and what each command line leaves behind."""
    be_quiet(False)
    tracing.tell_to(None)


class _Common(Command):
    """The part of a command, or of a group, that is ours."""

    @cached_property
    def _talk(self) -> list[Parameter]:
        return [
            _flag("-v", "--verbose", "Tell what is asked of other machines, and how long each answer took.", _verbose),
            _flag("-q", "--quiet", "Tell results and errors only.", _quiet),
        ]

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Its own parameters, then those of all commands."""
        *own, last = super().get_params(ctx)
        return [*own, *self._talk, last] if last not in self.params else [*own, last, *self._talk]

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Reads the command's words. Raises `UserError` for those that it does not take."""
        words = list(args)  # Click takes them away as it reads them
        try:
            return super().parse_args(ctx, args)
        except NoArgsIsHelpError:
            raise
        except UsageError as error:
            raise in_our_words(error, ctx, words) from None

    def format_help(self, ctx: Context, formatter: Any) -> None:
        """Typer's own, in colour where this command line shows colours."""
        from typer import rich_utils

        rich_utils.FORCE_TERMINAL = colour_wanted(sys.stdout)
        super().format_help(ctx, formatter)


class OneCommand(_Common, TyperCommand):
    """A command."""


class Group(_Common, TyperGroup):
    """A group of commands."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The command that the first word names. Raises `UserError` where there is none of that name."""
        command = self.get_command(ctx, args[0])
        if command is None and not ctx.resilient_parsing:
            raise no_command(args[0], ctx, self.list_commands(ctx))
        return (args[0] if command else None), command, args[1:]


def _flag(short: str, long: str, help_text: str, callback: Any) -> TyperOption:
    return TyperOption(
        param_decls=[long.lstrip("-"), short, long], is_flag=True, type=bool, default=False, expose_value=False,
        callback=callback, help=help_text, show_default=False,
    )  # fmt: skip


def _verbose(ctx: Context, _param: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        _refuse_both(is_quiet())
        tracing.tell_to(_told)


def _quiet(ctx: Context, _param: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        _refuse_both(tracing.is_heard())
        be_quiet(True)


def _refuse_both(other: bool) -> None:
    if other:
        raise UserError("--verbose and --quiet exclude each other", remedy="leave one of them out")


def _told(line: str) -> None:
    note(paint(f"  {line}", "dim", sys.stderr))

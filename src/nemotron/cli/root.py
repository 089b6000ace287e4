"""The command tree: built-in commands by table; families and recipes (`folders.py`) where one is named."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from nemo_runspec.backends import LISTED, get_backend, listed_executors
from nemo_runspec.errors import UserError
from nemotron import DOCUMENTATION
from nemotron.cli.builtin import COMMANDS
from nemotron.cli.click import Command, Context, Exit, TyperCommand, TyperGroup, TyperOption
from nemotron.cli.strict import StrictGroup
from nemotron.cli.text import literal


def make_root() -> TyperGroup:
    """The `nemotron` command."""
    from nemotron.cli.shells import register

    register()
    return RootGroup(
        name="nemotron",
        help="Run machine-learning recipes on somebody's GPUs: one plan, shown before it is sent.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},
        params=[
            TyperOption(
                param_decls=["version", "--version"], is_flag=True, type=bool, default=False, expose_value=False,
                is_eager=True, callback=_print_version, help="Show the version and exit.", show_default=False,
            ),
            *_completion_options(),
        ],
        epilog=f"Details of a recipe: nemotron nano3 pretrain --help\n\nDocumentation: docs/ of the source; "
        f"once it is published: {DOCUMENTATION}",
    )  # fmt: skip


class RootGroup(StrictGroup):
    """Built-in commands by table, everything else by folder."""

    _listing = False

    def list_commands(self, ctx: Context) -> list[str]:
        """Names, in the order of the help."""
        own = (*COMMANDS, *listed_executors())
        from nemo_runspec.catalog import children

        try:
            return [*own, *(name for name in children("") if name not in own)]
        except UserError as error:
            if not self._listing:
                raise
            print(f"recipes are not listed: {error.what}", file=sys.stderr)
            return list(own)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of that name, or None."""
        if cmd_name in COMMANDS:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1]) if self._listing else _load(cmd_name)
        if cmd_name in LISTED:
            return self._platform(cmd_name)
        from nemotron.cli.recipes.folders import recipe_or_group

        return recipe_or_group(cmd_name) or self._platform(cmd_name)

    def _platform(self, name: str) -> Command | None:
        """The lists of a backend's platform."""
        summary = listed_executors().get(name)
        if summary is None or self._listing:
            return TyperCommand(name, help=literal(summary)) if summary else None
        from nemotron.cli.commands.platform import platform_group

        return platform_group(get_backend(name))

    def format_help(self, ctx: Context, formatter: Any) -> None:
        """The help needs names and one line each, not the commands themselves."""
        self._listing = True
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The command the first word names; an unknown one is an error with a suggestion."""
        if args[0] in COMMANDS:
            return args[0], self.get_command(ctx, args[0]), args[1:]
        from nemotron.cli.recipes.folders import resolve

        return resolve(self, ctx, args, "")


def _load(name: str) -> Command:
    module, _, function = COMMANDS[name][0].partition(":")
    command: Command = getattr(import_module(module), function)(COMMANDS[name][1])
    return command


def _print_version(ctx: Context, _param: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from nemotron import __version__

        print(f"nemotron {__version__}")
        raise Exit(0)


def _completion_options() -> list[TyperOption]:
    from typer.completion import install_callback, show_callback

    words = (
        ("install", install_callback, "Install completion for the current shell."),
        ("show", show_callback, "Show the completion script of the current shell."),
    )
    return [
        TyperOption(
            param_decls=[f"{word}_completion", f"--{word}-completion"], is_flag=True, type=bool, default=False,
            expose_value=False, is_eager=True, callback=callback, help=text, show_default=False,
        )
        for word, callback, text in words
    ]  # fmt: skip

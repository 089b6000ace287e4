"""The command tree. Families and recipes come from folders and are looked at only when they are named."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nemo_runspec import catalog
from nemo_runspec.backends import LISTED, get_backend, listed_executors
from nemo_runspec.errors import UserError, did_you_mean
from nemotron.cli.click import Command, Context, Exit, TyperCommand, TyperGroup, TyperOption
from nemotron.cli.options import RECIPE_OPTIONS
from nemotron.cli.text import literal

RECIPES_PANEL = "Recipes"

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("nemotron.cli.commands.list:make", "Every recipe and step there is."),
    "run": ("nemotron.cli.commands.run:make", "Run a script of your own on a profile."),
    "steps": ("nemotron.cli.commands.steps:make", "Steps: list, show, run."),
    "env": ("nemotron.cli.commands.env:make", "Execution profiles: list, show, check, example, fields, schema, trust."),
    "jobs": (
        "nemotron.cli.commands.jobs:make",
        "Jobs of this user: list, show, status, logs, diagnose, stop, retry, …",
    ),
    "doctor": ("nemotron.cli.commands.doctor:make", "Is a profile, or this machine, going to work?"),
    "docker": ("nemotron.cli.commands.docker:make", "Docker: build a recipe's image."),
    "kit": ("nemotron.cli.commands.kit:make", "Tools for a cluster: squash files and container builds on Slurm."),
    "apply": ("nemotron.cli.commands.apply:make", "Run a plan saved with --dry-run --out."),
    "diff": ("nemotron.cli.commands.diff:make", "What differs between two plans or runs."),
}
"""Built-in commands: where each is made, and its line in the help. A module is imported when its command is named."""


def make_root() -> TyperGroup:
    """The `nemotron` command."""
    from typer._completion_classes import completion_init

    completion_init()
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
        epilog="Details of a recipe: nemotron nano3 pretrain --help",
    )  # fmt: skip


class _StrictGroup(TyperGroup):
    """A group that explains an option standing before the subcommand it belongs to."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Refuses a recipe's option here, with the line to type instead."""
        misplaced = _leading_recipe_options(args)
        if misplaced:
            rest = args[len(misplaced) :]
            typed = ctx.command_path
            remedy = " ".join([typed, *rest, *misplaced]) if rest else f"{typed} RECIPE {' '.join(misplaced)}"
            raise UserError(f"{misplaced[0]} stands before the command it belongs to", remedy=remedy)
        return super().parse_args(ctx, args)


class RootGroup(_StrictGroup):
    """Built-in commands by table, everything else by folder."""

    _listing = False

    def list_commands(self, ctx: Context) -> list[str]:
        """Names, in the order of the help."""
        own = (*COMMANDS, *listed_executors())
        return [*own, *(name for name in catalog.children("") if name not in own)]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of that name, or None."""
        if cmd_name in COMMANDS:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1]) if self._listing else _load(cmd_name)
        if cmd_name in LISTED:
            return self._platform(cmd_name)
        return _recipe_or_group(cmd_name) or self._platform(cmd_name)

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
        return _resolve(self, ctx, args, "")


class FolderGroup(_StrictGroup):
    """A family or a group of recipes: its commands are the folders below it."""

    def __init__(self, path: str) -> None:
        super().__init__(
            name=path.rsplit("/", 1)[-1],
            help=literal(catalog.group_summary(path) or f"Recipes of {path}."),
            no_args_is_help=True,
            rich_help_panel=RECIPES_PANEL,
            context_settings={"help_option_names": ["--help", "-h"]},
        )
        self.path = path

    def list_commands(self, ctx: Context) -> list[str]:
        """Names, in the order of the help."""
        return catalog.children(self.path)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of that name, or None."""
        return _recipe_or_group(f"{self.path}/{cmd_name}")

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The command the first word names; an unknown one is an error with a suggestion."""
        return _resolve(self, ctx, args, self.path)


def _resolve(
    group: TyperGroup, ctx: Context, args: list[str], prefix: str
) -> tuple[str | None, Command | None, list[str]]:
    name = args[0]
    command = group.get_command(ctx, name)
    if command is None and ctx.resilient_parsing:
        return None, None, args
    if command is None:
        known = group.list_commands(ctx)
        recipes = [r.command for r in catalog.find_recipes()]
        raise UserError(
            f"no command '{' '.join([*prefix.split('/'), name]).strip()}'",
            remedy=did_you_mean(name, known) or did_you_mean(name, recipes) or f"commands here: {', '.join(known)}",
        )
    path = f"{prefix}/{name}".lstrip("/")
    if isinstance(command, FolderGroup) and catalog.recipe_at(path):
        below = args[1:] and args[1] in command.list_commands(ctx)
        command = command if below else _recipe(path)
    return name, command, args[1:]


def _recipe_or_group(path: str) -> Command | None:
    if ".." in path.split("/") or path.startswith("/") or path.split("/")[0] == catalog.STEPS:
        return None
    if catalog.children(path):
        return FolderGroup(path)
    return _recipe(path)


def _recipe(path: str) -> Command | None:
    recipe = catalog.recipe_at(path)
    if recipe is None:
        return None
    from nemotron.cli.recipe import RecipeCommand

    return RecipeCommand(recipe)


def _load(name: str) -> Command:
    module, _, function = COMMANDS[name][0].partition(":")
    command: Command = getattr(import_module(module), function)(COMMANDS[name][1])
    return command


def _leading_recipe_options(args: list[str]) -> list[str]:
    """The recipe options a group's arguments begin with, with their values."""
    spellings = {s: o for o in RECIPE_OPTIONS for s in (o.long, o.short) if s}
    taken: list[str] = []
    while len(taken) < len(args):
        word = args[len(taken)]
        option = spellings.get(word) or spellings.get(word.partition("=")[0]) or _glued(word, spellings)
        if option is None:
            break
        taken.append(word)
        if option.value and word in spellings and len(taken) < len(args):
            taken.append(args[len(taken)])
    return taken


def _glued(word: str, spellings: dict[str, Any]) -> Any:
    """`-rX`: a short option with its value in one word."""
    option = spellings.get(word[:2]) if len(word) > 2 and word[0] == "-" and word[1] != "-" else None
    return option if option is not None and option.value else None


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

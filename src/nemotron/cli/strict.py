"""Groups of commands that say where an option belongs which stands too early."""

from __future__ import annotations

from typing import Any

from nemo_runspec.errors import UserError
from nemotron.cli.click import Context
from nemotron.cli.command import Group
from nemotron.cli.options import RECIPE_OPTIONS


class StrictGroup(Group):
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

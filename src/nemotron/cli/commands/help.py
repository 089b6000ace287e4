"""`nemotron help [COMMAND…]`: what `--help` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nemotron.cli.click import Command, Context, TyperGroup
from nemotron.cli.parameters import argument, command


def make(help_text: str) -> Command:
    """The command."""
    words = argument("words", "A command, such as jobs list.", required=False, many=True, complete=_complete)
    words.metavar = "[COMMAND]..."
    return command("help", help_text, _call, words)


def _call(words: Sequence[str]) -> int:
    from nemotron.cli.builtin import PROGRAM
    from nemotron.cli.root import make_root

    make_root().main(args=[*words, "--help"], prog_name=PROGRAM, standalone_mode=False)
    return 0


def _complete(ctx: Context, _param: Any, incomplete: str) -> list[str]:
    found: Command | None = ctx.find_root().command
    for word in ctx.params.get("words") or ():
        found = found.get_command(ctx, word) if isinstance(found, TyperGroup) else None
    names = found.list_commands(ctx) if isinstance(found, TyperGroup) else []
    return [name for name in names if name.startswith(incomplete)]

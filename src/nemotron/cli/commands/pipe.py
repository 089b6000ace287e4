"""`nemotron pipe`: steps one after another, each with what those before it have made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nemo_runspec.errors import UserError
from nemotron.cli import complete
from nemotron.cli.click import Command, CompletionItem, Context
from nemotron.cli.command import OneCommand
from nemotron.cli.commands.steps import complete as of_steps
from nemotron.cli.options import option_parameters, read_values
from nemotron.cli.parameters import SETTINGS, argument
from nemotron.cli.pipe_options import OPTIONS, check_full, stretch

_HELP = (
    "Steps one after another: FILE.yaml, or STEP STEP …\n\n"
    "Each step reads what the nearest step before it makes that fits. A step that an earlier run has made from the "
    "same code, config and inputs is not run again. STEP@CONFIG names a step's own config. KEY=VALUE is for every "
    "step, STEP:KEY=VALUE for one."
)


def make(help_text: str) -> Command:
    """The command."""
    words = argument(
        "words", "A pipeline's file, or its steps; then overrides.", many=True, required=False, complete=_words
    )
    words.metavar = "FILE|STEP... [KEY=VALUE]..."
    options = option_parameters(OPTIONS)
    return Pipe(
        "pipe",
        help=_HELP,
        callback=_call,
        params=[words, *options, *stretch(of_steps.idents)],
        context_settings=SETTINGS,
    )


class Pipe(OneCommand):
    """The command, which keeps the words of a line that is being typed: configs are those of its first step."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """As Click's."""
        if ctx.resilient_parsing:
            ctx.meta[complete.TYPED] = tuple(word.partition("@")[0] for word in args)
        return super().parse_args(ctx, args)


def _words(ctx: Any, param: Any, incomplete: str) -> list[Any]:
    """Steps and behind their `@` configs; keys of profiles; files of pipelines."""
    step, at, begun = incomplete.partition("@")
    if at:
        ctx.meta[complete.TYPED] = (step,)
        return [f"{step}@{name}" for name in complete.configs(ctx, param, begun) if isinstance(name, str)]
    if incomplete.startswith(complete.PROFILE_KEYS):
        ctx.meta[complete.TYPED] = ()
        return complete.overrides(ctx, param, incomplete)
    steps = (CompletionItem(name) for name in of_steps.idents(ctx, param, incomplete))
    return [*steps, *complete.yaml_files(ctx, param, incomplete)]


def _call(**values: Any) -> int:
    start, end = values.pop("from"), values.pop("to")
    words: Sequence[str] = values.pop("words") or ()
    invocation = read_values(values)
    if not words:
        raise UserError(
            "which steps?", remedy="nemotron pipe FILE.yaml, or nemotron pipe STEP STEP; see: nemotron steps list"
        )
    check_full(invocation)
    from nemotron.cli.recipes.pipelines import pipe

    return pipe(words, invocation, start, end)

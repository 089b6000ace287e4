"""Rewords Click's usage errors: what is wrong, of which command, and what to type instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from nemo_runspec.errors import UserError, did_you_mean, suggest
from nemotron.cli.click import (
    BadOptionUsage,
    BadParameter,
    Context,
    MissingParameter,
    NoSuchOption,
    Parameter,
    UsageError,
)

SCRIPT_ARGUMENTS = "nemotron.script_arguments"
"""Stands in the context of a command whose script has arguments of its own: those that were typed behind `--`."""

_KINDS = {"int": "a whole number", "float": "a number", "integer": "a whole number"}
_EXTRA = re.compile(r"unexpected extra argument(?:s|\(s\))? \((.*)\)")


def in_our_words(error: UsageError, ctx: Context, args: Sequence[str]) -> UserError:
    """The same as an error of ours.

    Args:
        ctx: of the command whose words could not be read.
        args: those words.
    """
    where = ctx.command_path
    if isinstance(error, NoSuchOption):
        return UserError(f"no option '{error.option_name}'", where=where, remedy=_option(error.option_name, ctx, args))
    if isinstance(error, BadOptionUsage):
        return _bad_usage(error, ctx)
    if isinstance(error, MissingParameter) and error.param is not None:
        return UserError(f"{_name(error.param)} is missing", where=where, remedy=_usage(ctx))
    if isinstance(error, BadParameter) and error.param is not None:
        return UserError(_bad_value(error, error.param), where=where, remedy=_usage_of(error.param, ctx))
    extra = _EXTRA.search(error.message)
    what = f"nothing more is taken here: {extra[1]}" if extra else error.format_message().rstrip(".")
    return UserError(what, where=where, remedy=_usage(ctx))


def no_command(name: str, ctx: Context, known: Sequence[str]) -> UserError:
    """That a group has no such command."""
    path = " ".join([*ctx.command_path.split()[1:], name])
    return UserError(f"no command '{path}'", remedy=did_you_mean(name, known) or f"commands here: {', '.join(known)}")


def _option(name: str, ctx: Context, args: Sequence[str]) -> str:
    """The option that was meant and, where a script might take it, the line with its arguments in their place."""
    near = _nearest(name, [each for param in ctx.command.get_params(ctx) for each in param.opts])
    meant = [f"did you mean '{near}'?"] if near else []
    after = ctx.meta.get(SCRIPT_ARGUMENTS)
    if after is None:
        return "".join(meant) or f"options: {ctx.command_path} --help"
    typed = next((n for n, word in enumerate(args) if word.partition("=")[0] == name), len(args))
    line = shlex.join([*ctx.command_path.split(), *args[:typed], "--", *args[typed:], *after])
    return "; ".join([*meant, f"an argument for the script comes after --: {line}"])


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """Without their dashes, which would make all of them alike."""
    bare = {each.lstrip("-"): each for each in known if each.startswith("--")}
    word = name.lstrip("-")
    near = suggest(word, bare, cutoff=0.7) if len(word) > 2 else None
    return bare[near] if near else None


def _bad_usage(error: BadOptionUsage, ctx: Context) -> UserError:
    param = next((each for each in ctx.command.get_params(ctx) if error.option_name in each.opts), None)
    takes = param is not None and param.metavar is not None
    what = f"{error.option_name} needs a value" if takes else f"{error.option_name} takes no value"
    value = f" {param.metavar}" if takes and param is not None else ""
    return UserError(what, where=ctx.command_path, remedy=f"{error.option_name}{value}")


def _bad_value(error: BadParameter, param: Parameter) -> str:
    told = re.fullmatch(r"(.*) is not a valid (\w+)\.", error.message, re.DOTALL)
    said = f"{told[1]} is not {_KINDS.get(told[2], told[2])}" if told else error.message.rstrip(".")
    return f"{_name(param)}: {said}"


def _name(param: Parameter) -> str:
    """An option as it is spelt out, an argument as it stands in the help."""
    long = [each for each in param.opts if each.startswith("--")]
    return long[0] if long else param.metavar or (param.name or "").upper()


def _usage_of(param: Parameter, ctx: Context) -> str:
    options = [each for each in param.opts if each.startswith("-")]
    return f"{options[-1]} {param.metavar}" if options and param.metavar else _usage(ctx)


def _usage(ctx: Context) -> str:
    """The line to type, by its names."""
    pieces = (piece.strip("{}") for piece in ctx.command.collect_usage_pieces(ctx) if piece != "[OPTIONS]")
    return " ".join([ctx.command_path, *pieces])

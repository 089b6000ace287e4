"""Command lines as a page prints them: taken out of it, and parsed as `nemotron` does, with nothing run."""

from __future__ import annotations

import re
import shlex

from nemo_runspec.console import be_quiet
from nemo_runspec.tracing import tell_to
from nemotron.cli.click import Context, TyperGroup
from nemotron.cli.root import make_root

SHELL_FENCE = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?:(?: {4}|\t).*\n)+")
"""A block of code after an empty line; lines of a list go on without one."""
BEGINNING = re.compile(r"^(?:\$ |pip install uv && |uv run |--(?:only-)?group \w+ |[A-Z_]+=\S+ )*")
"""What may stand before the command itself."""
ENDS = {"&&", "||", "|", ";", "&", ">", ">>", "<"}


def lines_of(page: str) -> list[str]:
    """The lines of a page's shell fences and indented blocks, without what each begins with."""
    blocks = SHELL_FENCE.findall(page) + INDENTED.findall(FENCE.sub("", page))
    rows = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [BEGINNING.sub("", line) for line in map(str.strip, rows) if line]


def words_of(line: str) -> list[str]:
    """The words of the first command of a line, without a comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split = True
    words = list(lexer)
    end = next((n for n, word in enumerate(words) if word in ENDS), len(words))
    return words[:end]


def parsed(line: str) -> Context:
    """The command that a line names, with its values; nothing is run. Raises what a wrong line raises."""
    program, *words = words_of(line)
    assert program == "nemotron", line
    try:
        return _context(words)
    finally:  # what -q and -v do to their process as they are parsed
        be_quiet(False)
        tell_to(None)


def _context(words: list[str]) -> Context:
    ctx = make_root().make_context("nemotron", words)
    while isinstance(ctx.command, TyperGroup):
        name, command, words = ctx.command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        assert command is not None, words
        ctx = command.make_context(name, words, parent=ctx)
    return ctx

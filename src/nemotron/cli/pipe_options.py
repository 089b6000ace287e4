"""Options of several steps one after another: those of `nemotron pipe`, and of recipes of that kind."""

from __future__ import annotations

from typing import Any

from nemo_runspec.errors import UserError
from nemotron.cli.click import TyperOption
from nemotron.cli.options import Invocation
from nemotron.cli.parameters import option

OPTIONS = (
    "--config", "--run", "--batch", "--dry-run", "--full", "--name", "--tag", "--note", "--env", "--env-file", "--yes",
    "--json",
)  # fmt: skip


def stretch(complete: Any) -> list[TyperOption]:
    """`--from` and `--to`, by which more or less is run than what has changed."""
    again = "Run this step and all after it again, whatever an earlier run has made."
    until = "Leave out what comes after this step."
    return [option(name, text, value="STEP", complete=complete) for name, text in (("--from", again), ("--to", until))]


def check_full(invocation: Invocation) -> None:
    """Raises `UserError` for `--full` where nothing is shown."""
    if invocation.full and not invocation.dry_run:
        raise UserError("--full shows a dry run", remedy="add --dry-run")

"""The built-in commands; what else is named is a family or a recipe."""

from __future__ import annotations

from collections.abc import Sequence

PROGRAM = "nemotron"
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("nemotron.cli.commands.init:make", "Begin: write an env.toml, and a recipe that runs."),
    "list": ("nemotron.cli.commands.list:make", "Every recipe and step there is."),
    "run": ("nemotron.cli.commands.run:make", "Run a script of your own on a profile."),
    "steps": ("nemotron.cli.commands.steps:make", "Steps: list, show, run, lint, plan, …"),
    "artifacts": (
        "nemotron.cli.commands.artifacts:make",
        "What jobs make and read: list, show, lineage, diff, check, add, tag, pull, rm.",
    ),
    "pipe": ("nemotron.cli.commands.pipe:make", "Steps one after another, each with what those before it have made."),
    "env": ("nemotron.cli.commands.env:make", "Execution profiles: list, show, check, add, set, fields, …"),
    "jobs": (
        "nemotron.cli.commands.jobs:make",
        "Jobs of this user: list, show, status, logs, diagnose, stop, retry, …",
    ),
    "doctor": ("nemotron.cli.commands.doctor:make", "Is a profile, or this machine, going to work?"),
    "docker": ("nemotron.cli.commands.docker:make", "Docker: build a recipe's image."),
    "kit": ("nemotron.cli.commands.kit:make", "Tools for a cluster: squash files and container builds on Slurm."),
    "cache": ("nemotron.cli.commands.cache:make", "What can be made or fetched again: show it, take it away."),
    "apply": ("nemotron.cli.commands.apply:make", "Run a plan saved with --dry-run --out."),
    "diff": ("nemotron.cli.commands.diff:make", "What differs between two plans or runs."),
    "version": ("nemotron.cli.commands.version:make", "The version; with -v of what is installed with it, too."),
    "help": ("nemotron.cli.commands.help:make", "What --help shows: nemotron help jobs list"),
}
"""Built-in commands: where each is made, and its line in the help. A module is imported when its command is named."""


def names_folder(argv: Sequence[str]) -> bool:
    """True if a command line's first word may be a family or a recipe."""
    return bool(argv) and not argv[0].startswith("-") and argv[0] not in COMMANDS

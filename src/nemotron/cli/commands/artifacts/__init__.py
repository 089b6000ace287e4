"""`nemotron artifacts`: what jobs have made and read."""

from __future__ import annotations

from typing import Any

from nemotron.cli import complete as names
from nemotron.cli.click import Command, Parameter, TyperOption
from nemotron.cli.commands.artifacts import change, complete, diff, lineage, listing, pull, show
from nemotron.cli.commands.artifacts.check import make_check
from nemotron.cli.commands.jobs.complete import jobs as complete_jobs
from nemotron.cli.commands.steps.complete import types as complete_types
from nemotron.cli.forms import formed, output_options
from nemotron.cli.parameters import argument, command, group, option

_LIST = (
    "The versions of artifacts: the newest of each, or all of one.\n\n"
    "They are read where they lie: in the folder or bucket that the env file names, or with -r where a profile's jobs "
    "have theirs, such as on a cluster, by one question. W&B is asked where it is named as the backend."
)
_REFERENCE = "NAME, or NAME:VERSION: a number, latest, a tag or the name of the job that made it."
_ADD = (
    "Registers data from outside as a version, where they are: nothing is copied.\n\n"
    "They are looked through first, as by 'artifacts check'."
)
_REGISTER = (
    "Registers what a job has made and could not register itself ('produced, not registered'). The job has succeeded "
    "then.\n\nIt is done where the data lie, by the machine that has them."
)
_RM = (
    "Takes a version out of the list. Its number is not given again, and its data stay unless --data is given.\n\n"
    "One that something else was made from is not removed."
)


def make(help_text: str) -> Command:
    """The group."""
    as_json = option("--json", "Machine-readable output.")
    return group("artifacts", help_text, *_looking(as_json), make_check(), *_changing(as_json))


def _looking(as_json: Parameter) -> tuple[Command, ...]:
    return (
        command(
            "list",
            _LIST,
            formed(listing.call),
            argument("name", "Of this artifact alone, every version.", required=False, complete=complete.artifacts),
            option("--type", "Of this type, or one that can be used for it.", value="TYPE", complete=complete_types),
            option("--tag", "What this tag leads to.", value="TAG", complete=complete.tags),
            option("--all", "Every version, not the newest of each artifact alone."),
            *_where(),
            *output_options(),
        ),
        command("show", "What a version is, and what made it of what.", formed(show.call), *_one(), *output_options()),
        command(
            "lineage",
            "What a version was made from, back to the raw data, and what was made from it.",
            lineage.call,
            *_one(),
            option("--svg", "Draw it into this file.", value="FILE", complete=names.files),
            as_json,
        ),
        command(
            "diff",
            "What differs between two versions: configuration, code, inputs, size.",
            diff.call,
            argument("first", _REFERENCE, complete=complete.references),
            argument(
                "second", "The other one; of the same artifact, :VERSION is enough.", complete=complete.references
            ),
            *_where(),
            as_json,
        ),
        command(
            "pull",
            "Brings a version's data here. What is here already is not read again, and what was half here goes on.",
            pull.call,
            *_one(argument("to", "The folder; by default NAME-vN, here.", required=False)),
            option("--no-verify", "Do not compare with the digest in the end."),
            as_json,
        ),
    )


def _changing(as_json: Parameter) -> tuple[Command, ...]:
    return (
        command(
            "add",
            _ADD,
            change.add,
            argument("path", "A file or a folder.", complete=names.files),
            option("--name", "The artifact's name.", value="NAME", complete=complete.artifacts),
            option("--type", "Its type.", value="TYPE", complete=complete_types),
            option("--tag", "A tag for it.", value="TAG"),
            option("--note", "A line about it.", value="TEXT"),
            option("--no-check", "Do not look through the data."),
            *_where(),
            as_json,
        ),
        command(
            "register",
            _REGISTER,
            change.register,
            argument("job", "The job; by default every job that could not.", required=False, complete=complete_jobs),
            as_json,
        ),
        command(
            "tag",
            "Lets a tag lead to a version; no other version of the artifact has it any more.",
            change.tag,
            *_one(argument("tag", "A word, such as gold.", complete=complete.tags)),
        ),
        command(
            "rm",
            _RM,
            change.remove,
            *_one(),
            option("--data", "Remove the data too; only where they lie in the store."),
            TyperOption(
                param_decls=["yes", "-y", "--yes"], type=bool, is_flag=True, default=False, help="Do not ask.",
            ),
        ),
    )  # fmt: skip


def _one(*more: Any) -> list[Any]:
    return [argument("reference", _REFERENCE, complete=complete.references), *more, *_where()]


def _where() -> list[Parameter]:
    profile = TyperOption(
        param_decls=["profile", "-r", "--profile"], type=str, default=None, metavar="PROFILE", show_default=False,
        help="Where this profile's jobs have their artifacts.", shell_complete=names.profiles,
    )  # fmt: skip
    return [profile, option("--root", "Another store: its folder, or s3://BUCKET/PREFIX.", value="ROOT")]

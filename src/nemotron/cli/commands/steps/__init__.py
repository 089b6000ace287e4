"""`nemotron steps`: the catalog of steps, by identifier. A module for each command."""

from __future__ import annotations

from nemotron.cli.click import Command, TyperOption
from nemotron.cli.commands.steps import complete, listing, run
from nemotron.cli.forms import formed, output_options
from nemotron.cli.parameters import argument, command, group, option
from nemotron.cli.text import literal

_ID = "A step's identifier, such as sft/automodel, or its last part where no other step has it: mcq."
_LIST = (
    "Every step there is, or those that all the conditions hold for.\n\n"
    "A type stands for those that are of it too: --produces training_jsonl finds what makes filtered_jsonl, and "
    "--consumes filtered_jsonl what takes any training_jsonl. An input that a step can do without has a '?'."
)

_LINT = (
    "What is wrong with steps as they are shipped.\n\n"
    "Headers, types that nobody declares, steps that nothing leads to, configurations that break what the header says "
    "of parameters, placeholders, missing files. Ends with 1 where something is wrong."
)


def make(help_text: str) -> Command:
    """The group."""
    ident = argument("id", _ID, complete=complete.idents)
    idents = argument(
        "ids", "Identifiers; without any, every step.", required=False, many=True, complete=complete.idents
    )
    as_json = option("--json", "Machine-readable output.")
    return group(
        "steps",
        help_text,
        command(
            "list",
            _LIST,
            formed(listing.call),
            option("--category", "Of this category.", value="CATEGORY", complete=complete.categories),
            option("--consumes", "With an input that takes this type.", value="TYPE", complete=complete.types),
            option("--produces", "With an output of this type.", value="TYPE", complete=complete.types),
            option("--tag", "With this tag.", value="TAG", complete=complete.tags),
            option("--tree", "By category, with what each step does."),
            *output_options(),
        ),
        command("show", "What a step is, what it takes and makes, and how it is run.", _show, ident, as_json),
        run.RunStep(_ID),
        command("lint", _LINT, _lint, idents, as_json),
        command(
            "plan",
            "The fewest steps that lead from one type of artifact to another, and the commands to run them.",
            _plan,
            _from("What you have. Further ones: what there is besides; the chain begins with the first."),
            option("--to", "What you want.", value="TYPE", complete=complete.types),
            option("--all", "Every chain that is as short."),
            as_json,
        ),
        command(
            "graph",
            "Which steps read and make which types of artifacts, as a tree or a picture.",
            _graph,
            _from("Only what comes of this type."),
            option("--to", "Only what leads to this type.", value="TYPE", complete=complete.types),
            option("--svg", "Write a picture to this file.", value="FILE"),
            as_json,
        ),
    )


def _from(help_text: str) -> TyperOption:
    """`--from TYPE`, any number of times."""
    return TyperOption(
        param_decls=["have", "--from"], type=str, multiple=True, metavar="TYPE", help=literal(help_text),
        show_default=False, shell_complete=complete.types,
    )  # fmt: skip


def _show(id: str, as_json: bool) -> int:
    from nemotron.cli.commands.steps.show import call  # brings what reads configurations

    return call(id, as_json)


def _lint(ids: tuple[str, ...], as_json: bool) -> int:
    from nemotron.cli.commands.steps.lint import call

    return call(ids, as_json)


def _plan(have: tuple[str, ...], to: str | None, all: bool, as_json: bool) -> int:
    from nemotron.cli.commands.steps.plan import call

    return call(have, to, show_all=all, as_json=as_json)


def _graph(have: tuple[str, ...], to: str | None, svg: str | None, as_json: bool) -> int:
    from nemotron.cli.commands.steps.graph import call

    return call(have, to, svg, as_json=as_json)

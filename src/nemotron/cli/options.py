"""The options every recipe command has, declared once; parser, help, completion and error messages use this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.plans.labels import Labels, labels_of
from nemotron.cli import complete
from nemotron.cli.arguments import check_overrides
from nemotron.cli.click import Parameter, TyperArgument, TyperOption
from nemotron.cli.views import View


@dataclass(frozen=True)
class OptionSpec:
    """One option. `value` is the metavar of its value, None for a flag; `many`: it may be given again."""

    long: str
    short: str | None
    value: str | None
    help: str
    complete: Callable[..., Any] | None = None
    many: bool = False

    @property
    def key(self) -> str:
        """Its name as a Python argument."""
        return self.long.lstrip("-").replace("-", "_")


RECIPE_OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("--config", "-c", "NAME|PATH", "A config of this recipe, or a YAML file.", complete.configs),
    OptionSpec(
        "--run",
        "-r",
        "PROFILE",
        "Run on this profile, else NEMOTRON_PROFILE, and stay attached until it has ended.",
        complete.profiles,
    ),
    OptionSpec(
        "--batch", "-b", "PROFILE", "Submit to this profile, else NEMOTRON_PROFILE, and return.", complete.profiles
    ),
    OptionSpec("--dry-run", "-d", None, "Show the plan on a page: what is missing, what decides, what is sent."),
    OptionSpec("--full", None, None, "With --dry-run: show everything, every value and every text."),
    OptionSpec("--script", None, None, "With --dry-run: show only the text that the platform gets, as for sbatch."),
    OptionSpec("--cfg", None, "job", "Show only the composed YAML, as Hydra's --cfg; do nothing."),
    OptionSpec("--resolve", None, None, "With --dry-run: ask the platform for what only it knows, and show that too."),
    OptionSpec("--out", None, "FILE", "With --dry-run: save the plan, for 'nemotron apply' and 'nemotron diff'."),
    OptionSpec("--name", None, "NAME", "How the job's name begins, instead of with its recipe."),
    OptionSpec(
        "--tag", None, "TAG", "A tag to find it by: jobs list --tag TAG; may be given again.", complete.tags, many=True
    ),
    OptionSpec("--note", None, "TEXT", "A line about it, shown by jobs show."),
    OptionSpec(
        "--env",
        None,
        "NAME=VALUE",
        "A variable of the job; NAME alone: as in this shell.",
        many=True,
    ),
    OptionSpec(
        "--env-file",
        None,
        "FILE",
        "A file of such variables, a line each; may be given again.",
        complete.files,
        many=True,
    ),
    OptionSpec("--multirun", "-m", None, "One run for every combination of values, such as train.lr=1e-3,3e-4."),
    OptionSpec("--stage", None, None, "Put the files on the cluster and submit nothing."),
    OptionSpec("--force-squash", None, None, "Make the container's squash file again although it exists."),
    OptionSpec("--yes", "-y", None, "Do not ask where a ceiling of the profile is passed."),
    OptionSpec("--json", None, None, "The job, or with --dry-run the plan, as JSON; all else on the error stream."),
)


_LABELS = ("--name", "--tag", "--note")


@dataclass(frozen=True)
class Invocation:
    """One call of a recipe command, as typed."""

    config: str | None = None
    run: str | None = None
    batch: str | None = None
    dry_run: bool = False
    full: bool = False
    script: bool = False
    cfg: str | None = None
    resolve: bool = False
    out: str | None = None
    multirun: bool = False
    stage: bool = False
    force_squash: bool = False
    yes: bool = False
    json: bool = False
    name: str | None = None
    tag: tuple[str, ...] = ()
    note: str | None = None
    env: tuple[str, ...] = ()
    env_file: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    args: tuple[str, ...] = field(default=())

    @property
    def views(self) -> list[View]:
        """What is to be shown, by the options that ask for it."""
        asked = {View.FULL: self.full, View.SCRIPT: self.script, View.JSON: self.json, View.CONFIG: self.cfg}
        return [view for view, given in asked.items() if given]

    @property
    def labels(self) -> Labels:
        """What the job is called."""
        return labels_of(self.name, self.tag, self.note)

    @property
    def profile(self) -> str | None:
        """The profile named by `--run` or `--batch`."""
        return self.run if self.run is not None else self.batch

    @property
    def mode(self) -> str:
        """`batch` after `--batch`, else `run`."""
        return "batch" if self.batch is not None else "run"


def recipe_parameters() -> list[Parameter]:
    """Fresh parser parameters for a recipe command: the options, then the overrides."""
    options = [_parameter(o, many=o.value is not None) for o in RECIPE_OPTIONS]
    overrides = TyperArgument(
        param_decls=["overrides"],
        nargs=-1,
        type=str,
        required=False,
        metavar="[KEY=VALUE]...",
        help="Hydra overrides: a.b=1, +new=1, ~gone, run.env.nodes=2. Arguments for the script itself come after --.",
        shell_complete=complete.overrides,
    )
    return [*options, overrides]


def label_parameters() -> list[Parameter]:
    """Parser parameters of what a job is called."""
    return [_parameter(o, many=o.many) for o in RECIPE_OPTIONS if o.long in _LABELS]


def option_parameters(names: Sequence[str]) -> list[Parameter]:
    """Parser parameters of some of these options, for a command that is no recipe's."""
    return [_parameter(o, many=o.value is not None) for o in RECIPE_OPTIONS if o.long in names]


def _parameter(option: OptionSpec, *, many: bool) -> Parameter:
    """`many`: it may be given again, if only for a better error than the parser's."""
    return TyperOption(
        param_decls=[option.key, *([option.short] if option.short else []), option.long],
        is_flag=option.value is None,
        multiple=many,
        type=str if option.value else bool,
        default=None if option.value else False,
        metavar=option.value,
        help=option.help,
        show_default=False,
        shell_complete=option.complete,
    )


def read_invocation(
    values: dict[str, Any], args: tuple[str, ...], configs: Callable[[], Sequence[str]] = tuple
) -> Invocation:
    """The parsed values as an `Invocation`.

    Args:
        configs: the names of the recipe's configs.

    Raises:
        UserError: `--run` with `--batch`, an option given twice or with an option in the place of its value, a
            positional that is no override.
    """
    overrides = tuple(values.get("overrides") or ())
    check_overrides(overrides, configs)
    return read_values(values, overrides, args)


def read_values(values: Mapping[str, Any], overrides: tuple[str, ...] = (), args: tuple[str, ...] = ()) -> Invocation:
    """The parsed options as an `Invocation`.

    Raises:
        UserError: `--run` with `--batch`, an option given twice or with an option in the place of its value.
    """
    given: dict[str, Any] = {o.key: _given(o, values.get(o.key) or ()) for o in RECIPE_OPTIONS if o.value}
    given |= {o.key: bool(values.get(o.key)) for o in RECIPE_OPTIONS if not o.value}
    invocation = Invocation(**given, overrides=overrides, args=args)
    if invocation.run is not None and invocation.batch is not None:
        raise UserError(
            "--run and --batch exclude each other: one stays attached, the other returns",
            remedy=f"--run {invocation.run}, or --batch {invocation.batch}",
        )
    return invocation


def _given(option: OptionSpec, given: tuple[str, ...]) -> str | tuple[str, ...] | None:
    if option.many:
        return tuple(_value(option, each) for each in given)
    if len(given) > 1:
        raise UserError(f"{option.long} is given {len(given)} times: {', '.join(given)}", remedy="keep one")
    return _value(option, given[0]) if given else None


def _value(option: OptionSpec, text: str) -> str:
    if not text or text.startswith("-"):
        raise UserError(
            f"{option.long} needs a value, and what follows it is {text!r}", remedy=f"{option.long} {option.value}"
        )
    return text

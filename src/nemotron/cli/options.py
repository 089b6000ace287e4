"""The options every recipe command has, declared once; parser, help, completion and error messages use this table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.errors import UserError
from nemotron.cli import complete
from nemotron.cli.click import Parameter, TyperArgument, TyperOption
from nemotron.cli.views import View


@dataclass(frozen=True)
class OptionSpec:
    """One option. `value` is the metavar of its value, None for a flag."""

    long: str
    short: str | None
    value: str | None
    help: str
    complete: Callable[..., Any] | None = None

    @property
    def key(self) -> str:
        """Its name as a Python argument."""
        return self.long.lstrip("-").replace("-", "_")


RECIPE_OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("--config", "-c", "NAME|PATH", "A config of this recipe, or a YAML file.", complete.configs),
    OptionSpec(
        "--run", "-r", "PROFILE", "Run on this profile and stay attached until it has ended.", complete.profiles
    ),
    OptionSpec("--batch", "-b", "PROFILE", "Submit to this profile and return.", complete.profiles),
    OptionSpec("--dry-run", "-d", None, "Show the plan on a page: what is missing, what decides, what is sent."),
    OptionSpec("--full", None, None, "With --dry-run: show everything, every value and every text."),
    OptionSpec("--script", None, None, "With --dry-run: show only the text that the platform gets, as for sbatch."),
    OptionSpec("--cfg", None, "job", "Show only the composed YAML, as Hydra's --cfg; do nothing."),
    OptionSpec("--resolve", None, None, "With --dry-run: ask the platform for what only it knows, and show that too."),
    OptionSpec("--out", None, "FILE", "With --dry-run: save the plan, for 'nemotron apply' and 'nemotron diff'."),
    OptionSpec("--multirun", "-m", None, "One run for every combination of values, such as train.lr=1e-3,3e-4."),
    OptionSpec("--stage", None, None, "Put the files on the cluster and submit nothing."),
    OptionSpec("--force-squash", None, None, "Make the container's squash file again although it exists."),
    OptionSpec("--json", None, None, "Machine-readable output."),
)


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
    json: bool = False
    overrides: tuple[str, ...] = ()
    args: tuple[str, ...] = field(default=())

    @property
    def views(self) -> list[View]:
        """What is to be shown, by the options that ask for it."""
        asked = {View.FULL: self.full, View.SCRIPT: self.script, View.JSON: self.json, View.CONFIG: self.cfg}
        return [view for view, given in asked.items() if given]

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
    options: list[Parameter] = [
        TyperOption(
            param_decls=[o.key, *([o.short] if o.short else []), o.long],
            is_flag=o.value is None,
            multiple=o.value is not None,
            type=str if o.value else bool,
            default=None if o.value else False,
            metavar=o.value,
            help=o.help,
            show_default=False,
            shell_complete=o.complete,
        )
        for o in RECIPE_OPTIONS
    ]
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


def read_invocation(values: dict[str, Any], args: tuple[str, ...]) -> Invocation:
    """The parsed values as an `Invocation`.

    Raises:
        UserError: `--run` with `--batch`, an option given twice or with an option in the place of its value, a
            positional that is no override.
    """
    given: dict[str, Any] = {o.key: _one(o, values.get(o.key) or ()) for o in RECIPE_OPTIONS if o.value}
    given |= {o.key: bool(values.get(o.key)) for o in RECIPE_OPTIONS if not o.value}
    overrides = tuple(values.get("overrides") or ())
    for text in overrides:
        _check_override(text)
    invocation = Invocation(**given, overrides=overrides, args=args)
    if invocation.run is not None and invocation.batch is not None:
        raise UserError(
            "--run and --batch exclude each other: one stays attached, the other returns",
            remedy=f"--run {invocation.run}, or --batch {invocation.batch}",
        )
    return invocation


def _one(option: OptionSpec, given: tuple[str, ...]) -> str | None:
    if len(given) > 1:
        raise UserError(f"{option.long} is given {len(given)} times: {', '.join(given)}", remedy="keep one")
    if not given:
        return None
    if not given[0] or given[0].startswith("-"):
        raise UserError(
            f"{option.long} needs a value, and what follows it is {given[0]!r}", remedy=f"{option.long} {option.value}"
        )
    return given[0]


def _check_override(text: str) -> None:
    if ("=" in text and not text.startswith("=")) or text.startswith("~"):
        return
    raise UserError(
        f"'{text}' is neither an option nor an override",
        where="command line",
        remedy="overrides are key=value; a profile is named with --run NAME, a config with -c NAME; "
        "arguments for the script itself come after --",
    )

"""The part of a recipe's help that is about this recipe: configs, inputs, profiles it could run on, examples."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from nemo_runspec.backends import EXAMPLE, get_backend
from nemo_runspec.catalog import Recipe
from nemo_runspec.errors import UserError
from nemo_runspec.field import Field
from nemo_runspec.lines import text_lines
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.regular import read_regular
from nemo_runspec.runspec_keys import PIPE
from nemo_runspec.topics import BUILDS, in_order

if TYPE_CHECKING:
    from rich.panel import Panel


def print_recipe_help(recipe: Recipe, command: str) -> None:
    """Prints the panels below the options."""
    from rich.console import Group
    from typer.rich_utils import _get_rich_console

    panels = [_panel(title, rows) for title, rows in _sections(recipe, command) if rows]
    _get_rich_console().print(Group(*panels))


def _sections(recipe: Recipe, command: str) -> list[tuple[str, list[tuple[str, str]]]]:
    problem = recipe.problem()
    if problem:
        return [("This recipe cannot be read", [("", problem)])]
    env, note = _env_file()
    return [
        ("Configs (-c)", _configs(recipe)),
        ("Inputs and outputs", _artifacts(recipe)),
        ("Parameters worth knowing", [(p.name, p.about) for p in recipe.spec.parameters]),
        (f"Profiles ({note})", _profiles(env)),
        ("Profile fields, as run.env.FIELD=VALUE", _fields(recipe, env)),
        ("Examples", _examples(recipe, command, env)),
    ]


def print_pipe_help(recipe: Recipe, command: str) -> None:
    """Prints the panels of a recipe of kind `pipe`: each config with its steps, and what can be typed."""
    from rich.console import Group
    from typer.rich_utils import _get_rich_console

    from nemo_runspec.pipelines.file import read_pipeline

    rows: list[tuple[str, str]] = []
    for name, (label, told) in zip(recipe.configs(), _configs(recipe), strict=True):
        try:
            steps = read_pipeline(str(recipe.config_dir / f"{name}.yaml")).stages
            rows.append((label, f"{told}\n{' → '.join(step.id or step.step for step in steps)}".strip()))
        except UserError as error:
            rows.append((label, f"cannot be read: {error.what}"))
    env, note = _env_file()
    examples = _examples(recipe, command, env)
    sections = [("Configs (-c) and their steps", rows), (f"Profiles ({note})", _profiles(env)), ("Examples", examples)]
    _get_rich_console().print(Group(*(_panel(title, lines) for title, lines in sections if lines)))


def _panel(title: str, rows: list[tuple[str, str]]) -> Panel:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    if any(left for left, _ in rows):
        grid.add_column(no_wrap=True, style="bold cyan")
    grid.add_column(overflow="fold")
    for left, right in rows:
        cells = [Text(left), Text(right)] if any(name for name, _ in rows) else [Text(right)]
        grid.add_row(*cells)
    return Panel(grid, title=title, title_align="left", border_style="dim")


def _configs(recipe: Recipe) -> list[tuple[str, str]]:
    rows = []
    for name in recipe.configs():
        default = " (default)" if name == recipe.spec.config_default else ""
        rows.append((name, f"{config_summary(recipe, name)}{default}".strip()))
    return rows


def config_summary(recipe: Recipe, name: str) -> str:
    """The comment a config begins with."""
    try:
        text = read_regular(recipe.config_dir / f"{name}.yaml", follow=True).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    first = text_lines(text.lstrip())
    return first[0].lstrip("# ").strip() if first and first[0].startswith("#") and "@package" not in first[0] else ""


def _artifacts(recipe: Recipe) -> list[tuple[str, str]]:
    rows = [(f"run.{a.name}", f"reads {a.type}: {a.description}") for a in recipe.spec.consumes]
    return rows + [(f"run.{a.name}", f"writes {a.type}: {a.description}") for a in recipe.spec.produces]


def _env_file() -> tuple[EnvFile | None, str]:
    from nemo_runspec.profiles.find import find_env_file
    from nemo_runspec.profiles.load import load_env_files

    try:
        env = load_env_files(find_env_file())
        return env, env.shown_all if env else "no env.toml here"
    except UserError as error:
        return None, error.what


def _profiles(env: EnvFile | None) -> list[tuple[str, str]]:
    if env is None:
        return [("", "Profiles say where a recipe runs. Begin with: nemotron init")]
    from nemo_runspec.profiles.executor import executor_of

    rows = []
    for name in env.profiles:
        try:
            chain = env.chain(name)
            inherited = f", extends {chain[1]}" if len(chain) > 1 else ""
            rows.append((name, f"{executor_of(env, chain)}{inherited}"))
        except UserError as error:
            rows.append((name, error.what))
    return rows


def _fields(recipe: Recipe, env: EnvFile | None) -> list[tuple[str, str]]:
    from nemo_runspec.profiles.fieldset import fields_of

    profile = _far_profile(env)
    executor = _executor(env, profile) if env and profile else EXAMPLE
    fields = fields_of(executor).fields
    shown = [field for field in fields.values() if _is_shown(field, builds=recipe.spec.kind == "build")]
    order = in_order(field.topic for field in shown)
    rows = [(field.name, field.help) for field in sorted(shown, key=lambda field: order.index(field.topic))]
    return [*rows, ("…", f"all {len(fields)} fields of '{executor}': nemotron env fields {executor}")]


def _is_shown(field: Field, *, builds: bool) -> bool:
    return field.topic == BUILDS or (field.in_help and field.of_builds) if builds else field.in_help


def _examples(recipe: Recipe, command: str, env: EnvFile | None) -> list[tuple[str, str]]:
    """Lines that can be typed as they are: they name only what is there, and fields that the profile has."""
    configs = recipe.configs()
    chosen = next((name for name in ("tiny", recipe.spec.config_default) if name in configs), None)
    start = f"{command} -c {shlex.quote(chosen)}" if chosen else command
    profile = _far_profile(env)
    if recipe.spec.kind == "build":
        return _build_examples(recipe, start, env, profile)
    if env is None or profile is None:
        return [("", f"{start}\n{start} --dry-run")]
    if recipe.spec.kind == PIPE:
        named = shlex.quote(profile)
        lines = [f"{start} --run {named} --dry-run", f"{start} --run {named}", f"{start} --batch {named}"]
        return [("", "\n".join(lines))]
    named, changes = shlex.quote(profile), _changes(_executor(env, profile), recipe)
    here = [start] if chosen == "tiny" or (recipe.spec.nodes or 1) == 1 else []
    return [("", "\n".join([*here, f"{start} --run {named} --dry-run", f"{start} --batch {named} {changes}"]))]


def _build_examples(recipe: Recipe, start: str, env: EnvFile | None, profile: str | None) -> list[tuple[str, str]]:
    """As `_examples`, for a container image: it is built where a profile can, else by Docker on this machine."""
    from nemo_runspec.profiles.fieldset import fields_of

    lines = [f"nemotron docker build {recipe.path}"] if (recipe.folder / "Dockerfile").is_file() else []
    executor = _executor(env, profile) if env is not None and profile is not None else ""
    if profile is not None and executor and get_backend(executor).builds:
        named = shlex.quote(profile)
        longer = " run.env.build_time=02:00:00" if "build_time" in fields_of(executor).fields else ""
        lines = [f"{start} --run {named}", f"{start} --batch {named}{longer}"]
    return [("", "\n".join(lines))] if lines else []


def _changes(executor: str, recipe: Recipe) -> str:
    """Overrides of the profile that mean something for this executor and recipe."""
    from nemo_runspec.profiles.fieldset import fields_of

    fields = fields_of(executor).fields
    if get_backend(executor).remote:
        return "run.env.nodes=2" + (" run.env.time=02:00:00" if "time" in fields else "")
    if recipe.spec.launch == "torchrun":
        return "run.env.nproc_per_node=2"
    return "run.env.env_vars.OMP_NUM_THREADS=4"


def _executor(env: EnvFile, profile: str) -> str:
    from nemo_runspec.profiles.executor import executor_of

    try:
        return executor_of(env, env.chain(profile))
    except UserError:
        return EXAMPLE


def _far_profile(env: EnvFile | None) -> str | None:
    """The first profile that runs elsewhere, else the first one."""
    from nemo_runspec.backends import DEFAULT_EXECUTOR
    from nemo_runspec.profiles.executor import executor_of

    names = env.profiles if env else []
    for name in names:
        try:
            if env and executor_of(env, env.chain(name)) != DEFAULT_EXECUTOR:
                return name
        except UserError:
            continue
    return names[0] if names else None

"""`nemotron init`: the first profile, by a few questions, and a recipe that runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_runspec.backends import DEFAULT_EXECUTOR, find_backend, known_executors
from nemo_runspec.backends.setup import Setup, SetupChoice, SetupQuestion
from nemo_runspec.console import note
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.profiles.edit import check_name
from nemo_runspec.profiles.files import project_root, target_file
from nemo_runspec.source import display_path
from nemotron.cli import complete
from nemotron.cli.click import Command, TyperOption
from nemotron.cli.confirm import can_ask
from nemotron.cli.parameters import command, option
from nemotron.cli.setup.files import sections, write_profile
from nemotron.cli.setup.interview import TerminalInterview, option_of
from nemotron.cli.setup.recipe import needs_image, recipe_folder, write_recipe
from nemotron.cli.text import paint


def make(help_text: str) -> Command:
    """The command. Its options are the questions of all executors."""
    return command(
        "init",
        help_text,
        _init,
        option("--executor", "Where jobs run.", value="NAME", complete=complete.executors),
        option("--profile", "Name of the profile.", value="NAME"),
        option("--recipe", "Write a recipe to begin with too, such as demo/train.", value="NAME"),
        _yes(),
        option("--force", "Replace a profile of that name."),
        option("--global", "Write into your own env.toml, below ~/.config, which holds in every project."),
        *_options(),
    )


def _yes() -> TyperOption:
    text = "Take what was found, and ask nothing."
    return TyperOption(
        param_decls=["yes", "-y", "--yes"], is_flag=True, type=bool, default=False, help=text, show_default=False
    )


def _options() -> list[TyperOption]:
    """The options of all executors, each once; what one alone has stands under its name."""
    setups = _setups().values()
    helps = {name: text for setup in setups for name, text in setup.options.items()}
    owners = {name: [setup.title for setup in setups if name in setup.options] for name in helps}
    return [
        option(option_of(name), helps[name], value="TEXT", panel=owners[name][0] if len(owners[name]) == 1 else None)
        for name in sorted(helps, key=lambda name: len(owners[name]) == 1)
    ]


def _setups() -> dict[str, Setup]:
    """Every executor with its questions; one that brings none is asked nothing."""
    backends = {name: backend for name in known_executors() if (backend := find_backend(name))}
    return {name: backend.load_setup() or Setup(ask=lambda _: {}, title=name) for name, backend in backends.items()}


def _init(executor: str | None, profile: str | None, recipe: str | None, yes: bool, force: bool, **options: Any) -> int:
    file = target_file(users=bool(options.pop("global")))
    given = {name: str(value) for name, value in options.items() if value}
    folder = recipe_folder(recipe, project_root()) if recipe else None
    if profile:
        _check_free(file, profile, force)
    image, written, name = False, [], ""
    if not (folder and file.exists() and not executor and not profile and not given):
        there = () if force else sections(file)
        name, values, image = _answers(executor, profile, given, yes, there)
        _check_free(file, name, force)
        written = write_profile(file, name, values)
    if folder and recipe:
        written += write_recipe(recipe, folder, image=image if name else needs_image(file))
    _report(file, name, recipe, written)
    return 0


def _check_free(file: Path, name: str, force: bool) -> None:
    check_name(name)
    if not force and name in sections(file):
        raise UserError(
            f"{display_path(file)} has a profile '{name}' already",
            remedy="--profile OTHER-NAME adds another one, --force replaces it",
        )


def _answers(
    executor: str | None, profile: str | None, given: dict[str, str], yes: bool, there: tuple[str, ...]
) -> tuple[str, dict[str, Any], bool]:
    """The profile's name and keys, and whether recipes must bring its image.

    Args:
        there: names that are taken.

    Raises:
        UserError: questions are left that nobody is there to answer; options that answer none.
    """
    setups = _setups()
    options = {**given, **({"executor": executor} if executor else {}), **({"profile": profile} if profile else {})}
    interview = TerminalInterview(options, accept=yes, at_terminal=can_ask())
    chosen = interview.ask(_where(setups))
    interview.require()
    setup = setups[chosen]
    _refuse_foreign(chosen, setup, given)
    values = dict(setup.ask(interview))
    name = interview.ask(
        SetupQuestion("profile", "Name of the profile", _name(setup.profile or chosen, values), taken=there)
    )
    interview.require()
    for line in interview.notes:
        note(line)
    return name, {"executor": chosen, **values}, setup.image and not values.get("container_image")


def _where(setups: Mapping[str, Setup]) -> SetupQuestion:
    """Where jobs run: on a login node its cluster (`Setup.preferred`), else this machine, unless somebody says so."""
    found = {name: setup.found() for name, setup in setups.items()}
    choices = tuple(SetupChoice(name, found[name] or "not found from here") for name in setups)
    default = next((name for name, setup in setups.items() if setup.preferred and found[name]), DEFAULT_EXECUTOR)
    return SetupQuestion("executor", "Where do jobs run", default, choices, closed=True)


def _refuse_foreign(executor: str, setup: Setup, given: Mapping[str, str]) -> None:
    known = setup.options
    foreign = [option_of(name) for name in given if name not in known]
    if foreign:
        have = ", ".join(map(option_of, known)) or "none"
        raise UserError(
            f"{foreign[0]} is no option of executor '{executor}'",
            remedy=did_you_mean(foreign[0], map(option_of, known)) or f"its options: {have}",
        )


def _name(otherwise: str, values: Mapping[str, Any]) -> str:
    """What the profile is called where nobody says: a cluster by its host."""
    host = str(values.get("host") or "").split(".")
    label = next((word for word in host if word not in ("", "login", "login1", "ssh")), "")
    return label if label and not label.isdecimal() else otherwise


def _report(file: Path, name: str, recipe: str | None, written: list[Path]) -> None:
    for path in written:
        print(f"wrote {display_path(path)}")
    if name:
        _report_problems(file, name)
    print(paint("next:", "bold"))
    if name:
        print(f"  nemotron doctor {name}")
    words = f"{recipe.replace('/', ' ')} -c tiny" if recipe else "nano3 pretrain -c tiny --dry-run"
    print(f"  nemotron {words}{f' --run {name}' if name else ''}")
    if not recipe:
        print("  nemotron init --recipe demo/train    (a recipe of your own to begin with)")


def _report_problems(file: Path, name: str) -> None:
    """What `env check` says of the new profile."""
    from nemo_runspec.doctor.envcheck import check_env_file
    from nemo_runspec.profiles.envfile import load_env_file

    report = check_env_file(load_env_file(file))
    for error in report.errors:
        if f"[{name}]" in (error.where or ""):
            print(f"{paint('still to do:', 'yellow')} {error}")

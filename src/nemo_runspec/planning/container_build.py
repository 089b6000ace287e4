"""Recipes of `kind = "build"`: where they may run, what of a profile is theirs, and their config as words for a script.

The script of a build runs in a container that has a shell and podman, and no reader of YAML: its config is therefore
handed over as arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from nemo_runspec.backends import DEFAULT_EXECUTOR, find_backend, known_executors
from nemo_runspec.backends.base import Backend
from nemo_runspec.catalog import Recipe
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.plans.model import Launch, Plan
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.profile import Profile
from nemo_runspec.runspec import Runspec
from nemo_runspec.source import Source

KIND = "build"

_OPTIONS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "image": (re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*"), "a name of small letters, digits and . _ - between them"),
    "save": (re.compile("sqsh|oci|both"), "sqsh, oci or both"),
}
"""Keys of a build's config, and what their values may be, also in words."""
_SCRIPT = "build_image.sh"
_SAVED = (
    ("sqsh", ".sqsh", ("enroot", "import", "--output"), "podman://{}"),
    ("oci", ".oci.tar", ("podman", "save", "--format", "oci-archive", "--output"), "{}"),
)
"""What `build_image.sh` leaves: the value of `save`, the end of its name, the command, the image's name in it."""
_ARGUMENTS = "build_args"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def refuse_build(recipe: Recipe, backend: Backend, profile: Profile | None) -> None:
    """Raises `UserError` where a build was asked for and this backend runs none."""
    if recipe.spec.kind != KIND or backend.builds:
        return
    here = f"nemotron docker build {recipe.path}" if (recipe.folder / "Dockerfile").is_file() else None
    if profile is None:
        what = f"{recipe.path} builds a container image by {_builders()}, and no profile is named"
        raise UserError(what, remedy="; or on this machine: ".join(filter(None, ("--run PROFILE", here))))
    raise UserError(
        f"{recipe.path} builds a container image, which executor '{backend.name}' does not do; nothing was submitted",
        where=f"profile '{profile.name}'",
        remedy="; or on this machine: ".join(filter(None, (f"name a profile of {_builders()}", here))),
    )


def _builders() -> str:
    """The executors that build images, as a profile names them."""
    backends = filter(None, map(find_backend, known_executors()))
    return "executor = " + " or ".join(f'"{backend.name}"' for backend in backends if backend.builds)


def taken_of(recipe: Recipe, profile: Profile) -> tuple[Mapping[str, Any], dict[str, Source]]:
    """The profile's values for a recipe and their sources: a build leaves what says how training jobs look."""
    if recipe.spec.kind != KIND:
        return profile.values, dict(profile.sources)
    left = {name for name, declared in fields_of(profile.executor).fields.items() if not declared.of_builds}
    values = {key: value for key, value in profile.values.items() if key not in left}
    return values, {path: source for path, source in profile.sources.items() if path.split(".")[0] not in left}


def with_build_words(launch: Launch, spec: Runspec, config: Mapping[str, Any], cache: str | None) -> Launch:
    """The launch of a build gets its config as words, before those of the command line; others stay as they are.

    Args:
        cache: the build cache as the cluster names it, None for no build.

    Raises:
        UserError: a key no build has, or a value that it cannot take.
    """
    if spec.kind != KIND or cache is None or not config:
        return launch
    return replace(launch, args=(*_words(config), "--cache", cache, *launch.args))


@dataclass(frozen=True, slots=True)
class BuildSteps:
    """What a build is going to do in its container: `commands`, and `images`, the files it leaves on the cluster."""

    commands: tuple[tuple[str, ...], ...]
    images: tuple[str, ...]


def steps_of(plan: Plan) -> BuildSteps | None:
    """The steps of a build by `build_image.sh`, for a preview; None for other jobs, and builds with another script."""
    if not any(file.path.endswith(f"/{_SCRIPT}") for file in plan.bundle.files):
        return None
    words = plan.launch.args
    given = {key: value for key, value in pairwise(words) if key in ("--image", "--save", "--cache")}
    if len(given) < 3:
        return None
    image, tag = given["--image"], f"localhost/nemotron/{given['--image']}:latest"
    arguments = [text for key, value in pairwise(words) if key == "--build-arg" for text in (key, value)]
    build = ("podman", "build", "--isolation", "chroot", *arguments, "--tag", tag, "--file", "Dockerfile", ".")
    saved = [step for step in _SAVED if given["--save"] in (step[0], "both")]
    commands = [(*command, f"{{}}/{image}{end}", name.format(tag)) for _, end, command, name in saved]
    folder = f"{given['--cache']}/containers"
    return BuildSteps(
        (build, *(tuple(word.replace("{}", folder) for word in words) for words in commands)),
        tuple(f"{folder}/{image}{end}" for _, end, _, _ in saved),
    )


def own_build_arguments(recipe: Recipe) -> dict[str, str]:
    """`build_args` of a build's default config: values for the ARGs of its Dockerfile. Empty for other recipes.

    Raises:
        UserError: they are no table of plain values.
    """
    from nemo_runspec.config.compose import Composition  # only where a configuration is read
    from nemo_runspec.planning.config_choice import choose_yaml

    if recipe.spec.kind != KIND or (choice := choose_yaml(recipe, None)) is None:
        return {}
    composition = Composition(DEFAULT_EXECUTOR)
    composition.load_yaml(choice, ())
    given = composition.resolved(_ARGUMENTS) if _ARGUMENTS in composition.cfg else {}
    words = [word for word in _arguments(given) if word != "--build-arg"]
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _words(config: Mapping[str, Any]) -> Iterator[str]:
    for key, value in config.items():
        if key == _ARGUMENTS:
            yield from _arguments(value or {})
        elif key not in _OPTIONS:
            known = (*_OPTIONS, _ARGUMENTS)
            raise UserError(f"a build's config has no '{key}'", remedy=did_you_mean(key, known) or ", ".join(known))
        elif not isinstance(value, str) or not _OPTIONS[key][0].fullmatch(value):
            raise UserError(f"a build's {key} cannot be {value!r}", remedy=f"it is {_OPTIONS[key][1]}")
        else:
            yield from (f"--{key}", value)


def _arguments(given: Any) -> Iterator[str]:
    if not isinstance(given, Mapping):
        raise UserError(f"{_ARGUMENTS} must be a table of NAME: value")
    for name, value in given.items():
        if not _ARGUMENT.fullmatch(str(name)) or isinstance(value, (Mapping, list)):
            raise UserError(f"{_ARGUMENTS}: {name!r} must be the name of an ARG with a plain value")
        if str(name).endswith("_REF") and value is not None and not _COMMIT.fullmatch(str(value)):
            raise UserError(
                f"{_ARGUMENTS}.{name} must be a whole commit, not {value!r}: a branch is another one tomorrow",
                remedy="ask the repository which it is now: git ls-remote URL NAME",
            )
        if value is not None:
            yield from ("--build-arg", f"{name}={str(value).lower() if isinstance(value, bool) else value}")

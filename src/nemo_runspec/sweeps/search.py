"""The `hydra` node of a command line, composed by Hydra itself, for a sweeper plugin.

Only the sweeper is Hydra's. Its launcher, folders and logging are replaced, since a profile says where things run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_runspec.config.overrides import is_hydra_override, parse_override
from nemo_runspec.config.yaml_file import YamlChoice
from nemo_runspec.errors import UserError, did_you_mean, first_line
from nemo_runspec.redact import redact_argv
from nemo_runspec.source import COMMAND_LINE
from nemo_runspec.sweeps.model import overrides_of

BASIC = "basic"
"""Hydra's own sweeper: a grid. It asks for no metric."""

_OURS = re.compile(r"^(\+\+|\+|~)?hydra(/sweeper(/[^=]*)?|\.sweeper(\.[^=]*)?)(=|$)")
_PARAMS = re.compile(r"^\+{0,2}hydra\.sweeper\.params(\.(?P<key>[^=]+))?=(?P<value>.*)", re.DOTALL)
_PACKAGES = {"optuna": "hydra-optuna-sweeper", "ax": "hydra-ax-sweeper", "nevergrad": "hydra-nevergrad-sweeper"}
_OTHER_SPACES = ("search_space", "custom_search_space", "parametrization", "ax_config")
"""Settings beside `params` in which a sweeper may be told what to choose from."""


@dataclass(frozen=True)
class Search:
    """A sweeper to be asked, and what it is asked.

    Args:
        node: the composed `hydra` node.
        loader: Hydra's, for the config groups of the recipe.
        fixed: overrides that every job has.
        swept: those that name what to choose from.
    """

    name: str
    config: Any
    loader: Any
    fixed: tuple[str, ...]
    swept: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """The sweeper's own settings."""
        from omegaconf import OmegaConf

        node: Any = OmegaConf.to_container(self.config.hydra.sweeper, resolve=False, enum_to_str=True)
        return {str(key): value for key, value in node.items() if key != "_target_"}

    @property
    def maximize(self) -> bool:
        """True if it looks for the highest value."""
        return self.settings.get("direction") == "maximize"

    @property
    def space(self) -> dict[str, str]:
        """Key → what is chosen from, as Hydra writes it."""
        params = {str(k): str(v) for k, v in (self.settings.get("params") or {}).items()}
        return {**params, **{key: value for key, _, value in (text.partition("=") for text in self.swept)}}

    @property
    def trials(self) -> int | None:
        """How many jobs it means to run, where it says so."""
        count = self.settings.get("n_trials")
        return count if isinstance(count, int) else None

    def example(self) -> tuple[str, ...]:
        """The overrides of one job it might ask for: the first value of everything there is to choose from."""
        chosen = [first_value(f"{key}={value}") for key, value in self.space.items()]
        return (*self.fixed, *chosen)


def compose_search(overrides: Sequence[str], choice: YamlChoice | None, folder: Path) -> Search:
    """Composes the `hydra` node of a command line that has `hydra…` overrides among others.

    A failed job does not end the sweep, whatever the plugin's own default is, unless the command line says so.

    Args:
        choice: the recipe's YAML, whose config groups may be swept.
        folder: of the sweep, for the sweeper's files.

    Raises:
        UserError: no such sweeper, a setting it does not have, or a `hydra` key that means nothing here.
    """
    ours = [text for text in overrides if is_hydra_override(text)]
    for text in ours:
        _check_key(text)
    others = [text for text in overrides if not is_hydra_override(text)]
    swept = tuple(text for text in others if parse_override(text).is_sweep_override())
    _refuse_secrets(swept)
    params = {key: value for text in ours if _PARAMS.match(text) for key, value in _params_of(text).items()}
    ours = [text for text in ours if not _PARAMS.match(text)]
    name = next((t.partition("=")[2] for t in reversed(ours) if t.startswith("hydra/sweeper=")), BASIC)
    config, loader = _compose(name, ours, choice)
    with _open(config):
        config.hydra.sweep.dir = str(folder)
        if params:
            config.hydra.sweeper.params = {**(config.hydra.sweeper.get("params") or {}), **params}
        if "max_failure_rate" in config.hydra.sweeper and not _mentions(ours, "max_failure_rate"):
            config.hydra.sweeper.max_failure_rate = 1.0
    search = Search(name, config, loader, tuple(t for t in others if t not in swept), swept)
    _check_search(search)
    return search


def first_value(text: str) -> str:
    """A sweeping override with one value: the first of a choice or range, the beginning of an interval."""
    from hydra.core.override_parser.types import IntervalSweep

    override = parse_override(text)
    if not override.is_sweep_override():
        return text
    value = override.value()
    key = override.get_key_element()
    if isinstance(value, IntervalSweep):
        return f"{key}={value.start}"
    return f"{key}={next(iter(override.sweep_string_iterator()))}"


def _check_key(text: str) -> None:
    if _OURS.match(text):
        return
    key = text.partition("=")[0]
    launcher = key.lstrip("+~").startswith(("hydra/launcher", "hydra.launcher"))
    remedy = "--run PROFILE says where runs go, run.env.max_parallel how many at a time" if launcher else None
    raise UserError(
        f"'{key}' means nothing here",
        where=COMMAND_LINE,
        remedy=remedy or "of Hydra's own settings there are hydra/sweeper=NAME and hydra.sweeper.*",
    )


def _params_of(text: str) -> dict[str, str]:
    """What `hydra.sweeper.params.KEY=VALUE` adds. Hydra itself would take a dotted KEY for tables in tables."""
    match = _PARAMS.match(text)
    assert match is not None
    if match["key"]:
        return overrides_of([f"{match['key']}={match['value']}"])
    value: Any = parse_override(text).value()
    if not isinstance(value, (dict, type(None))):
        raise UserError(f"'{text}' is not a table", where=COMMAND_LINE, remedy="hydra.sweeper.params.KEY=VALUES")
    return {str(key): str(item) for key, item in (value or {}).items()}


def _refuse_secrets(swept: Sequence[str]) -> None:
    for text, shown in zip(swept, redact_argv(swept), strict=True):
        if text != shown:
            raise UserError(
                f"'{text.partition('=')[0]}' holds a secret, and a sweeper writes down what it tries",
                where=COMMAND_LINE,
                remedy="leave hydra/sweeper out: a plain -m keeps secrets out of every file",
            )


def _check_search(search: Search) -> None:
    if isinstance(search.settings.get("direction"), list):
        raise UserError(
            "a sweep has one metric, and hydra.sweeper.direction names several",
            where=COMMAND_LINE,
            remedy="hydra.sweeper.direction=minimize or maximize; run.env.sweep_metric names the metric",
        )
    if search.name != BASIC and not any([search.space, *(search.settings.get(key) for key in _OTHER_SPACES)]):
        raise UserError(
            f"there is nothing for '{search.name}' to choose from",
            where=COMMAND_LINE,
            remedy="name a range: 'optimizer.lr=interval(1e-4,1e-2)'",
        )


def _compose(name: str, ours: Sequence[str], choice: YamlChoice | None) -> tuple[Any, Any]:
    from hydra.core.plugins import Plugins
    from hydra.errors import HydraException, MissingConfigException
    from hydra.types import RunMode
    from omegaconf.errors import OmegaConfBaseException

    Plugins.instance()  # imports what is installed below `hydra_plugins`, which registers its configs
    loader = _make_loader(choice)
    try:
        config = loader.load_configuration(config_name=None, overrides=list(ours), run_mode=RunMode.MULTIRUN)
    except MissingConfigException as error:
        raise _no_sweeper(name, error, loader) from None
    except (HydraException, OmegaConfBaseException) as error:
        raise _bad_setting(name, ours, error, loader) from None
    return config, loader


def _make_loader(choice: YamlChoice | None) -> Any:
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.utils import create_config_search_path

    class Loader(ConfigLoaderImpl):  # type: ignore[misc]  # Hydra is not typed
        """Does not compose jobs: they are planned, with a profile, by us."""

        def load_sweep_config(self, master_config: Any, sweep_overrides: list[str]) -> Any:
            return master_config

    return Loader(create_config_search_path(str(choice.folder) if choice else None))


def _no_sweeper(name: str, error: Exception, loader: Any) -> UserError:
    there = sorted(loader.get_group_options("hydra/sweeper"))
    if name in there:  # a group of the sweeper's own, such as its sampler
        return UserError(f"cannot compose the sweeper '{name}': {first_line(error)}", where=COMMAND_LINE)
    near, package = did_you_mean(name, there), _PACKAGES.get(name)
    install = f"pip install {package}, where nemotron is installed" if package else None
    have = f"there are: {', '.join(there)}"
    return UserError(
        f"no Hydra sweeper '{name}' is installed",
        where=COMMAND_LINE,
        remedy="; ".join(part for part in (install or near, have) if part),
    )


def _bad_setting(name: str, ours: Sequence[str], error: Exception, loader: Any) -> UserError:
    what = first_line(error)
    unknown = re.match(r"Could not override 'hydra\.sweeper\.(\w+)'", what)
    if unknown:
        what = f"it has no setting '{unknown[1]}'"
    remedy = did_you_mean(unknown[1], _settings_there(ours, loader)) if unknown else None
    if not any(text.startswith("hydra/sweeper=") for text in ours):
        remedy = "name the sweeper too, such as hydra/sweeper=optuna"
    return UserError(f"cannot set up the sweeper '{name}': {what}", where=COMMAND_LINE, remedy=remedy)


def _settings_there(ours: Sequence[str], loader: Any) -> list[str]:
    from hydra.types import RunMode

    groups = [text for text in ours if text.startswith("hydra/")]
    config = loader.load_configuration(config_name=None, overrides=groups, run_mode=RunMode.MULTIRUN)
    return [str(key) for key in config.hydra.sweeper]


def _mentions(ours: Sequence[str], setting: str) -> bool:
    return any(text.lstrip("+~").startswith(f"hydra.sweeper.{setting}=") for text in ours)


@contextmanager
def _open(config: Any) -> Iterator[None]:
    from omegaconf import open_dict

    with open_dict(config.hydra), open_dict(config.hydra.sweeper):
        yield

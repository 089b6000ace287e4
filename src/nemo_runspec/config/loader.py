"""Hydra's loader of YAML, stopped where the profile comes in, with the line of every key that it has read."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.core_plugins.structured_config_source import StructuredConfigSource
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.sources_registry import SourcesRegistry
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from nemo_runspec.config.problems import message, missing_config, shown, yaml_error
from nemo_runspec.config.yaml_file import YamlChoice, restore_text
from nemo_runspec.config.yaml_lines import refuse_bomb
from nemo_runspec.errors import UserError
from nemo_runspec.source import Source

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from hydra.plugins.config_source import ConfigResult


@dataclass(frozen=True)
class Composed:
    """What Hydra made of a YAML.

    Args:
        values: the overrides that are values rather than choices of a group.
        sources: where each value stands.
        notes: what Hydra has to say that is no error.
    """

    config: DictConfig
    values: list[Override]
    sources: dict[str, Source]
    notes: list[str]


def compose_by_hydra(choice: YamlChoice, overrides: list[Override]) -> Composed:
    """The YAML with all that its `defaults:` and the overrides name.

    Raises:
        UserError: no such config, not valid YAML, an unknown group.
    """
    loader = LayeredLoader(choice)
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always", UserWarning)
            config, values = loader.compose(overrides)
        notes = [str(note.message).partition(" See https")[0] for note in noted]
    except MissingConfigException as error:
        raise missing_config(choice, error) from None
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(f"cannot compose config '{choice.name}': {message(error)}", where=shown(choice)) from None
    except AssertionError:  # what Hydra 1.3 makes of a group without a name
        raise UserError(
            f"config '{choice.name}': an entry of its defaults, or an override, names no config",
            where=shown(choice),
            remedy="write them as Hydra reads them: group: choice, or group=choice",
        ) from None
    except (yaml.YAMLError, ValueError, OSError, RecursionError) as error:
        raise yaml_error(choice, error) from None
    return Composed(config, values, loader.sources, notes)


def group_loader(choice: YamlChoice) -> ConfigLoaderImpl:
    """A Hydra loader that can list the config groups beside a YAML."""
    return LayeredLoader(choice)


class _BoundedSource(FileConfigSource):  # type: ignore[misc]  # Hydra is not typed
    """Hydra's reader of files, which looks at what it will have read first."""

    def load_config(self, config_path: str) -> ConfigResult:
        """As Hydra's. Raises `UserError` for a file that stands for too much."""
        file = Path(self.path, self._normalize_file_name(config_path))
        if file.is_file():
            refuse_bomb(file)
        return super().load_config(config_path)


class LayeredLoader(ConfigLoaderImpl):  # type: ignore[misc]  # Hydra is not typed
    """Hydra's loader, stopped before the command line's values, and remembering each file's keys."""

    def __init__(self, choice: YamlChoice) -> None:
        registry = SourcesRegistry.instance()
        registry.register(FileConfigSource)
        registry.register(StructuredConfigSource)
        path = ConfigSearchPathImpl()
        path.append("main", f"file://{choice.folder}")
        for extra in choice.search:
            if extra != choice.folder:
                path.append("recipe", f"file://{extra}")
        path.append("schema", "structured://")
        super().__init__(path)
        self.repository.sources = [
            _BoundedSource(s.provider, s.path) if type(s) is FileConfigSource else s for s in self.repository.sources
        ]
        self._choice = choice
        self.sources: dict[str, Source] = {}

    def compose(self, overrides: list[Override]) -> tuple[DictConfig, list[Override]]:
        """The composed YAML, and the overrides that are values rather than group choices."""
        version.setbase(None)  # the installed Hydra's own rules, without advice on those of 1.1
        self.ensure_main_config_source_available()
        _, repo = self._parse_overrides_and_create_caching_repo(self._choice.name, [])
        defaults = create_defaults_list(
            repo=repo,
            config_name=self._choice.name,
            overrides_list=overrides,
            prepend_hydra=False,
            skip_missing=False,
        )
        cfg = self._compose_config_from_defaults_list(defaults=defaults.defaults, repo=repo)
        if "hydra" in cfg:
            del cfg["hydra"]
        return cfg, list(defaults.config_overrides)

    def _load_single_config(self, default: Any, repo: Any) -> ConfigResult:
        result = super()._load_single_config(default, repo)
        folder = Path(result.path.removeprefix("file://"))
        file = folder / f"{str(default.config_path).removesuffix('.yaml')}.yaml"
        package = default.package if default.package is not None else result.header["package"]
        self.sources.update(restore_text(result.config, file, package or ""))
        return result

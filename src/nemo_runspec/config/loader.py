"""Hydra's loader of YAML, stopped where the profile comes in, with the line of every key that it has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.core_plugins.structured_config_source import StructuredConfigSource
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.sources_registry import SourcesRegistry
from omegaconf import DictConfig, OmegaConf

from nemo_runspec.config.yaml_lines import read_yaml_text, refuse_bomb
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import Layer, Source, display_path

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from hydra.plugins.config_source import ConfigResult

_VARIABLES = "run.env.env_vars."


@dataclass(frozen=True)
class YamlChoice:
    """Which YAML is composed: `name` in `folder`, with `search` for what its `defaults:` name. None: no YAML."""

    name: str
    folder: Path
    search: tuple[Path, ...] = ()


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
        prefix = f"{package}." if package else ""
        text = read_yaml_text(file)
        lines = {f"{prefix}{key}": line for key, line in text.lines.items()}
        _keep_text(result.config, {f"{prefix}{key}": value for key, value in text.clocks.items()})
        _keep_text(
            result.config,
            {path: value for key, value in text.plain.items() if (path := f"{prefix}{key}").startswith(_VARIABLES)},
        )
        shown = display_path(file)
        container: Any = OmegaConf.to_container(result.config, resolve=False)
        for path in flatten(container) if isinstance(container, dict) else ():
            self.sources[path] = Source(Layer.YAML, shown, _nearest_line(path, lines))
        return result


def _keep_text(config: DictConfig, texts: Mapping[str, str]) -> None:
    """Puts scalars back as they were written: a time limit is no number in base 60, a variable's `010` is no 8."""
    for path, text in texts.items():
        if "${" not in text:
            OmegaConf.update(config, path, text, merge=False, force_add=True)


def _nearest_line(path: str, lines: Mapping[str, int]) -> int | None:
    while path:
        if path in lines:
            return lines[path]
        path = path.rpartition(".")[0]
    return None

"""One configuration out of four layers: the recipe's YAML, the profile, what nemotron itself knows, the command line.

Composition is Hydra's own (`defaults:` lists, groups, packages, overrides). `loader.LayeredLoader` stands in at the one
place Hydra offers none: between the composed YAML and the command line. Hydra's plugin scan is left out, since only
its file source is used; and all of Hydra where nothing is asked of it (`plain.py`): that is most of the start-up time.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import InterpolationToMissingValueError, MissingMandatoryValue, OmegaConfBaseException

from nemo_runspec.config import resolvers
from nemo_runspec.config.doubling import refuse_doubling
from nemo_runspec.config.overrides import canonical_override, parse_override, refuse_hydra, refuse_sweep
from nemo_runspec.config.plain import Setting, plain_config, plain_setting
from nemo_runspec.config.problems import causes_of, message
from nemo_runspec.config.resolvers import bounded_resolution
from nemo_runspec.config.yaml_file import YamlChoice, restore_text
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import Layer, Source

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override


class NoValue(Enum):
    """Why there is no value at a path."""

    ABSENT = "absent"
    MANDATORY = "???"
    UNRESOLVED = "unresolved"
    """It refers to what is not there, or not yet: the whole configuration's resolution says so better."""


class Composition:
    """A configuration being composed: a mutable Hydra config and the source of every value put into it.

    `notes` is what Hydra has to say about the YAML that is no error; `has_overrides`: the command line is applied.
    """

    def __init__(self, executor: str) -> None:
        self.executor = executor
        self.cfg: DictConfig = OmegaConf.create()
        self.sources: dict[str, Source] = {}
        self.notes: list[str] = []
        self.has_overrides = False
        self._pending: Sequence[Override | Setting] = ()
        self._places: Mapping[str, Source] = {}

    def load_yaml(
        self, choice: YamlChoice | None, overrides: tuple[str, ...], places: Mapping[str, Source] | None = None
    ) -> None:
        """Composes the YAML layer, with group choices of the command line already taken.

        Args:
            places: of overrides that do not stand on the command line: where they do.

        Raises:
            UserError: no such config, not valid YAML, an unknown group, an override that cannot be read.
        """
        texts = [canonical_override(text, self.executor) for text in overrides]
        self._places = {canonical_override(text, self.executor): place for text, place in (places or {}).items()}
        if self._load_plain(choice, texts):
            return
        parsed = [parse_override(text, where=self._source(text).place()) for text in texts]
        for override, text in zip(parsed, texts, strict=True):
            refuse_hydra(override, self._source(text).place())
            refuse_sweep(override, self._source(text).place())
        if choice is None:
            self._pending = parsed
            return
        from nemo_runspec.config.loader import compose_by_hydra  # brings Hydra

        composed = compose_by_hydra(choice, parsed)
        self.cfg, self._pending = composed.config, composed.values
        self.sources.update(composed.sources)
        self.notes += composed.notes

    def _load_plain(self, choice: YamlChoice | None, texts: Sequence[str]) -> bool:
        """The same where Hydra has no part in it; False where it has, and nothing was done."""
        settings = [setting for text in texts if (setting := plain_setting(text)) is not None]
        if len(settings) < len(texts):
            return False
        if choice is not None:
            config = plain_config(choice, [setting.key for setting in settings])
            if config is None:
                return False
            self.sources.update(restore_text(config, choice.file))
            self.cfg = config
        self._pending = settings
        return True

    def run_section(self) -> dict[str, Any]:
        """The `run` section as composed so far, interpolations untouched."""
        run = self.cfg.get("run") if "run" in self.cfg else None
        if run is None:
            return {}
        if not isinstance(run, DictConfig):
            raise UserError("'run' must be a table", where=self.place("run"))
        return cast("dict[str, Any]", OmegaConf.to_container(run, resolve=False))

    def put_run(self, run: Mapping[str, Any], sources: Mapping[str, Source], open_tables: tuple[str, ...]) -> None:
        """Puts the joined `run` section in place and closes the tree: from now on new keys need `+`.

        Args:
            run: the whole section.
            sources: dotted path below `run.` → where it came from.
            open_tables: dotted paths below `run.` whose keys are the user's own.
        """
        try:
            self.cfg["run"] = dict(run)
        except OmegaConfBaseException as error:
            where = next((s.place() for p, s in sources.items() if f"run.{p}" == _table_of(error)), None)
            raise UserError(f"cannot read {_table_of(error)}: {message(error)}", where=where) from None
        self.sources = {p: s for p, s in self.sources.items() if not _at_or_below(p, "run")}
        self.sources.update({f"run.{path}": source for path, source in sources.items()})
        OmegaConf.set_struct(self.cfg, True)
        for path in open_tables:
            node = OmegaConf.select(self.cfg, f"run.{path}")
            if isinstance(node, DictConfig):
                OmegaConf.set_struct(node, False)

    def put(self, path: str, value: Any, source: Source) -> None:
        """Sets one value from inside, existing or not."""
        try:
            OmegaConf.update(self.cfg, path, value, merge=False, force_add=True)
        except OmegaConfBaseException as error:  # such as text with half an interpolation, of a variable
            raise UserError(f"{path} = {value!r} cannot be read: {message(error)}", where=source.place()) from None
        self._own(path, source)

    def apply_overrides(self) -> None:
        """Applies the command line, in order.

        Raises:
            UserError: a key that does not exist (with a suggestion), or a value that does not fit.
        """
        for override in self._pending:
            if not isinstance(override, Setting):
                self._apply(override)
            elif not self._set(override):
                self._apply(parse_override(override.text))  # which has the words for what is wrong
        self.has_overrides = True
        refuse_doubling(self.written(), resolvers.MOST_RESOLVED, self.place)

    def select(self, path: str) -> Any:
        """A resolved value, or None."""
        try:
            with bounded_resolution():
                return OmegaConf.select(self.cfg, path, throw_on_resolution_failure=True)
        except (OmegaConfBaseException, RecursionError) as error:
            raise self._resolution_error(error) from None

    def written(self) -> dict[str, Any]:
        """A plain copy of the whole tree, interpolations and `???` as they are written."""
        return cast("dict[str, Any]", OmegaConf.to_container(self.cfg, resolve=False))

    def found(self, path: str) -> Any:
        """A resolved value, null as None, tables and lists as such of Python's; a `NoValue` where there is none."""
        try:
            with bounded_resolution():
                node = OmegaConf.select(
                    self.cfg,
                    path,
                    default=NoValue.ABSENT,
                    throw_on_missing=True,
                    throw_on_resolution_failure=True,
                )
                is_plain = not isinstance(node, (DictConfig, ListConfig))
                return node if is_plain else OmegaConf.to_container(node, resolve=True)
        except InterpolationToMissingValueError:
            return NoValue.UNRESOLVED
        except MissingMandatoryValue:
            return NoValue.MANDATORY
        except (OmegaConfBaseException, RecursionError, UserError):
            return NoValue.UNRESOLVED

    def resolved(self, path: str | None = None) -> dict[str, Any]:
        """A plain, fully resolved copy of the whole tree or of one table; empty where the table is null or not there.

        Raises:
            UserError: no table, an interpolation that cannot be resolved or a mandatory value (`???`) nobody gave.
        """
        node = self.cfg if path is None else self.select(path)
        if node is None:
            return {}
        if not isinstance(node, DictConfig):
            raise UserError(f"{path} must be a table, not {node!r}", where=self.place(path or ""))
        try:
            with bounded_resolution():
                container = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
        except (OmegaConfBaseException, RecursionError) as error:
            raise self._resolution_error(error) from None
        return cast("dict[str, Any]", container)

    def place(self, path: str) -> str | None:
        """Where a value, or the nearest table above it, was written."""
        source = self.source_of(path)
        return source.place() if source else None

    def source_of(self, path: str) -> Source | None:
        """The source of a value or of the nearest table above it; for a table, of its first value."""
        own = self.sources.get(path)
        if own is not None and own.layer is not Layer.DEFAULT:
            return own
        inside = f"{path}."
        below = [source for place, source in self.sources.items() if place.startswith(inside)]
        if own is not None:
            return below[-1] if below else own  # an empty table by default, into which something was put
        probe = path
        while probe:
            if probe in self.sources:
                return self.sources[probe]
            probe = probe.rpartition(".")[0]
        return next(iter(below), None)

    def _set(self, setting: Setting) -> bool:
        """True if the value fits, which is then set as Hydra does it."""
        self._refuse_word(setting.text, setting.key, setting.value)
        try:
            OmegaConf.update(self.cfg, setting.key, setting.value, merge=True)
        except (OmegaConfBaseException, ValueError, TypeError):
            return False
        self._own(setting.key, self._source(setting.text))
        return True

    def _apply(self, override: Override) -> None:
        from hydra._internal.config_loader_impl import ConfigLoaderImpl
        from hydra.errors import ConfigCompositionException

        text, key = override.input_line or "", override.key_or_group
        if override.is_delete() and self._delete_null(key):
            return
        if not (override.is_delete() or override.is_add() or override.is_force_add()):
            self._refuse_word(text, key, override.value())
        try:
            ConfigLoaderImpl._apply_overrides_to_config([override], self.cfg)
        except (ConfigCompositionException, OmegaConfBaseException, ValueError, TypeError) as error:
            raise self._override_error(override, error) from None
        if override.is_delete():
            self.sources = {p: s for p, s in self.sources.items() if not _at_or_below(p, key)}
            return
        value = override.value()
        leaves = flatten(value, f"{key}.") if isinstance(value, dict) else (key,)
        for path in leaves:
            self._own(path, self._source(text))

    def _refuse_word(self, text: str, key: str, value: Any) -> None:
        """Refuses a bare word where a number was; what is below `run` has its own check.

        A text in quotes is meant, and so is one with an interpolation.
        """
        if not isinstance(value, str) or value != text.partition("=")[2].strip() or _at_or_below(key, "run"):
            return
        if "${" in value or value == "???":
            return
        before = OmegaConf.select(self.cfg, key, throw_on_missing=False, throw_on_resolution_failure=False)
        if isinstance(before, (int, float)) and not isinstance(before, bool):
            raise UserError(
                f"{key} is a number ({before!r}), and '{value}' is none",
                where=self._source(text).place(),
                remedy=f"give a number; where a word is meant: {shlex.quote(f'++{text}')}",
            )

    def _delete_null(self, key: str) -> bool:
        """Removes a key whose value is null. Hydra 1.3 takes such a key for one that does not exist."""
        above, _, last = key.rpartition(".")
        parent = OmegaConf.select(self.cfg, above) if above else self.cfg
        if not isinstance(parent, DictConfig) or last not in parent:
            return False
        if parent._get_node(last)._value() is not None:  # type: ignore[union-attr]
            return False
        with open_dict(parent):
            del parent[last]
        self.sources = {p: s for p, s in self.sources.items() if not _at_or_below(p, key)}
        return True

    def _source(self, text: str) -> Source:
        """Where an override was given."""
        return self._places.get(text) or Source(Layer.CLI, text=text)

    def _own(self, path: str, source: Source) -> None:
        path = self._list_above(path)
        self.sources = {p: s for p, s in self.sources.items() if not _at_or_below(p, path)}
        self.sources[path] = source

    def _list_above(self, path: str) -> str:
        """The path of the outermost list a path leads into; lists have one source. The path itself otherwise."""
        parts = path.split(".")
        for end in range(1, len(parts)):
            above = ".".join(parts[:end])
            if isinstance(OmegaConf.select(self.cfg, above, throw_on_resolution_failure=False), ListConfig):
                return above
        return path

    def _override_error(self, override: Override, error: Exception) -> UserError:
        key, text = override.key_or_group, override.input_line or ""
        where = self._source(text).place()
        known = self._known_paths()
        exists = OmegaConf.select(self.cfg, key, throw_on_missing=False, throw_on_resolution_failure=False) is not None
        if exists or key in known or override.is_add() or override.is_force_add():
            return UserError(f"cannot apply '{text}': {message(error)}", where=where)
        what = f"cannot remove '{key}': it does not exist" if override.is_delete() else f"no key '{key}' in the config"
        near = did_you_mean(key, known)
        add = None if override.is_delete() or key.startswith("run.env") else f"to add it on purpose: +{text}"
        return UserError(what, where=where, remedy="; ".join(x for x in (near, add) if x) or None)

    def _known_paths(self) -> set[str]:
        paths = set(flatten(self.written()))
        for path in list(paths):
            while "." in path:
                path = path.rpartition(".")[0]
                paths.add(path)
        return paths

    def _resolution_error(self, error: BaseException) -> UserError:
        key = getattr(error, "full_key", None) or ""
        ours = next((cause for cause in causes_of(error) if isinstance(cause, UserError)), None)
        if ours is not None:
            return ours.at(self.place(key) if key else None)
        what = message(error)
        if isinstance(error, (MissingMandatoryValue, InterpolationToMissingValueError)):
            return UserError(f"{key} has no value (???)", where=self.place(key), remedy=f"give one: {key}=…")
        return UserError(f"cannot resolve {key or 'the config'}: {what}", where=self.place(key) if key else None)


def _table_of(error: OmegaConfBaseException) -> str:
    """The key that an error is about, a list's element standing for the list."""
    return str(error.full_key or "run").partition("[")[0]


def _at_or_below(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}.")

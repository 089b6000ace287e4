"""A pipeline's YAML file: a name, a profile and a config for all, and the steps.

A step is its identifier alone, or a table with `step` and what is different about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.config.overrides import override_of
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.paths import expanded
from nemo_runspec.pipelines.document import Document, KeyPlace, read_document
from nemo_runspec.source import Layer, Source

_FILE_KEYS = ("name", "profile", "config", "overrides", "steps")
_STEP_KEYS = ("step", "id", "profile", "config", "overrides", "inputs")


@dataclass(frozen=True, slots=True)
class WrittenStage:
    """A step as it was asked for.

    Args:
        overrides: of the file.
        places: where each stands.
        where: its file and line, None for the command line.
    """

    step: str
    id: str | None = None
    config: str | None = None
    profile: str | None = None
    overrides: tuple[str, ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()
    where: str | None = None
    places: Mapping[str, Source] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenPipeline:
    """A pipeline as it was asked for. `profile`, `config` and `overrides` are for the steps that have none.

    Args:
        overrides, places: as of a step.
        typed: those of the command line, `STEP:KEY=VALUE` for one step.
    """

    name: str
    stages: tuple[WrittenStage, ...]
    profile: str | None = None
    config: str | None = None
    overrides: tuple[str, ...] = ()
    places: Mapping[str, Source] = field(default_factory=dict)
    typed: tuple[str, ...] = ()


def read_pipeline(text: str) -> WrittenPipeline:
    """The pipeline in a file.

    Raises:
        UserError: it cannot be read, or something in it is not what belongs there.
    """
    path = expanded(text)
    document = read_document(path, "the pipeline")
    data = document.value
    if not isinstance(data, dict) or not isinstance(data.get("steps"), list) or not data["steps"]:
        place = document.where("steps") if isinstance(data, dict) else document.shown
        raise UserError("a pipeline needs a list 'steps'", where=place, remedy="steps: [data_prep/sft_packing, …]")
    top = _Table(document, (), data)
    top.refuse_unknown(_FILE_KEYS)
    overrides = top.overrides()
    return WrittenPipeline(
        name=top.name("name") or path.stem,
        stages=tuple(_stage(document, number, item) for number, item in enumerate(data["steps"])),
        profile=top.text("profile"),
        config=top.text("config"),
        overrides=tuple(overrides),
        places=overrides,
    )


def _stage(document: Document, number: int, item: Any) -> WrittenStage:
    place = ("steps", number)
    where = document.where(*place)
    if isinstance(item, str):
        return WrittenStage(item, where=where)
    if not isinstance(item, dict) or not isinstance(item.get("step"), str):
        raise UserError("a step is its identifier, or a table with 'step'", where=where, remedy="- step: sft/automodel")
    table = _Table(document, place, item)
    table.refuse_unknown(_STEP_KEYS)
    overrides = table.overrides()
    return WrittenStage(
        step=item["step"],
        id=table.name("id"),
        config=table.text("config"),
        profile=table.text("profile"),
        overrides=tuple(overrides),
        inputs=table.inputs(),
        where=where,
        places=overrides,
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """The file's own table, or a step's."""

    document: Document
    place: KeyPlace
    values: Mapping[str, Any]

    def refuse_unknown(self, keys: tuple[str, ...]) -> None:
        """Raises `UserError` for a key that there is not."""
        unknown = next((key for key in self.values if key not in keys), None)
        if unknown is not None:
            remedy = did_you_mean(unknown, keys) or f"there are: {', '.join(keys)}"
            raise UserError(f"a pipeline has no key '{unknown}' here", where=self._where(unknown), remedy=remedy)

    def text(self, key: str) -> str | None:
        """A text; None where the key is not there, or null."""
        value = self.values.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise UserError(f"'{key}' is text, not {value!r}", where=self._where(key))
        return value

    def name(self, key: str) -> str | None:
        """A text that can stand in a line of a list, and before a `:` on a command line."""
        value = self.text(key)
        if value is not None and (not value.isprintable() or value != value.strip() or set(value) & set(":=")):
            raise UserError(f"'{key}' is one line without ':' and '=', not {value!r}", where=self._where(key))
        return value

    def inputs(self) -> tuple[tuple[str, str], ...]:
        """Input → where it is taken from."""
        inputs = self.values.get("inputs")
        if inputs is None:
            return ()
        if not isinstance(inputs, dict) or not all(isinstance(v, str) and v.strip() for v in inputs.values()):
            raise UserError("'inputs' is a table", where=self._where("inputs"), remedy="inputs: {data: STEP.OUTPUT}")
        return tuple(inputs.items())

    def overrides(self) -> dict[str, Source]:
        """Override → its place. They are a list of `a.b=1`, or a table."""
        value = self.values.get("overrides")
        if isinstance(value, dict):
            said = [(self._said(key, each), key) for key, each in value.items()]
            return {text: self._source(text, key) for text, key in said}
        listed = [] if value is None else value
        if not isinstance(listed, list) or not all(isinstance(each, str) and "=" in each for each in listed):
            raise UserError("'overrides' is a list of overrides, or a table", where=self._where("overrides"),
                            remedy="overrides: {train.lr: 1e-4}")  # fmt: skip
        return {text: self._source(text, number) for number, text in enumerate(listed)}

    def _said(self, key: str, value: Any) -> str:
        if not key.strip("+~ "):
            raise UserError("an override has a key", where=self._where("overrides", key))
        try:
            return override_of(key, value)
        except UserError as error:
            raise UserError(error.what, where=self._where("overrides", key), remedy=error.remedy) from None

    def _source(self, text: str, place: str | int) -> Source:
        line = self.document.line(*self.place, "overrides", place)
        return Source(Layer.CLI, file=self.document.shown, line=line, text=text)

    def _where(self, *place: str | int) -> str:
        return self.document.where(*self.place, *place)

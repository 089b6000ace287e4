"""Reads a script's own declaration: `[tool.runspec]` in its PEP 723 block → a frozen `Runspec`. Imports nothing of it.

Every accepted key is used somewhere; an unknown one is an error with file and line (`runspec_keys.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.runspec_keys import TYPE_WORDS, check_header, in_words
from nemo_runspec.source import display_path
from nemo_runspec.toml import key_lines, parse_toml, split_lines
from nemo_runspec.uv_table import uv_table

# The block's grammar is PEP 723's: `# /// script`, comment lines, `# ///`.
_OPENING = re.compile(r"^# /// script[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class ArtifactSpec:
    """An input or output the recipe declares. `recipe` names what makes an input."""

    name: str
    type: str
    description: str = ""
    required: bool = True
    recipe: str | None = None


@dataclass(frozen=True)
class Parameter:
    """A config key worth showing in help, and what its value may be: a plan that breaks it is not made.

    Args:
        name: its dotted path in the composed configuration, where its default stands.
        type: one of `PARAMETER_TYPES`; None for any.
        choices: the values it may have, none for any.
        required: it has to have a value, neither null nor `???`.
        min, max: the smallest and largest number that it may be, both included.
    """

    name: str
    description: str
    type: str | None = None
    choices: tuple[str | float | bool, ...] = ()
    required: bool = False
    min: float | None = None
    max: float | None = None

    @property
    def allowed(self) -> str:
        """What its value may be: `one of a, b`, `0 to 1`, `a whole number`; '' for anything."""
        choices = f"one of {', '.join(map(in_words, self.choices))}" if self.choices else ""
        return choices or self.range or TYPE_WORDS.get(self.type or "", "")

    @property
    def range(self) -> str:
        """The numbers that it may be, in words; '' for any."""
        if self.min is not None and self.max is not None:
            return f"{self.min} to {self.max}"
        if self.min is not None:
            return f"{self.min} or more"
        return f"{self.max} or less" if self.max is not None else ""

    @property
    def about(self) -> str:
        """What it is and may be, as a line of a table."""
        allowed = self.allowed
        return ". ".join(filter(None, (self.description.rstrip("."), allowed[:1].upper() + allowed[1:])))


@dataclass(frozen=True)
class Model:
    """A model that the recipe knows.

    Args:
        name: the value by which it is chosen.
        parameter: the dotted config key that has that value.
        min_gpus: GPUs that a job with it needs, over all nodes; 0 where it runs without.
    """

    name: str
    parameter: str
    description: str = ""
    min_gpus: int = 0


@dataclass(frozen=True)
class KnownError:
    """What a job of the recipe may fail with: a regular expression over a line of its log, why, and what to do."""

    pattern: str
    cause: str
    remedy: str = ""


@dataclass(frozen=True)
class Runspec:
    """What a script says of itself.

    Args:
        name: shown name, by default the recipe's path.
        description: one sentence for lists and help.
        kind: one of `KINDS`; None where the script does not say.
        tags: words to find it by.
        image: container image where the profile names none.
        setup: shell commands before the command.
        launch: one of `LAUNCHERS`; `cmd` a template with `{script}` and `{config}`; `workdir` where it runs; `python`
            which interpreter, None for the one of its own environment.
        head_only: on node 0 alone.
        config_dir: relative to the script; `config_default` the configuration used without `-c`; `config_declared`
            where the header has a `[config]` table: then a missing configuration is an error.
        nodes, gpus_per_node: defaults for any profile; None where the script does not say.
        uses: the recipe, by its path, whose script and shared code it runs with a configuration of its own.
        env: variables of the job.
        requires_env: names of those that somebody has to give, secrets or not.
        parameters, models, errors: config keys worth showing, models to choose from, errors that are understood.
        dependencies, requires_python: PEP 723's own; `download` says in words how large they are.
        uv: as
            `uv_table` has it.
        lines: where each key stands in the file; in a list of tables with its number, `tool.runspec.errors.0.pattern`.
    """

    name: str | None = None
    description: str = ""
    kind: str | None = None
    tags: tuple[str, ...] = ()
    image: str | None = None
    setup: tuple[str, ...] = ()
    download: str | None = None
    launch: str = "direct"
    cmd: str | None = None
    workdir: str | None = None
    head_only: bool = False
    python: str | None = None
    config_dir: str = "./config"
    config_default: str = "default"
    has_config: bool = False
    config_declared: bool = False
    nodes: int | None = None
    gpus_per_node: int | None = None
    uses: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    requires_env: tuple[str, ...] = ()
    consumes: tuple[ArtifactSpec, ...] = ()
    produces: tuple[ArtifactSpec, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    models: tuple[Model, ...] = ()
    errors: tuple[KnownError, ...] = ()
    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    uv: str = ""
    declared: bool = False
    lines: Mapping[str, int] = field(default_factory=dict)

    def after(self, used: Runspec) -> Runspec:
        """This header with what the recipe that it uses says of its script, where it says nothing itself."""
        starts_itself = any(key.startswith("tool.runspec.run.") for key in self.lines)
        names = _OF_THE_SCRIPT if starts_itself else (*_OF_THE_SCRIPT, *_HOW_IT_STARTS)
        return replace(self, **{n: getattr(used, n) for n in names if n in _HOW_IT_STARTS or not getattr(self, n)})


_OF_THE_SCRIPT = ("image", "dependencies", "requires_python", "uv", "download", "parameters", "errors")
_HOW_IT_STARTS = ("launch", "cmd", "workdir", "head_only")


def read_runspec(script: Path, *, required: bool = True) -> Runspec:
    """The declaration of a script.

    Args:
        script: a Python file. Only its text is read.
        required: with False, a script without a block gives the default `Runspec` (direct launch, no config).

    Raises:
        UserError: unreadable, no block, not TOML, or a key that is unknown or of the wrong type.
    """
    shown = display_path(script)
    try:
        text = script.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {shown}: {error.strerror}", where=shown) from None
    except UnicodeDecodeError:
        raise UserError(f"{shown} is not UTF-8 text", where=shown) from None
    block = _block(text, shown)
    document = parse_toml(block[0], shown, first_line=block[1]) if block else {}
    table = document.get("tool", {}).get("runspec") if isinstance(document.get("tool", {}), dict) else None
    if table is None:
        if required:
            raise UserError(
                f"{shown} has no [tool.runspec] in a PEP 723 block",
                where=shown,
                remedy=f"run it as a script of your own: nemotron run {shown}",
            )
        return _plain(document, script)
    lines = _Lines(*block) if block else {}
    check_header(table, shown, lines)
    spec = _build(table, document, lines, script)
    return replace(spec, cmd="bash {script}") if script.suffix == ".sh" and spec.cmd is None else spec


class _Lines(Mapping[str, int]):
    """The line in its file of each key of a block, found once one is asked for: a list of recipes asks for none.

    Args:
        text: the block's TOML.
        first: the file line of its first line.
    """

    def __init__(self, text: str, first: int) -> None:
        self._text, self._first = text, first

    @cached_property
    def _found(self) -> dict[str, int]:
        lines = key_lines(self._text, elements=True)
        return {".".join(key): number + self._first - 1 for key, number in lines.items()}

    def __getitem__(self, key: str) -> int:
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _block(text: str, shown: str) -> tuple[str, int] | None:
    """The block's TOML, uncommented, and the file line of its first line."""
    opening = _OPENING.search(text)
    if opening is None:
        return None
    first = text.count("\n", 0, opening.end()) + 2
    rows: list[str] = []
    for row in split_lines(text[opening.end() + 1 :]):
        if row.rstrip() == "# ///":
            return "\n".join(rows) + "\n", first
        if row == "#":
            rows.append("")
        elif row.startswith("# "):
            rows.append(row[2:])
        else:
            break
    raise UserError(
        "the PEP 723 block has no end",
        where=f"{shown}:{first - 1 + len(rows)}",
        remedy="close it with a line '# ///'; every line between starts with '# '",
    )


def _build(table: dict[str, Any], document: dict[str, Any], lines: Mapping[str, int], script: Path) -> Runspec:
    run, config = table.get("run", {}), table.get("config", {})
    resources = table.get("resources", {})
    return Runspec(
        name=table.get("name"),
        description=table.get("description", ""),
        kind=table.get("kind"),
        tags=tuple(table.get("tags", ())),
        image=table.get("image"),
        setup=tuple(str(s) for s in table.get("setup", ())),
        download=table.get("download"),
        launch=run.get("launch", "torchrun"),
        cmd=run.get("cmd"),
        workdir=run.get("workdir"),
        head_only=run.get("head_only", False),
        python=run.get("python"),
        config_dir=config.get("dir", "./config"),
        config_default=config.get("default", "default"),
        has_config=True,
        config_declared="config" in table,
        nodes=resources.get("nodes"),
        gpus_per_node=resources.get("gpus_per_node"),
        uses=table.get("uses"),
        env={k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in table.get("env", {}).items()},
        requires_env=tuple(table.get("requires_env", ())),
        consumes=tuple(ArtifactSpec(**item) for item in table.get("consumes", ())),
        produces=tuple(ArtifactSpec(**item) for item in table.get("produces", ())),
        parameters=tuple(_parameter(item) for item in table.get("parameters", ())),
        models=tuple(Model(**item) for item in table.get("models", ())),
        errors=tuple(KnownError(**item) for item in table.get("errors", ())),
        declared=True,
        lines=lines,
        **_python(document, script),
    )


def _parameter(item: Mapping[str, Any]) -> Parameter:
    return Parameter(**{**item, "choices": tuple(item.get("choices", ()))})


def _plain(document: dict[str, Any], script: Path) -> Runspec:
    return Runspec(**_python(document, script))


def _python(document: dict[str, Any], script: Path) -> dict[str, Any]:
    dependencies = document.get("dependencies", [])
    requires = document.get("requires-python")
    if not isinstance(dependencies, list) or not all(isinstance(d, str) for d in dependencies):
        raise UserError("PEP 723 'dependencies' must be a list of strings", where=display_path(script))
    return {
        "dependencies": tuple(dependencies),
        "requires_python": requires if isinstance(requires, str) else None,
        "uv": uv_table(document, script.parent),
    }

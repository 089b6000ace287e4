"""Reads a script's own declaration: `[tool.runspec]` in its PEP 723 block → a frozen `Runspec`. Imports nothing of it.

Every accepted key is used somewhere; an unknown one is an error with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_runspec.errors import Problems, UserError, did_you_mean
from nemo_runspec.source import display_path
from nemo_runspec.toml import key_lines, parse_toml, split_lines
from nemo_runspec.uv_table import uv_table

SCHEMAS = ("1",)
LAUNCHERS = ("torchrun", "ray", "direct")
KINDS = ("train", "data", "eval", "build", "tool")

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
    """A config key worth showing in help. `name` is its dotted path."""

    name: str
    description: str


@dataclass(frozen=True)
class Runspec:
    """What a script says of itself.

    Args:
        name: shown name, by default the recipe's path; `description`: one sentence for lists and help.
        kind: one of `KINDS`; None where the script does not say.
        image: container image where the profile names none. `setup`: shell commands before the command.
        launch: one of `LAUNCHERS`; `cmd` a template with `{script}` and `{config}`; `workdir` where it runs.
        config_dir: relative to the script; `config_default` the configuration used without `-c`; `config_declared`
            where the header has a `[config]` table: then a missing configuration is an error.
        nodes, gpus_per_node: defaults for any profile; None where the script does not say.
        dependencies, requires_python: PEP 723's own; `download` says in words how large they are. `uv`: as
            `uv_table` has it.
    """

    name: str | None = None
    description: str = ""
    kind: str | None = None
    image: str | None = None
    setup: tuple[str, ...] = ()
    download: str | None = None
    launch: str = "direct"
    cmd: str | None = None
    workdir: str | None = None
    config_dir: str = "./config"
    config_default: str = "default"
    has_config: bool = False
    config_declared: bool = False
    nodes: int | None = None
    gpus_per_node: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    consumes: tuple[ArtifactSpec, ...] = ()
    produces: tuple[ArtifactSpec, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    uv: str = ""
    declared: bool = False
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Key:
    """One accepted key of a table: its type, the values it may have, and whether it must be there."""

    type: Any
    choices: tuple[str, ...] = ()
    required: bool = False


_STR, _INT, _LIST, _TABLE = _Key(str), _Key(int), _Key(list), _Key(dict)
_ARTIFACT = {
    "name": _Key(str, required=True),
    "type": _Key(str, required=True),
    "description": _STR,
    "required": _Key(bool),
    "recipe": _STR,
}
_TABLES: dict[str, dict[str, _Key]] = {
    "": {
        "schema": _Key(str, SCHEMAS),
        "name": _STR,
        "description": _STR,
        "kind": _Key(str, KINDS),
        "image": _STR,
        "setup": _LIST,
        "download": _STR,
        "run": _TABLE,
        "config": _TABLE,
        "resources": _TABLE,
        "env": _TABLE,
        "consumes": _LIST,
        "produces": _LIST,
        "parameters": _LIST,
    },
    "run": {"launch": _Key(str, LAUNCHERS), "cmd": _STR, "workdir": _STR},
    "config": {"dir": _STR, "default": _STR},
    "resources": {"nodes": _INT, "gpus_per_node": _INT},
    "consumes": _ARTIFACT,
    "produces": {k: v for k, v in _ARTIFACT.items() if k != "recipe"},
    "parameters": {"name": _Key(str, required=True), "description": _Key(str, required=True)},
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAKEN = frozenset({"env", "wandb", "artifacts", "name", "recipe", "config", "mode", "profile", "output_dir"})
_TYPE_WORDS = {str: "a string", int: "a whole number", list: "a list", dict: "a table", bool: "true or false"}


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
    lines = {".".join(k): n + block[1] - 1 for k, n in key_lines(block[0]).items()} if block else {}
    _check(table, shown, lines)
    spec = _build(table, document, lines, script)
    return replace(spec, cmd="bash {script}") if script.suffix == ".sh" and spec.cmd is None else spec


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


def _check(table: Any, shown: str, lines: Mapping[str, int]) -> None:
    if not isinstance(table, dict):
        raise UserError("[tool.runspec] must be a table", where=shown)
    problems: list[UserError] = []
    for name, value in _tables_of(table):
        problems += _problems(value, name, shown, lines)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise Problems(f"{shown}: {len(problems)} problems in [tool.runspec]", problems)


def _tables_of(table: dict[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    yield "", table
    for name in _TABLES:
        value = table.get(name) if name else None
        if isinstance(value, dict):
            yield name, value
        elif isinstance(value, list):
            for item in value:
                yield name, item if isinstance(item, dict) else {"": item}


def _problems(table: dict[str, Any], name: str, shown: str, lines: Mapping[str, int]) -> list[UserError]:
    known = _TABLES[name]
    prefix = f"tool.runspec.{name}." if name else "tool.runspec."
    found: list[UserError] = []
    for key, value in table.items():
        line = lines.get(prefix + key)
        where = f"{shown}:{line}" if line else shown
        label = f"[{prefix[:-1]}] {key}"
        if key not in known:
            found.append(UserError(f"unknown key {label}", where=where, remedy=did_you_mean(key, known)))
            continue
        spec = known[key]
        if not isinstance(value, spec.type) or (spec.type is int and isinstance(value, bool)):
            found.append(UserError(f"{label} must be {_TYPE_WORDS[spec.type]}", where=where))
        elif spec.choices and value not in spec.choices:
            found.append(
                UserError(
                    f"{label} must be one of {', '.join(spec.choices)}, not {value!r}",
                    where=where,
                    remedy=did_you_mean(value, spec.choices),
                )
            )
        elif spec.type is int and value < 0:
            found.append(UserError(f"{label} must be 0 or more, not {value}", where=where))
    found += _odd_values(table, name, prefix, shown, lines)
    missing = [k for k, spec in known.items() if spec.required and k not in table]
    if missing:
        found.append(UserError(f"[[{prefix[:-1]}]] needs {', '.join(missing)}", where=shown))
    return found


def _odd_values(
    table: dict[str, Any], name: str, prefix: str, shown: str, lines: Mapping[str, int]
) -> Iterable[UserError]:
    """What is wrong inside a value of the right type: items of a list, a variable's value, an artifact's name."""

    def error(key: str, what: str, remedy: str | None = None) -> UserError:
        line = lines.get(prefix + key)
        return UserError(what, where=f"{shown}:{line}" if line else shown, remedy=remedy)

    setup, variables, artifact = table.get("setup"), table.get("env"), table.get("name")
    if name == "" and isinstance(setup, list) and any(not isinstance(item, str) for item in setup):
        yield error("setup", "[tool.runspec] setup must be a list of strings")
    if name == "" and isinstance(variables, dict):
        for key, value in variables.items():
            if not _VARIABLE.fullmatch(key) or isinstance(value, (dict, list)):
                yield error(f"env.{key}", f"[tool.runspec.env] {key} must be NAME = a string, number or boolean")
    names_artifact = name in ("consumes", "produces") and isinstance(artifact, str)
    if names_artifact and (artifact in _TAKEN or not _VARIABLE.fullmatch(str(artifact))):
        yield error(
            "name",
            f"[[tool.runspec.{name}]] cannot be named {artifact!r}: it is a key below 'run'",
            "choose another plain word, such as data or model",
        )


def _build(table: dict[str, Any], document: dict[str, Any], lines: Mapping[str, int], script: Path) -> Runspec:
    run, config = table.get("run", {}), table.get("config", {})
    resources = table.get("resources", {})
    return Runspec(
        name=table.get("name"),
        description=table.get("description", ""),
        kind=table.get("kind"),
        image=table.get("image"),
        setup=tuple(str(s) for s in table.get("setup", ())),
        download=table.get("download"),
        launch=run.get("launch", "torchrun"),
        cmd=run.get("cmd"),
        workdir=run.get("workdir"),
        config_dir=config.get("dir", "./config"),
        config_default=config.get("default", "default"),
        has_config=True,
        config_declared="config" in table,
        nodes=resources.get("nodes"),
        gpus_per_node=resources.get("gpus_per_node"),
        env={k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in table.get("env", {}).items()},
        consumes=tuple(ArtifactSpec(**item) for item in table.get("consumes", ())),
        produces=tuple(ArtifactSpec(**item) for item in table.get("produces", ())),
        parameters=tuple(Parameter(**item) for item in table.get("parameters", ())),
        declared=True,
        lines=lines,
        **_python(document, script),
    )


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

"""`${oc.env:VAR}` and `${oc.env:VAR,default}` in profile values. Everything else in `${…}` is the user's own text.

In `mounts` there is `${auto_mount:git+URL@ref,target}` too, which is left for the plan to resolve.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from nemo_runspec.field import too_large

_VARIABLE = re.compile(r"\$\{oc\.env:\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:,((?:[^{}]|\{[^{}]*\})*))?\}")
_AUTO_MOUNT = re.compile(r"\$\{auto_mount:[^{}]*,([^{},]*)\}")
_LITERALS = {"true": True, "false": False}
_BARE_TYPES = frozenset({"int", "count", "positive", "number", "bool", "bool|str", "int|str"})


def resolve_value(value: Any, missing: Callable[[str], None]) -> Any:
    """A value with its environment references replaced, tables and lists included.

    Args:
        value: as read from TOML.
        missing: called with the name of each variable that is not set and has no default.
    """
    if isinstance(value, str):
        return _resolve_text(value, missing)
    if isinstance(value, list):
        return [resolve_value(item, missing) for item in value]
    if isinstance(value, dict):
        return {key: resolve_value(item, missing) for key, item in value.items()}
    return value


def refers_to_environment(value: Any) -> bool:
    """True where a string refers to the environment."""
    return isinstance(value, str) and "${oc.env:" in value


def unset_variables(value: str) -> list[str]:
    """The variables of the environment that a text refers to, and that are not set or empty, defaults or not."""
    return [name for match in _VARIABLE.finditer(value) if not os.environ.get(name := match.group(1))]


def retype(value: Any, field_type: str) -> Any:
    """Text that came from a variable as the number or boolean its field wants; unchanged where it is none.

    Where the field takes text too, only what is written exactly like a number or a boolean becomes one.
    """
    if not isinstance(value, str) or field_type not in _BARE_TYPES:
        return value
    if field_type.startswith("bool"):
        return _LITERALS.get(value.lower(), value)
    if too_large(value):
        return value
    if field_type == "int|str":
        return int(value) if value.isdecimal() and str(int(value)) == value else value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def escape(value: Any, keep: str | None = None) -> Any:
    """A value whose text OmegaConf will not take for an interpolation, at any depth.

    Args:
        keep: how an interpolation begins that is meant as one, such as `auto_mount:`.
    """
    if isinstance(value, str):
        return _escape_text(value, keep)
    if isinstance(value, (list, tuple)):
        return [escape(item, keep) for item in value]
    if isinstance(value, dict):
        return {key: escape(item, keep) for key, item in value.items()}
    return value


def settled_mounts(values: Mapping[str, Any]) -> dict[str, Any]:
    """A profile's values for a look at them before there is a job: a mount of a repository has some place here."""
    mounts = values.get("mounts")
    if not isinstance(mounts, list):
        return dict(values)
    return {**values, "mounts": [_AUTO_MOUNT.sub(_some_place, m) if isinstance(m, str) else m for m in mounts]}


def _resolve_text(text: str, missing: Callable[[str], None]) -> str:
    """One pass: what a variable holds is taken as it is, also where it looks like a reference."""
    return _VARIABLE.sub(lambda match: _lookup(match, missing), text)


def _lookup(match: re.Match[str], missing: Callable[[str], None]) -> str:
    name, default = match.group(1), match.group(2)
    value = os.environ.get(name)
    if value is not None:
        return value
    if default is None:
        missing(name)
        return ""
    default = _resolve_text(default.strip(), missing)
    if len(default) >= 2 and default[0] == default[-1] and default[0] in "'\"":
        return default[1:-1]
    return default


def _some_place(match: re.Match[str]) -> str:
    return f"/auto_mount:{match.group(1).strip()}"


def _quoted(part: str, keep: str) -> str:
    """`auto_mount:git+URL@a=b,/t}` with quotes around the argument: OmegaConf reads no `=` or `ü` without."""
    inside, brace, rest = part[len(keep) :].partition("}")
    plain = bool(brace) and not set("\"'\\{") & set(inside) and bool(inside.strip())
    return f'{keep}"{inside}"}}{rest}' if plain else part


def _escape_text(text: str, keep: str | None) -> str:
    if "${" not in text:
        return text
    parts = text.split("${")
    escaped = parts[0]
    for part in parts[1:]:
        if keep is not None and part.startswith(keep) and not escaped.endswith("\\"):
            escaped += "${" + _quoted(part, keep)
            continue
        slashes = len(escaped) - len(escaped.rstrip("\\"))
        escaped = escaped + "\\" * slashes + "\\${" + part
    return escaped

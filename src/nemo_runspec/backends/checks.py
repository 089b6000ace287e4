"""Checks that several backends make while they turn a profile into a target: strings, mounts, many problems at once."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.errors import Problems, UserError

MOUNTED = "/nemo_run"
"""Where NeMo-Run mounts a job's own directory in its container."""

JOB_DIR = "/$nemo_run"
"""What NeMo-Run replaces by the job's directory at the front of a mount's source."""

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of an environment variable."""

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class Mount:
    """One `source:target[:flags]` string, taken apart."""

    source: str
    target: str
    flags: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{self.target}:{self.flags}" if self.flags else f"{self.source}:{self.target}"


def raise_problems(executor: str, problems: Iterable[UserError]) -> None:
    """Raises what was found, if anything: one problem as itself, several as one report."""
    found = list(problems)
    if len(found) == 1:
        raise found[0]
    if found:
        raise Problems(f"executor '{executor}' cannot use this profile: {len(found)} problems", found)


def shortened_value(text: str, most: int = 60) -> str:
    """A value to be repeated in a message, however long it is."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}…"


def as_text(value: Any) -> str | None:
    """A scalar as text; None stays None and an empty string counts as not set."""
    return None if value is None or value == "" else str(value)


def control_characters(env: Mapping[str, Any], keys: Iterable[str]) -> list[UserError]:
    """Values of these keys, lists and tables included, that hold a line break or another control character."""
    return [
        UserError(
            f"{key} holds a line break or another control character: {text!r}", remedy="write it on one line", key=key
        )
        for key in keys
        for text in _texts(env.get(key))
        if _CONTROL.search(text)
    ]


def read_mounts(mounts: Iterable[Any], executor: str, problems: list[UserError]) -> tuple[Mount, ...]:
    """Mounts written as strings, each once. What is wrong with one is added to `problems`."""
    found: list[Mount] = []
    for number, mount in enumerate(mounts):
        parts = mount.split(":") if isinstance(mount, str) else []
        if len(parts) not in (2, 3) or not all(parts) or not parts[1].startswith("/"):
            problems.append(
                UserError(
                    f"mounts[{number}] is not a mount of executor '{executor}': {mount!r}",
                    remedy='write "source:/target" or "source:/target:ro", such as "/data:/data"',
                    key="mounts",
                )
            )
        elif posixpath.normpath(parts[1]) == MOUNTED:
            problems.append(
                UserError(
                    f"mounts[{number}] takes the place of the job's own directory, {MOUNTED}: {mount!r}",
                    remedy="mount it elsewhere",
                    key="mounts",
                )
            )
        else:
            found.append(Mount(*parts))
    return one_per_target(found, problems)


def one_per_target(mounts: Iterable[Mount], problems: list[UserError]) -> tuple[Mount, ...]:
    """The mounts without repetitions. Two different ones at the same place are a problem."""
    found: dict[str, Mount] = {}
    for mount in mounts:
        target = posixpath.normpath(mount.target)
        other = found.setdefault(target, mount)
        if (other.source, other.flags) != (mount.source, mount.flags):
            problems.append(
                UserError(
                    f"mounts: '{other}' and '{mount}' have the same target {target}",
                    remedy="leave one out, or mount it elsewhere",
                    key="mounts",
                )
            )
    return tuple(found.values())


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return [text for item in (*value, *value.values()) for text in _texts(item)]
    return []

"""The source of a value. Every final value of a plan carries one `Source`, and a dry-run prints it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from nemo_runspec.paths import user_home

COMMAND_LINE = "command line"
"""The place of what was typed."""


class Layer(str, Enum):
    """The layers of a composed configuration, weakest first. A later layer wins over an earlier one."""

    DEFAULT = "default"
    RUNSPEC = "runspec"
    YAML = "yaml"
    PROFILE = "profile"
    AUTO = "auto"
    CLI = "cli"


@dataclass(frozen=True)
class Source:
    """The place one value was written.

    Args:
        layer: which layer gave the value.
        file: the file as it should be shown to the user; None for defaults and the command line itself, but for a file
            that it names.
        line: 1-based line of the key, if known.
        section: the `env.toml` section, without brackets.
        inherited: True where the section was reached through `extends`.
        text: for the command line, the override as typed; for automatic values, what made them; for a value joined of
            two layers, where the other part comes from.
    """

    layer: Layer
    file: str | None = None
    line: int | None = None
    section: str | None = None
    inherited: bool = False
    text: str | None = None

    def place(self) -> str:
        """`file:line [section]`, as an error's place; the layer's name where there is no file."""
        if self.file is None:
            return self.label()
        base = f"{self.file}:{self.line}" if self.line else self.file
        return f"{base} [{self.section}]" if self.section else base

    def label(self) -> str:
        """What the dry-run prints beside a value, such as `env.toml:6 [base-slurm] via extends`."""
        if self.file is None and self.layer is Layer.CLI:
            return COMMAND_LINE
        if self.file is None:
            return self.text or self.layer.value
        also = f" {self.text}" if self.text and self.layer is not Layer.CLI else ""
        return f"{self.place()}{' via extends' if self.inherited else ''}{also}"


def sources_below(sources: Mapping[str, Source], prefix: str) -> dict[str, Source]:
    """Those of the values below a prefix, by what follows it."""
    return {path.removeprefix(prefix): source for path, source in sources.items() if path.startswith(prefix)}


def display_path(path: Path, base: Path | None = None) -> str:
    """A path as a person wants to read it: relative to the working directory if below it, else `~`, else whole."""
    for root, prefix in ((base or Path.cwd(), ""), (user_home(), "~/")):
        try:
            return prefix + str(path.relative_to(root))
        except ValueError:
            continue
    return str(path)

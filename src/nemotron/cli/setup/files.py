"""The `env.toml` that `nemotron init` writes, or adds to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_runspec.profiles.edit import section_text, with_section
from nemo_runspec.profiles.envfile import load_env_file
from nemo_runspec.profiles.files import SCHEMA_LINE, write_env_file
from nemo_runspec.source import display_path
from nemo_runspec.toml import read_toml

HEAD = f"""\
{SCHEMA_LINE}
# Where recipes run. Add a profile: nemotron init. What a key means: nemotron env fields EXECUTOR.
# Is it right? nemotron env check. Is it going to work? nemotron doctor PROFILE.

"""


def sections(file: Path) -> tuple[str, ...]:
    """The sections of a file; none where there is no file."""
    return tuple(load_env_file(file).sections) if file.exists() else ()


def write_profile(file: Path, name: str, values: Mapping[str, Any]) -> list[Path]:
    """Puts a profile into an env file, new or not, in the place of one of that name; the files that were written.

    Raises:
        UserError: the file cannot be read or written, or the section not be replaced.
    """
    shown, section = display_path(file), section_text(name, values)
    if not file.exists():
        return write_env_file(file, HEAD + section)
    return write_env_file(file, with_section(read_toml(file, shown)[1], shown, name, section))

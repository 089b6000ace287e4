"""The `env.toml` that `nemotron init` writes, or adds to, and the schema beside it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded, private_dir, write_output
from nemo_runspec.profiles.edit import section_text, with_section
from nemo_runspec.profiles.envfile import load_env_file
from nemo_runspec.profiles.find import DEFAULT_NAME, ENV_VARIABLE, find_env_file, user_path
from nemo_runspec.source import display_path
from nemo_runspec.toml import read_toml
from nemo_runspec.trust import PROJECT_MARK, searched

SCHEMA = "env.schema.json"
HEAD = f"""\
#:schema ./{SCHEMA}
# Where recipes run. Add a profile: nemotron init. What a key means: nemotron env fields EXECUTOR.
# Is it right? nemotron env check. Is it going to work? nemotron doctor PROFILE.

"""


def target_file(*, users: bool) -> Path:
    """The env file in force, else the one that there will be: in the project's root, else here.

    Args:
        users: the user's own instead, which holds in every project.

    Raises:
        UserError: the one in force is not obeyed, see `trust`.
    """
    if users:
        return user_path()
    named = os.environ.get(ENV_VARIABLE, "").strip()
    if named and not (expanded(named).is_absolute() and not expanded(named).exists()):
        found = find_env_file()
        assert found is not None, "it is named"
        return found
    return expanded(named) if named else find_env_file() or project() / DEFAULT_NAME


def project() -> Path:
    """The project's root, else here."""
    here = Path.cwd()
    folders = [folder for folder in searched(here) if (folder / PROJECT_MARK).exists() or (folder / ".git").exists()]
    return folders[-1] if folders else here


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
        _write(file, HEAD + section, 0o600)
        return [file, *_write_schema(file.parent)]
    text = read_toml(file, shown)[1]
    _write(file, with_section(text, shown, name, section), stat.S_IMODE(file.stat().st_mode))
    return [file, *(_write_schema(file.parent) if f"#:schema ./{SCHEMA}" in text else ())]


def _write_schema(folder: Path) -> list[Path]:
    """The schema, for editors: as this version of nemotron has it."""
    from nemo_runspec.profiles.schema import env_schema

    file = folder / SCHEMA
    text = json.dumps(env_schema(), indent=1) + "\n"
    if file.exists() and file.read_text(encoding="utf-8", errors="replace") == text:
        return []
    _write(file, text, 0o644)
    return [file]


def _write(file: Path, text: str, mode: int) -> None:
    try:
        private_dir(file.parent)  # whatever the umask: what others can write is not obeyed
        write_output(file, text)
        file.chmod(mode)
    except OSError as error:
        raise UserError(f"cannot write {display_path(file)}: {error.strerror or error}") from None

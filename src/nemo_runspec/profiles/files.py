"""An env file as it is written: where it goes, whole or not at all, with the schema that editors read beside it."""

from __future__ import annotations

import codecs
import json
import os
import stat
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded, private_dir, write_output
from nemo_runspec.profiles.find import DEFAULT_NAME, ENV_VARIABLE, find_env_file, user_path
from nemo_runspec.profiles.schema import env_schema
from nemo_runspec.regular import read_regular
from nemo_runspec.source import display_path
from nemo_runspec.trust import PROJECT_MARK, searched

SCHEMA = "env.schema.json"
SCHEMA_LINE = f"#:schema ./{SCHEMA}"
"""The first line of an env file, by which editors find what its keys mean."""

_NEW, _READABLE = 0o600, 0o644


def target_file(*, users: bool = False) -> Path:
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
    return expanded(named) if named else find_env_file() or project_root() / DEFAULT_NAME


def project_root() -> Path:
    """The folder of the `pyproject.toml`, or of the git repository, that the working directory is in; else that."""
    here = Path.cwd()
    folders = [folder for folder in searched(here) if (folder / PROJECT_MARK).exists() or (folder / ".git").exists()]
    return folders[-1] if folders else here


def write_env_file(file: Path, text: str) -> list[Path]:
    """Writes an env file, new or not, and the schema that it names; the files that were written.

    A new one is its owner's alone: one that others can write is not obeyed.

    Raises:
        UserError: it cannot be written.
    """
    _write(file, _as_before(file, text), stat.S_IMODE(file.stat().st_mode) if file.exists() else _NEW)
    return [file, *(_write_schema(file.parent) if SCHEMA_LINE in text else ())]


def _as_before(file: Path, text: str) -> str:
    """The text with the line ends and the byte order mark of the file, where that is there."""
    try:
        before = read_regular(file, follow=True)
    except OSError:
        return text
    ends = before.count(b"\n")
    text = text.replace("\r\n", "\n")
    marked = f"\ufeff{text}" if before.startswith(codecs.BOM_UTF8) else text
    return marked.replace("\n", "\r\n") if ends and before.count(b"\r\n") == ends else marked


def _write_schema(folder: Path) -> list[Path]:
    """The schema, as this version of nemotron has it; nothing where it is there."""
    file = folder / SCHEMA
    text = json.dumps(env_schema(), indent=1) + "\n"
    if file.exists() and file.read_text(encoding="utf-8", errors="replace") == text:
        return []
    _write(file, text, _READABLE)
    return [file]


def _write(file: Path, text: str, mode: int) -> None:
    try:
        private_dir(file.parent)  # whatever the umask: what others can write is not obeyed
        write_output(file, text)
        file.chmod(mode)
    except OSError as error:
        raise UserError(f"cannot write {display_path(file)}: {error.strerror or error}") from None

"""The env file that a template becomes: the configuration of the step `env/env_toml`, with the comments of its YAML."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_runspec.doctor.envcheck import CheckReport, check_env_file, line_of, place_in
from nemo_runspec.errors import Code, UserError, did_you_mean
from nemo_runspec.paths import expanded
from nemo_runspec.profiles.envfile import EnvFile, load_env_file
from nemo_runspec.profiles.files import project_root, write_env_file
from nemo_runspec.profiles.find import DEFAULT_NAME
from nemo_runspec.profiles.generate import env_text
from nemo_runspec.profiles.yaml_comments import Comments, read_comments
from nemo_runspec.regular import read_json
from nemo_runspec.source import display_path
from nemo_runspec.text import count
from nemotron.cli.text import table

_SECTIONS = "sections"
_KEYS = ("output", "force", _SECTIONS)


@dataclass(frozen=True)
class Template:
    """What a configuration says.

    Args:
        file: the env file.
        force: whether one that is there is replaced.
        text: what it will say.
    """

    file: Path
    force: bool
    text: str


def write_template(config: Path) -> int:
    """Writes the env file of a job's composed configuration, and says what is still to be filled in.

    Returns: the exit code, 2 where the template is wrong.

    Raises:
        UserError: it is no template, the file is there already, or it cannot be written.
    """
    template = read_template(config)
    kept = _make_room(template)
    write_env_file(template.file, template.text)
    env = load_env_file(template.file)
    report = check_env_file(env, alone=True)
    print(f"wrote {display_path(template.file)}: {count(report.profiles, 'profile')}")
    if kept:
        print(f"the one before is kept as {display_path(kept)}")
    for line in _report(env, report):
        print(line)
    return 2 if len(report.open) < len(report.errors) else 0


def read_template(config: Path) -> Template:
    """A job's composed configuration, with the comments of the files that its values come from.

    Raises:
        UserError: it has other keys, or sections that are none.
    """
    import yaml

    values: Mapping[str, Any] = yaml.safe_load(config.read_text(encoding="utf-8")) or {}
    plan = read_json(config.parent / "plan.json")
    sources: Mapping[str, Mapping[str, Any]] = plan["sources"]
    name = Path(str(plan["config_name"])).stem
    _check(values, sources)
    output = expanded(str(values.get("output") or f"env.{name}.toml"))
    text = env_text(values[_SECTIONS], _comments(sources, name))
    return Template(project_root() / output, values.get("force") is True, text)


def _check(values: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]) -> None:
    for key in values:
        if key not in _KEYS:
            remedy = did_you_mean(key, _KEYS) or f"keys of a template: {', '.join(_KEYS)}"
            raise UserError(f"unknown key '{key}' in a template", where=_place(sources, key), remedy=remedy)
    sections = values.get(_SECTIONS)
    tables = list(sections.values()) if isinstance(sections, Mapping) else []
    if not tables or not all(isinstance(each, Mapping) for each in tables):
        raise UserError(
            "a template has its profiles below 'sections', a table each",
            where=_place(sources, _SECTIONS),
            remedy="look at one of ours: nemotron steps run env/env_toml -c slurm --cfg job",
        )


def _place(sources: Mapping[str, Mapping[str, Any]], key: str) -> str | None:
    found = next((each for path, each in sources.items() if path.partition(".")[0] == key), {})
    return f"{found['file']}:{found['line']}" if found.get("file") and found.get("line") else None


def _comments(sources: Mapping[str, Mapping[str, Any]], name: str) -> Comments:
    """What the files say that the sections come from; the configuration's own counts most."""
    named = (source.get("file") for path, source in sources.items() if path.startswith(f"{_SECTIONS}."))
    files = [file for each in dict.fromkeys(filter(None, named)) if (file := expanded(each)).is_file()]
    found = Comments()
    for file in sorted(files, key=lambda file: file.stem == name):
        found = read_comments(file.read_text(encoding="utf-8")).over(found)
    inside = {path[1:]: said for path, said in found.at.items() if path[0] == _SECTIONS and path[1:]}
    return Comments(found.head, inside)


def _make_room(template: Template) -> Path | None:
    """Keeps a copy of the file that is replaced; None where there is none, or it says the same.

    Raises:
        UserError: it is there, and nobody said that it may be replaced.
    """
    file = template.file
    if not file.exists():
        return None
    if not template.force:
        raise UserError(
            f"{display_path(file)} is there already",
            where=display_path(file),
            remedy="force=true replaces it and keeps a copy; output=NAME writes another one",
        )
    if file.read_bytes() == template.text.encode():
        return None
    kept = next(path for path in _backups(file) if not path.exists())
    try:
        shutil.copy2(file, kept)
    except OSError as error:
        raise UserError(f"cannot write {display_path(kept)}: {error.strerror or error}") from None
    return kept


def _backups(file: Path) -> Iterator[Path]:
    yield file.with_name(f"{file.name}.bak")
    number = 2
    while True:
        yield file.with_name(f"{file.name}.bak-{number}")
        number += 1


def _report(env: EnvFile, report: CheckReport) -> Iterator[str]:
    """What is wrong, what is left to be filled in, and what comes next."""
    mistakes = [error for error in report.errors if error not in report.open]
    for error in mistakes:
        yield f"error: {error}"
    if report.open:
        yield ""
        yield "to fill in:"
        yield from table([_to_fill_in(env, error) for error in report.open])
    yield ""
    yield "then:"
    if env.path.name != DEFAULT_NAME:
        yield f"  export NEMOTRON_ENV_FILE={env.path.name}"
    yield "  nemotron env check"


def _to_fill_in(env: EnvFile, error: UserError) -> tuple[str, str]:
    place = place_in(env, error)
    where = f"{env.path.name}:{place[1]}" if place else env.path.name
    line = line_of(env, error)
    return where, error.what if not line or line.startswith("[") else _with_remedy(line, error)


def _with_remedy(line: str, error: UserError) -> str:
    return f"{line}  ({error.remedy})" if error.code is Code.UNSET_VARIABLE and error.remedy else line

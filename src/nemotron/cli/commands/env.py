"""`nemotron env list | show | check | add | set | … | fields`: the execution profiles."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec.console import note
from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.executor import executor_of
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.profiles.load import load_env_files, owner_warning, required_env_file
from nemo_runspec.text import clean, count
from nemotron.cli import complete
from nemotron.cli.click import Command
from nemotron.cli.commands import env_edit, env_fields
from nemotron.cli.parameters import argument, command, group, option
from nemotron.cli.tables import Styled
from nemotron.cli.text import paint, table

_NAMED = 8
"""Profiles that are named where many are wrong."""

if TYPE_CHECKING:
    from nemo_runspec.doctor.envcheck import CheckReport


def make(help_text: str) -> Command:
    """The group."""
    as_json = option("--json", "Machine-readable output.")
    path = argument("path", "An env.toml or a recipes/ that was found, and refused.", complete=complete.files)
    file = argument("file", "An env file; by default the one in force.", required=False, complete=complete.env_files)
    profile = argument("profile", "A profile of the env file in force.", complete=complete.profiles)
    words = argument(
        "words",
        "An executor, such as slurm, and words that a key's name or meaning has; both may be left out.",
        complete=env_fields.complete_words,
        many=True,
        required=False,
    )
    words.metavar = "[EXECUTOR] [TEXT]..."
    return group(
        "env",
        help_text,
        command("list", "The profiles of the env file in force.", _list, as_json),
        command(
            "show", "A profile with its parents merged, and where each value was written.", _show, profile, as_json
        ),
        command(
            "check", "Everything that is wrong with an env file; exit code 2 if anything is.", _check, file, as_json
        ),
        *env_edit.commands(),
        command("schema", "The JSON Schema of env.toml, for editors.", _schema),
        command("example", "An env.toml to begin with: nemotron env example > env.toml", _example),
        command("trust", "Obey an env file or a recipe folder that somebody else can write.", _trust, path),
        command(
            "fields",
            env_fields.HELP,
            env_fields.call,
            words,
            as_json,
        ),
    )


def _file_in_force() -> EnvFile:
    return _with_owner_warning(required_env_file())


def _with_owner_warning(env: EnvFile) -> EnvFile:
    for line in owner_warning(env):
        note(f"warning: {line}")
    return env


def _trust(path: str) -> int:
    from nemo_runspec.trust import trust

    print(f"trusted as long as it has the same owner: {trust(expanded(path))}")
    return 0


def _list(as_json: bool) -> int:
    env = _file_in_force()
    if as_json:
        keys = ("name", "executor", "extends", "error")
        files = [(dict(zip(keys, _row(env, name), strict=True)), env.file_of(name)) for name in env.profiles]
        profiles = [{**row, "file": str(file.path)} for row, file in files]
        print(json.dumps({"file": str(env.path), "profiles": profiles}, indent=2))
        return 0
    for file in env.files:
        rows = [_row(env, name) for name in env.profiles if env.file_of(name).path == file.path]
        print(paint(file.shown, "bold"))
        print("\n".join(table(rows)) if rows else "  no profiles")
    return 0


def _row(env: EnvFile, name: str) -> tuple[str, str, str, str]:
    """A profile's name, executor, parents, and what is wrong with these."""
    try:
        chain = env.chain(name)
        return name, executor_of(env, chain), " -> ".join(chain[1:]), ""
    except UserError as error:
        return name, "?", "", error.what


def _show(profile: str, as_json: bool) -> int:
    from nemo_runspec.profiles.fieldset import fields_of
    from nemo_runspec.profiles.profile import resolve_profile
    from nemo_runspec.redact import HIDDEN, Redactor
    from nemo_runspec.secret_names import holds_secret

    env = _file_in_force()
    found = resolve_profile(env, profile)
    secret = {f.name for f in fields_of(found.executor).fields.values() if f.secret}
    rows: list[tuple[str, Any, str]] = []
    secrets: list[str] = []
    for path, value in flatten({"executor": found.executor, **found.values}).items():
        source = found.sources.get(path) or found.sources.get(path.split(".")[0])
        hidden = path in secret or holds_secret(path.rsplit(".", 1)[-1], value) or path.rsplit(".", 1)[-1] in (
            found.values.get("secrets") or ()
        )  # fmt: skip
        secrets += [str(value)] if hidden and value else []
        rows.append((path, HIDDEN if hidden and value else value, source.label() if source else "default"))
    rows = json.loads(Redactor(secrets).redact(json.dumps(rows, default=str)))
    if as_json:
        values = [{"key": k, "value": v, "source": s} for k, v, s in rows]
        print(json.dumps({"name": profile, "chain": found.chain, "values": values}, indent=2, ensure_ascii=False))
        return 0
    parents = f", extends {' -> '.join(found.chain[1:])}" if found.chain[1:] else ""
    print(paint(f"{profile}  ({found.executor}{parents})", "bold"))
    print("\n".join(table([(k, f"= {env_fields.value_text(v)}", Styled(s, "dim")) for k, v, s in rows])))
    for line in (*found.warnings, *(f"before submission: {line}" for line in found.unfilled())):
        print(paint(f"  {line}", "yellow"))
    return 0


def _check(file: str | None, as_json: bool) -> int:
    from nemo_runspec.doctor.envcheck import check_env_file, line_of

    env = _with_owner_warning(_named(expanded(file))) if file else _file_in_force()
    report = check_env_file(env, alone=file is not None)
    if as_json:
        errors = [{"message": e.what, "place": e.where, "remedy": e.remedy} for e in report.errors]
        counted = {"file": str(env.path), "profiles": report.profiles, "wrong": report.wrong}
        print(json.dumps({**counted, "errors": errors, "warnings": report.warnings}, indent=2, ensure_ascii=False))
        return 2 if report.errors else 0
    for line in report.warnings:
        print(f"{paint('warning:', 'yellow')} {clean(line)}")
    for error in report.errors:
        told = clean(_with_line(error, line_of(env, error)))
        print(f"{paint('error:', 'red', sys.stderr)} {told}", file=sys.stderr)
    print(f"{env.shown if file else env.shown_all}: {_verdict(report)}")
    return 2 if report.errors else 0


def _with_line(error: UserError, line: str) -> str:
    """An error as it is printed, with the line of the file below its place."""
    where = f"{error.where}\n       {line}" if line else error.where
    return str(UserError(error.what, where=where, remedy=error.remedy))


def _verdict(report: CheckReport) -> str:
    """How many profiles there are, and which of them are wrong."""
    profiles = count(report.profiles, "profile")
    named = (*report.wrong[:_NAMED], *([f"{len(report.wrong) - _NAMED} more"] if len(report.wrong) > _NAMED else []))
    wrong = f"{len(report.wrong)} of {profiles} wrong: {', '.join(named)}" if report.wrong else ""
    beside = f"{profiles} all right, but not what stands beside them" if report.errors else f"{profiles}, all right"
    odd = f"; {count(len(report.warnings), 'warning')}" if report.warnings else ""
    return f"{wrong or beside}{odd}"


def _named(path: Path) -> EnvFile:
    env = load_env_files(path)
    assert env is not None, "it is named"
    return env


def _schema() -> int:
    from nemo_runspec.profiles.schema import env_schema

    print(json.dumps(env_schema(), indent=2))
    return 0


def _example() -> int:
    from nemo_runspec.catalog import builtin_templates

    print((builtin_templates() / "env.toml.example").read_text(encoding="utf-8"), end="")
    return 0

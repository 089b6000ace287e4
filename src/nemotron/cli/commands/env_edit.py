"""`nemotron env add | set | unset | rm`: profiles changed in place, and checked before they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.backends import DEFAULT_EXECUTOR
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.paths import expanded
from nemo_runspec.profiles.assign import key_path, keys_of, read_changes
from nemo_runspec.profiles.edit import check_name, with_keys, without_section
from nemo_runspec.profiles.envfile import EnvFile, env_file_of
from nemo_runspec.profiles.executor import executor_of
from nemo_runspec.profiles.files import SCHEMA_LINE, target_file, write_env_file
from nemo_runspec.profiles.find import find_user_file
from nemo_runspec.profiles.load import above_users, load_env_files
from nemo_runspec.profiles.profile import one_or_all
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.source import display_path
from nemo_runspec.toml import KeyPath, read_toml
from nemotron.cli import complete
from nemotron.cli.click import Command, Context
from nemotron.cli.parameters import argument, command, option
from nemotron.cli.text import paint, table

_FIRST = ("extends", "executor")
"""Keys that decide which others a profile may have."""


def commands() -> list[Command]:
    """The commands that change a file."""
    file = option("--file", "The env file; by default the one in force.", value="FILE", complete=complete.env_files)
    new = argument("name", "The profile's name.")
    profile = argument("name", "A profile, or wandb, artifacts, cache, cli.", complete=_complete_sections)
    gone = argument("name", "A profile.", complete=_complete_sections)
    words = argument("words", "What it says: nodes=2, env_vars.NAME=VALUE.", complete=_complete_words, many=True)
    more = argument("words", words.help or "", complete=_complete_words, many=True, required=False)
    keys = argument("words", "Keys to take out: nodes, env_vars.NAME.", complete=_complete_written, many=True)
    words.metavar = more.metavar = "KEY=VALUE..."
    keys.metavar = "KEY..."
    parent = option("--extends", "The profile that it inherits from.", value="PROFILE", complete=complete.profiles)
    return [
        command("add", "Add a profile: env add big --extends my-cluster nodes=16", _add, new, parent, file, more),
        command("set", "Set keys of a profile: env set my-cluster time=08:00:00", _set, profile, file, words),
        command("unset", "Take keys out of a profile.", _unset, profile, file, keys),
        command("rm", "Take a profile out, unless others extend it.", _remove, gone, file),
    ]


def _add(name: str, extends: str | None, file: str | None, words: Sequence[str]) -> int:
    check_name(name)
    path = expanded(file) if file else target_file()
    text = read_toml(path, display_path(path))[1] if path.exists() else f"{SCHEMA_LINE}\n"
    before = env_file_of(path, text)
    if name in before.sections:
        raise UserError(
            f"there is a profile '{name}' already",
            where=before.where(name),
            remedy=f"nemotron env set {name} KEY=VALUE",
        )
    if extends and any(word.startswith("extends=") for word in words):
        raise UserError("--extends and extends= are the same", remedy="leave one of them out")
    changed = _with_words(before, name, [*([f"extends={extends}"] if extends else []), *words])
    return _write(
        before, changed if name in changed.sections else _reread(before, f"{text.rstrip()}\n\n[{name}]\n"), name
    )


def _set(name: str, file: str | None, words: Sequence[str]) -> int:
    before = _file_with(name, file, new=name in SYSTEM_SECTIONS)
    return _write(before, _with_words(before, name, words), name)


def _unset(name: str, file: str | None, words: Sequence[str]) -> int:
    before = _file_with(name, file)
    changes = {_written(before, name, word): None for word in words}
    changed = _changed(before, name, changes)
    _check(before, changed, name)
    write_env_file(before.path, _text(changed))
    print(f"took {' and '.join('.'.join(path) for path in changes)} out of [{name}] of {before.shown}")
    return 0


def _remove(name: str, file: str | None) -> int:
    before = _file_with(name, file)
    heirs = [heir for heir, table in before.sections.items() if table.get("extends") == name]
    if heirs:
        who = f"'{heirs[0]}' and {len(heirs) - 1} more extend" if len(heirs) > 1 else f"'{heirs[0]}' extends"
        raise UserError(f"{who} '{name}'", where=before.where(heirs[0], "extends"))
    changed = _reread(before, without_section(_text(before), before.shown, name))
    _check(before, changed)
    write_env_file(before.path, _text(changed))
    print(f"took [{name}] out of {before.shown}")
    return 0


def _file_with(name: str, file: str | None, *, new: bool = False) -> EnvFile:
    """The file that a section stands in. `new`: or may be put into.

    Raises:
        UserError: none has it.
    """
    path = expanded(file) if file else target_file()
    if not path.exists() and (file or not find_user_file()):
        raise UserError(
            f"there is no {display_path(path)}", remedy=f"nemotron env add {name} --file {display_path(path)}"
        )
    env = load_env_files(path if path.exists() else None)
    assert env is not None, "one is there"
    if name in SYSTEM_SECTIONS:
        if not new and name not in env.sections:
            raise UserError(f"{env.shown_all} has no [{name}]")
    else:
        env.require_profile(name)
    found = env.file_of(name)
    return env_file_of(found.path, "\n".join(found.text), users=found.users)


def _with_words(before: EnvFile, name: str, words: Sequence[str]) -> EnvFile:
    """The file with `key=value` words said of a section: first those by which it is known which keys it may have."""
    found = before
    parts = ([word for word in words if _is_first(word)], [word for word in words if not _is_first(word)])
    for part in filter(None, parts):
        changes = read_changes(name, _executor(found, name), found.sections.get(name, ()), part)
        found = _changed(found, name, changes)
    return found


def _is_first(word: str) -> bool:
    return word.partition("=")[0] in _FIRST


def _executor(env: EnvFile, name: str) -> str:
    whole = above_users(env)
    if name in SYSTEM_SECTIONS or name not in whole.sections:
        return DEFAULT_EXECUTOR
    return executor_of(whole, whole.chain(name))


def _written(env: EnvFile, name: str, word: str) -> KeyPath:
    """The path of a key that a section has.

    Raises:
        UserError: it has none of that name.
    """
    path = key_path(word.partition("=")[0], name, _executor(env, name), env.sections[name])
    value: Any = env.sections[name]
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        near = did_you_mean(word, env.sections[name])
        inherited = f"a parent may say it: nemotron env show {name}" if "extends" in env.sections[name] else None
        raise UserError(f"[{name}] does not set {word}", where=env.where(name), remedy=near or inherited)
    return path


def _changed(env: EnvFile, name: str, changes: dict[KeyPath, Any]) -> EnvFile:
    return _reread(env, with_keys(_text(env), env.shown, name, changes))


def _reread(env: EnvFile, text: str) -> EnvFile:
    return env_file_of(env.path, text, users=env.users)


def _text(env: EnvFile) -> str:
    return "\n".join(env.text)


def _write(before: EnvFile, changed: EnvFile, name: str) -> int:
    """Writes the changed file, and says which lines of it are new and what is still to be filled in.

    Raises:
        UserError: it has mistakes that it had not before; nothing was written then.
    """
    if changed.text == before.text:
        print(f"{before.shown}: [{name}] says so already")
        return 0
    left = _check(before, changed, name)
    write_env_file(changed.path, _text(changed))
    rows = [(f"{changed.shown}:{number}", line) for number, line in _new_lines(before.text, changed.text)]
    print("\n".join(table(rows)))
    for error in left:
        print(f"{paint('to fill in:', 'yellow')} {error.what}")
    return 0


def _new_lines(before: Sequence[str], after: Sequence[str]) -> Iterable[tuple[int, str]]:
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, _, _, first, end in matcher.get_opcodes():
        if kind != "equal":
            yield from ((number + 1, after[number]) for number in range(first, end) if after[number].strip())


def _check(before: EnvFile, changed: EnvFile, name: str = "") -> list[UserError]:
    """What is still to be filled in for a profile of the changed file.

    Raises:
        UserError: mistakes that were not there before.
    """
    from nemo_runspec.doctor.envcheck import check_env_file, mistake_of

    known = {mistake_of(error) for error in check_env_file(above_users(before)).errors}
    report = check_env_file(above_users(changed))
    new = [error for error in report.errors if mistake_of(error) not in known]
    mistakes = [error for error in new if error not in report.open]
    if mistakes:
        told = [UserError(error.what, where=_where(error), remedy=error.remedy) for error in mistakes]
        raise one_or_all(f"nothing was written: {changed.shown} would have", told)
    return [error for error in new if f"[{name}]" in (error.where or "")]


def _where(error: UserError) -> str | None:
    """The section that an error would be in: the file has no such line yet."""
    place = error.where or ""
    return place[place.index("[") :] if place.endswith("]") and "[" in place else error.where


def _complete_sections(ctx: Context, _param: object, incomplete: str) -> list[str]:
    return [name for name in (*complete.profile_names(), *SYSTEM_SECTIONS) if name.startswith(incomplete)]


def _complete_words(ctx: Context, _param: object, incomplete: str) -> list[Any]:
    """Keys that the section may have, each with its `=`; behind that, the values that there are."""
    key, equals, _ = incomplete.partition("=")
    found = _fields(ctx)
    if equals:
        values = complete.values_of(found.get(key), key)
        return [f"{key}={value}" for value in values if f"{key}={value}".startswith(incomplete)]
    return [complete.going_on(f"{name}=") for name in sorted(found) if name.startswith(incomplete)]


def _complete_written(ctx: Context, _param: object, incomplete: str) -> list[str]:
    env = _env_of(ctx)
    table = env.sections.get(str(ctx.params.get("name")), {}) if env else {}
    return [key for key in table if key.startswith(incomplete)]


def _fields(ctx: Context) -> dict[str, Any]:
    name, parent, env = str(ctx.params.get("name")), ctx.params.get("extends"), _env_of(ctx)
    known = parent or name
    try:
        executor = _executor(env, known) if env else DEFAULT_EXECUTOR
        given = [str(word) for word in ctx.params.get("words") or () if str(word).startswith("executor=")]
        return dict(keys_of(name, given[0].partition("=")[2] if given else executor))
    except UserError:
        return {}


def _env_of(ctx: Context) -> EnvFile | None:
    try:
        path = expanded(ctx.params["file"]) if ctx.params.get("file") else Path(target_file())
        return load_env_files(path if path.exists() else None)
    except UserError:
        return None

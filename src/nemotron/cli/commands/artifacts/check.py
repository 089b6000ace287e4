"""`nemotron artifacts check`: is what lies at a path what its type says?"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nemo_runspec.artifacts.types import Types
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.paths import expanded
from nemo_runspec.text import clean, count
from nemotron.cli.click import Command
from nemotron.cli.commands.steps import complete
from nemotron.cli.complete import files
from nemotron.cli.parameters import argument, command, option

_PACKAGES = {"pyarrow": "pyarrow>=17"}


def make_check() -> Command:
    """The command."""
    return command(
        "check",
        "Look through what lies at a path: every file, every row. Says which are not as its type wants them.",
        _check,
        argument("path", "A file, a folder, or the prefix of a .bin and an .idx.", complete=files),
        option("--type", "What it is to be; without it, what it looks like.", value="TYPE", complete=complete.types),
        option("--json", "Machine-readable output."),
    )


def _check(path: str, type: str | None, as_json: bool) -> int:
    types, place = Types.load(), expanded(path)
    if type is not None:
        types.get(type)
    if not place.exists() and not place.with_name(f"{place.name}.idx").exists():
        raise UserError(
            f"there is nothing at {path}", remedy="name a file, a folder, or the prefix of a .bin and an .idx"
        )
    name = type or _guess(path, place, types)
    checker = types.checker(name)
    if not checker:
        what = f"nothing is known of how {name} must look: it has no checker"
        raise UserError(what, where=types.get(name).where, remedy="give it a check, or --type another")
    found = looked_at(str(place.absolute()), checker)
    print(json.dumps({"path": path, "type": name, **found}, indent=2) if as_json else _told(path, name, found))
    return 1 if found["findings"] or found["unchecked"] else 0


def _guess(path: str, place: Path, types: Types) -> str:
    from nemo_runspec.artifacts.guess import guesses

    found = [name for name in guesses(place) if name in types]
    if len(found) == 1:
        return found[0]
    known = f"it may be {' or '.join(found)}" if found else "it looks like none of the types"
    remedy = f"name it: nemotron artifacts check {path} --type {found[0] if found else 'TYPE'}"
    raise UserError(f"what {path} is cannot be told: {known}", remedy=f"{remedy} ({', '.join(found or types.names())})")


def looked_at(path: str, checker: str) -> dict[str, Any]:
    """What the checker finds, by this Python, or by one that has what it needs."""
    from nemo_runspec.artifacts.checks.main import check
    from nemo_runspec.artifacts.checks.table import WANTED

    package = WANTED.get(checker)
    if package is None or find_spec(package) is not None:
        return check(path, checker, whole=True, seconds=0)
    return _checked_by_own_python(path, checker, _PACKAGES[package])


def _checked_by_own_python(path: str, checker: str, requirement: str) -> dict[str, Any]:
    from nemo_runspec.envs import ensure_env
    from nemo_runspec.plans.model import PythonEnv
    from nemo_runspec.script.programs import CHECKS_PROGRAM, program_text

    python = PythonEnv(dependencies=(requirement,), requires_python=">=3.10")
    folder = ensure_env(python, lambda line: print(line, file=sys.stderr), "the checker's")
    assert folder is not None, "it depends on something"
    asked = json.dumps({"look": [{"path": path, "check": checker}], "whole": True})
    words = [str(folder / "python"), "-c", program_text(CHECKS_PROGRAM)]
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (text_lines(done.stderr.strip()) or [f"exit code {done.returncode}"])[-1]
        return {"findings": [], "more": False, "notes": [], "unchecked": last}
    (answer,) = json.loads(done.stdout)["found"]
    return dict(answer)


def _told(path: str, name: str, found: dict[str, Any]) -> str:
    findings = found["findings"]
    if found["unchecked"]:
        head = f"{path}: could not be checked as {name}: {found['unchecked']}"
    elif findings:
        more = "more than " if found["more"] else ""
        head = f"{path} is no whole {name}: {more}{count(len(findings), 'finding')}"
    else:
        head = f"{path} is {name}: nothing wrong"
    rows = [f"  {each['file']}{', ' + each['place'] if each['place'] else ''}: {each['what']}" for each in findings]
    return clean("\n".join([head, *rows, *(f"  not looked at: {note}" for note in found["notes"])]))

"""`nemotron doctor [PROFILE]`: is this going to work?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nemo_runspec.text import count, one_line
from nemotron.cli import complete
from nemotron.cli.click import Command
from nemotron.cli.forms import print_json
from nemotron.cli.parameters import argument, command, option
from nemotron.cli.text import paint, table

if TYPE_CHECKING:
    from nemo_runspec.check import Check

_MARKS = {
    "ok": ("✓", "ok", "green"),
    "warning": ("!", "warn", "yellow"),
    "failed": ("✗", "FAIL", "red"),
    "skipped": ("-", "skip", "dim"),
}
"""By verdict: its sign, the word where a terminal has no such sign, its colour."""

_NAME = 16
"""Columns of the name; lines are printed as they are known, so that no longest one can be waited for."""

_KEYS = {"remedy": "mend"}
"""Of `--json`, as scripts know it."""
_LEAD = {"skipped": "how", "warning": "mend", "failed": "mend"}


def make(help_text: str) -> Command:
    """The command."""
    return command(
        "doctor",
        help_text,
        _doctor,
        argument(
            "profile",
            "A profile of the env file in force; without it, this machine.",
            required=False,
            complete=complete.profiles,
        ),
        option("--job", "Submit a job of a minute too, for what only compute nodes can tell."),
        option("--json", "Machine-readable output."),
    )


def _doctor(profile: str | None, job: bool, as_json: bool) -> int:
    title, facts, checks = _of_profile(profile, job) if profile else _of_machine()
    if as_json:
        found = list(checks)
        print_json({**facts, "ok": not _failed(found), "checks": [_table(check) for check in found]})
        return 2 if _failed(found) else 0
    print(paint(title, "bold"))
    found = list(_shown(checks))
    print(_summary(found))
    if not profile:
        _print_profiles()
    return 2 if _failed(found) else 0


def _of_profile(name: str, job: bool) -> tuple[str, dict[str, Any], Iterable[Check]]:
    from nemo_runspec.doctor.profile import CheckedProfile, run_checks
    from nemo_runspec.profiles.load import load_profile

    profile, env_file = load_profile(name)
    title = f"{name}  ({profile.executor})"
    return (
        title,
        {"profile": name, "executor": profile.executor},
        run_checks(CheckedProfile(profile, env_file), job=job),
    )


def _of_machine() -> tuple[str, dict[str, Any], Iterable[Check]]:
    from nemo_runspec.doctor.machine import env_file, here

    return "this machine", {"profile": None, "profiles": complete.profile_names()}, (*here(), *env_file())


def _table(check: Check) -> dict[str, str]:
    """What a script reads of a check."""
    return {_KEYS.get(name, name): value for name, value in asdict(check).items() if name != "key"}


def _shown(checks: Iterable[Check]) -> Iterator[Check]:
    """The checks, each printed as it passes."""
    for check in checks:
        print("\n".join(_lines(check)), flush=True)
        yield check


def _lines(check: Check) -> Iterator[str]:
    mark, word, colour = _MARKS[check.verdict]
    sign = mark if _encodes("✓✗…") else word.ljust(4)
    mend = f"{_LEAD.get(check.verdict, '')}: {one_line(check.remedy)}" if check.remedy else ""
    rows = [(f"{sign} {check.name.ljust(_NAME)}", one_line(check.seen)), *([("", mend)] if mend else [])]
    first, *rest = table(rows)
    yield first.replace(f"  {sign} ", f"  {paint(sign, colour)} ", 1)
    yield from rest


def _encodes(signs: str) -> bool:
    try:
        signs.encode(sys.stdout.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True


def _summary(checks: list[Check]) -> str:
    numbers = {verdict: sum(check.verdict == verdict for check in checks) for verdict in _MARKS}
    words = [f"{numbers['ok']} ok"]
    words += [count(numbers["warning"], "warning")] if numbers["warning"] else []
    words += [f"{numbers['skipped']} not checked"] if numbers["skipped"] else []
    words += [f"{numbers['failed']} failed"] if numbers["failed"] else []
    return paint(", ".join(words), "red" if numbers["failed"] else "green")


def _failed(checks: Iterable[Check]) -> bool:
    return any(check.verdict == "failed" for check in checks)


def _print_profiles() -> None:
    names = complete.profile_names()
    if names:
        print(f"profiles: {', '.join(names)}")
        print("  is one going to work? nemotron doctor PROFILE")

"""`nemotron cache`: what is kept below nemotron's own folder and can be had again, and how it is taken away."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.text import clean, shorten, size
from nemotron.cli.click import Command, Context
from nemotron.cli.command import Group
from nemotron.cli.parameters import SETTINGS, command, option
from nemotron.cli.text import table

if TYPE_CHECKING:
    from nemo_runspec.runner.cache import CacheEntry

_KINDS = ("environments", "packages", "clones", "logs")
_LONGEST = 60
"""Characters of what an environment holds, and of the jobs that need something."""


class _CacheGroup(Group):
    """Without one of its commands: `list`."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Reads the group's words."""
        return super().parse_args(ctx, args or ["list"])


def make(help_text: str) -> Command:
    """The group; without one of its commands it shows what there is."""
    as_json = option("--json", "Machine-readable output.")
    kind = option(
        "--kind", f"Of one kind only: {', '.join(_KINDS)}; several with commas.", value="KIND", complete=_complete_kinds
    )
    older = option("--older-than", "Last used so long ago, such as 30d or 12h.", value="TIME")
    dry_run = option("--dry-run", "Only show what would be taken away.")
    dry_run.opts.append("-n")
    commands = [
        command("list", "What there is, how large and old it is, and which jobs need it.", _list, kind, as_json),
        command(
            "prune",
            "Take away what no job needs and is made anew when one does: nemotron cache prune --older-than 30d. Logs "
            "of jobs elsewhere stay, as their platform may have them no more; --kind logs takes them away.",
            _prune,
            older,
            kind,
            dry_run,
            as_json,
        ),
    ]
    return _CacheGroup(name="cache", help=help_text, commands=commands, context_settings=dict(SETTINGS))


def _list(kind: str | None, as_json: bool) -> int:
    from nemo_runspec.runner.cache import MADE_ANEW, entries

    found = entries(_kinds(kind))
    if as_json:
        print(json.dumps([_as_json(entry) for entry in found], indent=2))
        return 0
    if not found:
        print("nothing is kept")
        return 0
    print("\n".join(table([("KIND", "WHAT", "SIZE", "USED", "NEEDED BY"), *map(_row, found)])))
    free = [entry for entry in found if not entry.needed_by and entry.kind in MADE_ANEW]
    print(f"{_total(found)} in all; no job needs {_total(free)} of it, logs apart: nemotron cache prune")
    return 0


def _prune(older_than: str | None, kind: str | None, dry_run: bool, as_json: bool) -> int:
    from nemo_runspec.records.select import duration_of
    from nemo_runspec.runner.cache import MADE_ANEW, entries, not_needed, prune

    if older_than is None:
        raise UserError(
            "how old must it be? Say so with --older-than",
            remedy="nemotron cache prune --older-than 30d; 0s for all that no job needs",
        )
    age, kinds = duration_of(older_than, "--older-than"), _kinds(kind)
    found = entries(kinds)
    wanted = [entry for entry in found if entry.kind in (kinds or MADE_ANEW)]
    gone = not_needed(wanted, age) if dry_run else prune(wanted, age)
    if as_json:
        print(json.dumps([_as_json(entry) for entry in gone], indent=2))
        return 0
    if gone:
        print("\n".join(table([("KIND", "WHAT", "SIZE", "USED"), *(_row(entry)[:4] for entry in gone)])))
    print(f"{_total(gone)} {'would be freed' if dry_run else 'freed'}")
    left = [entry for entry in not_needed(found, age) if entry not in wanted]
    if left:
        print(f"{_total(left)} of logs of jobs elsewhere stay, perhaps the only copy: --kind logs takes them away")
    return 0


def _kinds(text: str | None) -> Sequence[str]:
    """Raises `UserError` for a kind that there is not."""
    found = [word.strip() for word in (text or "").split(",") if word.strip()]
    for word in found:
        if word not in _KINDS:
            raise UserError(f"--kind {word}: there is no such kind", remedy=did_you_mean(word, _KINDS))
    return found


def _row(entry: CacheEntry) -> tuple[str, str, str, str, str]:
    more = len(entry.needed_by) - 1
    needed = "".join(entry.needed_by[:1]) + (f" and {more} more" if more > 0 else "")
    return entry.kind, shorten(clean(entry.name), _LONGEST), size(entry.size), _age(entry.used), needed


def _total(found: Sequence[CacheEntry]) -> str:
    return size(sum(entry.size for entry in found))


def _age(used: float) -> str:
    from nemo_runspec.duration import span

    return f"{' '.join(span(max(0.0, time.time() - used)).split()[:2])} ago"


def _as_json(entry: CacheEntry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "path": str(entry.path),
        "bytes": entry.size,
        "used": entry.used,
        "needed_by": list(entry.needed_by),
    }


def _complete_kinds(ctx: Context, param: Any, incomplete: str) -> list[str]:
    return [kind for kind in _KINDS if kind.startswith(incomplete)]

"""Which jobs a word means: a job's name or the beginning of it, its id, `last`, or a sweep's name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.records.index import Entry
from nemo_runspec.text import count

LAST = "last"
_ID_LENGTH = 6
"""A name's last part is taken for an id from this many characters on; shorter ones number things."""


def find_one(entries: Sequence[Entry], word: str, root: Path, noun: str = "job") -> Entry:
    """The one job that is meant. `entries`: the newest first; `noun`: what is looked for, in words.

    Raises:
        UserError: none, several, or a whole sweep.
    """
    found = _exactly(entries, word)
    if found is not None:
        return found
    members = group_members(entries, word)
    if members:
        raise UserError(
            f"'{word}' is a sweep of {count(len(members), 'job')}, and one is needed",
            remedy=f"see them: nemotron jobs list --group {word}",
        )
    return _by_part(entries, word, root, noun)


def find_all(entries: Sequence[Entry], words: Iterable[str], root: Path) -> list[Entry]:
    """The jobs that are meant, each once, in the order of the words; those of a sweep in the order they were made.

    Raises:
        UserError: a word that means none, or that is the beginning of several names.
    """
    found: dict[str, Entry] = {}
    for word in words:
        exact = _exactly(entries, word)
        members = [] if exact else group_members(entries, word)
        for entry in members or [exact or _by_part(entries, word, root)]:
            found.setdefault(entry.name, entry)
    return list(found.values())


def group_members(entries: Sequence[Entry], group: str) -> list[Entry]:
    """The jobs of a sweep, the first one first."""
    return [entry for entry in reversed(entries) if group and entry.group == group]


def unknown_job(word: str, names: Iterable[str], root: Path, noun: str = "job") -> UserError:
    """What is said of a word that means no job."""
    known = list(names)
    if not known:
        return UserError(f"no {noun} is recorded yet", where=str(root))
    remedy = did_you_mean(word, known) or "see what there is: nemotron jobs list"
    return UserError(f"no {noun} '{word}'", where=str(root), remedy=remedy)


def _exactly(entries: Sequence[Entry], word: str) -> Entry | None:
    if word == LAST and entries:
        return entries[0]
    return next((entry for entry in entries if entry.name == word), None)


def _by_part(entries: Sequence[Entry], word: str, root: Path, noun: str = "job") -> Entry:
    by_id = [e for e in entries if len(word) >= _ID_LENGTH and e.name.rpartition("-")[2] == word]
    matches = by_id or [e for e in entries if word and e.name.startswith(word)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        shown = ", ".join(e.name for e in matches[:5]) + (", …" if len(matches) > 5 else "")
        raise UserError(
            f"'{word}' is the beginning of {len(matches)} {_kinds(matches)}: {shown}", remedy="give more of its name"
        )
    names = [*(e.name for e in entries), *{e.group for e in entries if e.group}]
    raise unknown_job(word, names, root, noun)


def _kinds(entries: Iterable[Entry]) -> str:
    return " and ".join(sorted({f"{entry.noun}s" for entry in entries}))

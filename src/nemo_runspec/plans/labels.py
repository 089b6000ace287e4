"""Labels that a person gives a job: the beginning of its name, tags to find it by, and a note."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from nemo_runspec.errors import UserError
from nemo_runspec.redact import redact_argv

LONGEST_NAME = 20
"""What a job's name has room for before its date and its random part (`planning.names`)."""

_NAME = re.compile(rf"[a-z](?:[a-z0-9-]{{0,{LONGEST_NAME - 2}}}[a-z0-9])?")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/=+@-]{0,62}")
_LONGEST_NOTE = 500
_TAKEN = ("last",)
"""Words that mean a job whatever it is called."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What one job is called.

    Args:
        name: the beginning of its unique name, '' for its recipe's.
        tags: in the order they were given, each once.
    """

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""

    def without(self, secrets: Iterable[str]) -> Labels:
        """The same, with none of the secrets in the note, and nothing that is given to a secret's name."""
        return replace(self, note=redact_argv([self.note], secrets)[0])


def labels_of(name: str | None = None, tags: Iterable[str] = (), note: str | None = None) -> Labels:
    """Labels as they were given.

    Raises:
        UserError: a name that not every platform takes, what is no tag, a note of several lines.
    """
    return Labels(_name(name), tuple(dict.fromkeys(map(tag_of, tags))), _note(note or ""))


def tag_of(text: str) -> str:
    """The tag. Raises `UserError` where it is none."""
    if _TAG.fullmatch(text):
        return text
    raise UserError(
        f"{text!r} is no tag",
        remedy="letters, digits and . _ - : / = + @, at most 63, a letter or digit first, such as lr-study",
    )


def _name(text: str | None) -> str:
    if text is None or (_NAME.fullmatch(text) and text not in _TAKEN):
        return text or ""
    if text in _TAKEN:
        raise UserError(f"name '{text}' means the newest job in every command", remedy="choose another name")
    raise UserError(
        f"{text!r} is no beginning of a job's name",
        remedy=f"small letters, digits and '-', at most {LONGEST_NAME}, a letter first, such as {_near(text)}; "
        "date and random characters follow, so that every job's name is its own",
    )


def _near(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789")[:LONGEST_NAME].strip("-")
    return slug if slug and slug not in _TAKEN else "baseline"


def _note(text: str) -> str:
    if len(text) > _LONGEST_NOTE or not text.isprintable():
        raise UserError(f"a note is one line of at most {_LONGEST_NOTE} characters")
    return text

"""The one exception a user's mistake becomes: what is wrong, where it is, and how to mend it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from nemo_runspec.lines import text_lines


class Code(str, Enum):
    """What kind of error it is, where something is decided by that: a message may be worded anew at any time."""

    NONE = ""
    PLACEHOLDER = "placeholder"
    """A value that stands for what a site must fill in."""
    REQUIRED = "required"
    """A key that a submission needs, and that nobody has set."""
    UNSET_VARIABLE = "unset variable"
    """A value names an environment variable that is not set."""
    HOST_KEY = "host key"
    """SSH: the host's key is not known, or another one."""
    LOGIN = "login"
    """SSH: we are not let in."""
    IDENTITY = "identity"
    """SSH: the key to be let in with is not on this machine; nobody was asked."""
    CREDENTIALS = "credentials"
    """A platform does not accept who we say we are."""
    UNKNOWN_KEY = "unknown key"
    """A key that there is not; what it was meant to be, and so whether its value is a secret, is not known."""
    NOT_SUBMITTED = "not submitted"
    """It says already that nothing was submitted."""


class UserError(Exception):
    """Something the user can mend. The CLI prints it without a traceback and exits with `exit_code`.

    Args:
        what: one line (or a short list of lines) that says what is wrong.
        where: the place, `file:line` where there is one.
        remedy: how to mend it, as something to type or to change.
        code: what kind of error it is, where something is decided by that.
        key: the profile key it is about, by its canonical name; '' for none. It gives the error its place.

    Attributes:
        transient: whether the same again, later, may help; what was asked for may even have been done.
        state: of a job that ends by it.
    """

    exit_code = 2
    transient = False
    state = "failed"

    def __init__(
        self, what: str, *, where: str | None = None, remedy: str | None = None, code: Code = Code.NONE, key: str = ""
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy
        self.code = code
        self.key = key

    def at(self, where: str | None) -> UserError:
        """The same error with a place, where it has none of its own."""
        return UserError(self.what, where=self.where or where, remedy=self.remedy, code=self.code, key=self.key)

    def to_dict(self) -> dict[str, Any]:
        """The error as plain JSON, for another process."""
        words = {"what": self.what, "where": self.where, "remedy": self.remedy, "code": self.code.value}
        return {
            **words,
            "key": self.key,
            "exit_code": self.exit_code,
            "transient": self.transient,
            "state": self.state,
        }

    @staticmethod
    def from_dict(told: Mapping[str, Any]) -> UserError:
        """The error that another process has raised."""
        error = UserError(
            told["what"], where=told["where"], remedy=told["remedy"], code=Code(told["code"]), key=told["key"]
        )
        error.exit_code, error.transient, error.state = told["exit_code"], told["transient"], told["state"]
        return error

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  at:  {self.where}")
        if self.remedy:
            lines.append(f"  fix: {self.remedy}")
        return "\n".join(lines)


class Problems(UserError):
    """Several mistakes of one file or profile, reported together so that one edit mends them all."""

    def __init__(self, title: str, problems: list[UserError], *, remedy: str | None = None) -> None:
        self.title = title
        self.problems = tuple(problems)
        body = "\n".join(f"- {str(p).replace(chr(10), chr(10) + '  ')}" for p in problems)
        super().__init__(f"{title}\n{body}", remedy=remedy)


class NotBuilt(UserError):
    """A thing this release plans and previews but does not yet do, such as submitting to a cloud."""


class Unfilled(str):
    """A line that says what a submission would lack.

    In a saved plan it is text alone; `code` and `key` are known while the plan is made, and mean what they do in
    `UserError`.
    """

    __slots__ = ("code", "key")
    code: Code
    key: str

    def __new__(cls, line: str, *, key: str = "", code: Code = Code.NONE) -> Unfilled:
        """The line with the profile key it is about; '' for none."""
        made = super().__new__(cls, line)
        made.key, made.code = key, code
        return made

    def error(self, where: str | None = None) -> UserError:
        """The same as an error."""
        return UserError(str(self), where=where, code=self.code, key=self.key)


def as_unfilled(line: str) -> Unfilled:
    """A line of a target or a plan, whoever made it."""
    return line if isinstance(line, Unfilled) else Unfilled(line)


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    text = error.what if isinstance(error, UserError) else str(error)
    rows = (row.strip() for row in text_lines(text))
    return next((row for row in rows if row and not row.startswith("See https")), type(error).__name__)


def suggest(word: str, known: object, *, cutoff: float = 0.6) -> str | None:
    """The known word nearest to a misspelt one, or None. `known` is any iterable of strings."""
    from difflib import get_close_matches

    candidates = sorted(str(k) for k in known)  # type: ignore[attr-defined]
    by_fold = {k.casefold().replace("-", "_"): k for k in candidates}
    folded = word.casefold().replace("-", "_")
    if folded in by_fold:
        return by_fold[folded]
    near = get_close_matches(folded, list(by_fold), n=1, cutoff=cutoff)
    return by_fold[near[0]] if near else None


def did_you_mean(word: str, known: object) -> str | None:
    """The remedy line for a misspelt word, or None where nothing known is near."""
    near = suggest(word, known)
    return f"did you mean '{near}'?" if near else None

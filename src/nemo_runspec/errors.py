"""The one exception a user's mistake becomes: what is wrong, where it is, and how to mend it."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend. The CLI prints it without a traceback and exits with `exit_code`.

    Args:
        what: one line (or a short list of lines) that says what is wrong.
        where: the place, `file:line` where there is one.
        remedy: how to mend it, as something to type or to change.

    Attributes:
        transient: whether the same again, later, may help; what was asked for may even have been done.
    """

    exit_code = 2
    transient = False

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

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

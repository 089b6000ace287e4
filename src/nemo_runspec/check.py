"""A check: its result, and the request that a backend runs checks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nemo_runspec.errors import UserError

Verdict = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report.

    Args:
        name: what was looked at, a word or two.
        verdict: `warning` may work, `failed` will not, `skipped` is not known.
        seen: what was seen; for `skipped`, why it was not looked at.
        mend: what to do about it; for `skipped`, how to have it looked at.
        key: the profile key it is about, '' for none.
    """

    name: str
    verdict: Verdict
    seen: str
    remedy: str = ""
    key: str = ""

    def error(self) -> UserError:
        """The same as an error, for a caller that refuses."""
        return UserError(self.seen, remedy=self.remedy or None, key=self.key)


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The profile that a backend checks.

    Args:
        profile: the profile's name.
        env: its values over every key's default.
        job: a small job may be submitted, for what only a job can see.
    """

    profile: str
    env: Mapping[str, Any]
    job: bool = False


def ok(name: str, seen: str) -> Check:
    """A check that passed."""
    return Check(name, "ok", seen)


def warning(name: str, seen: str, mend: str = "") -> Check:
    """A check after which the profile may still work."""
    return Check(name, "warning", seen, mend)


def failed(name: str, seen: str, mend: str = "", key: str = "") -> Check:
    """A check after which the profile will not work."""
    return Check(name, "failed", seen, mend, key)


def skipped(name: str, because: str, how: str = "") -> Check:
    """A check that was not run."""
    return Check(name, "skipped", because, how)


def stopped_at(failure: Check, steps: Sequence[str], passed: Mapping[str, str]) -> Iterator[Check]:
    """Steps of which one failed. Only those that are known to have passed did; the others were not looked at.

    Args:
        failure: the step that failed: one of `steps`, or one before them all.
        passed: what was seen of the steps that passed, by name.
    """
    if failure.name not in steps:
        yield failure
    for step in steps:
        if step == failure.name:
            yield failure
        elif step in passed:
            yield ok(step, passed[step])
        else:
            yield skipped(step, f"not checked: {failure.name} failed")


def of_error(name: str, error: UserError) -> Check:
    """A failed check of what was raised instead of an answer."""
    where = f" ({error.where})" if error.where else ""
    return failed(name, f"{error.what}{where}", error.remedy or "")

"""Slurm's time limits, and the `signal` of a profile: what the command is sent before the limit.

Slurm sends it to the job's steps, or after `B:` to the batch shell alone. Here it is always the batch shell, which has
it handed to the command (see `batch.py`): a step's signal would reach every process in it, torchrun too, which ends
its ranks at TERM after 30 s and itself dies of USR1.
"""

from __future__ import annotations

import re

from nemo_runspec.backends.checks import short
from nemo_runspec.duration import hours
from nemo_runspec.errors import UserError

_PLACEHOLDER = re.compile(r"CHANGE|YOUR|^<.*>$")


def is_placeholder(time: str) -> bool:
    """True for a text that stands where a time limit is still to be written, such as CHANGE_ME."""
    return _PLACEHOLDER.search(time.strip()) is not None


def time_problem(key: str, time: str) -> list[UserError]:
    """What is wrong with a time limit, if anything. The forms are those of sbatch's manual page."""
    try:
        hours(time)
    except ValueError:
        remedy = "write M, M:S, H:M:S, D-H, D-H:M or D-H:M:S, such as 04:00:00 or 2-12"
        return [UserError(f"{key} is not a time limit Slurm takes: {short(time)}", remedy=remedy, key=key)]
    return []


_SIGNALS = {1: "HUP", 2: "INT", 10: "USR1", 12: "USR2", 15: "TERM"}
"""Linux' numbers. Others are not for checkpoints: nothing can wait for KILL, and QUIT makes a core file."""

_FORM = re.compile(
    r"(?:(?P<flags>[BR]{1,2}):)?(?:SIG)?(?P<name>[A-Z0-9]+)(?:@(?P<lead>[0-9]{1,5}))?", re.IGNORECASE | re.ASCII
)
_NUMBER = re.compile(r"[0-9]{1,3}")
_DEFAULT_LEAD = 60
"""Slurm's own, as sbatch's manual page has it."""

_RESUME_LEAD = 120
_EARLY = 60
"""How much earlier than asked for Slurm may send it, as sbatch's manual page has it."""


def signal_option(signal: str | None, time: str, *, resume: bool) -> str | None:
    """sbatch's `--signal`; with `resume` there always is one: TERM, two minutes before the end or earlier.

    Args:
        time: the job's limit.
    """
    match = _FORM.fullmatch(signal or "")
    if match is not None:
        flags = "RB" if "R" in (match["flags"] or "").upper() else "B"
        return f"{flags}:{_name(match['name'])}" + (f"@{int(match['lead'])}" if match["lead"] else "")
    limit = _seconds(time)
    return f"B:TERM@{min(_RESUME_LEAD, int(limit / 3)) if limit else _RESUME_LEAD}" if resume else signal


def signal_problem(signal: str | None) -> list[UserError]:
    """What is wrong with a profile's signal, if anything."""
    match = _FORM.fullmatch(signal or "")
    if not signal or (match is not None and _name(match["name"]) in _SIGNALS.values()):
        return []
    remedy = f"NAME or NAME@SECONDS; NAME one of {', '.join(sorted(_SIGNALS.values()))}"
    return [UserError(f"signal = {short(signal)} is no signal to send", remedy=remedy, key="signal")]


def comes_at_once(signal: str | None, time: str) -> bool:
    """True where the time limit leaves nothing before the signal."""
    return 0 < _seconds(time) <= lead_of(signal)


def leaves_little(signal: str | None, time: str) -> bool:
    """True where an attempt with `resume` may have less than half a minute before its signal, as Slurm sends it.

    Args:
        signal: as sbatch gets it.
    """
    return 0 < _seconds(time) < lead_of(signal) + _EARLY + 30


def name_of(signal: str | None) -> str:
    """The signal's name without SIG; '' for none."""
    match = _FORM.fullmatch(signal or "")
    return _name(match["name"]) if match else ""


def lead_of(signal: str | None) -> int:
    """How many seconds before the end it comes; Slurm may send it up to 60 s earlier. 0 for none."""
    match = _FORM.fullmatch(signal or "")
    return 0 if match is None else int(match["lead"] or _DEFAULT_LEAD)


def _name(word: str) -> str:
    return _SIGNALS.get(int(word), word) if _NUMBER.fullmatch(word) else word.upper()


def _seconds(time: str) -> float:
    """A time limit in seconds; 0 for none, and for what is no limit."""
    try:
        return 0.0 if is_placeholder(time) else (hours(time) or 0.0) * 3600
    except ValueError:
        return 0.0

"""Time limits as sbatch reads them, lengths of time, and moments. Small on purpose: checking a profile needs it."""

from __future__ import annotations

import re
from datetime import datetime

_TIME = re.compile(r"(?:(?P<days>\d{1,9})-)?(?P<rest>\d{1,9}(?::\d{1,9}){0,2})", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([wdhms])\s*", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_LONGEST = 100 * 365 * 86400.0
_LONGEST_TEXT = 60

_LARGEST_FIRST = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
FORMS = "90s, 10m, 1h30m, 2d or 1w"
"""How a length of time is written, for people."""


def hours(time: str) -> float | None:
    """A Slurm time limit in hours, None for one without an end; zero is such a one (sbatch's manual page).

    The forms are sbatch's own: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`.

    Raises:
        ValueError: not one of these.
    """
    if time.strip().upper() in ("INFINITE", "UNLIMITED"):
        return None
    match = _TIME.fullmatch(time.strip())
    if match is None:
        raise ValueError(f"not a time limit: {time[:40]!r}")
    return _in_hours(int(match["days"] or 0), [int(part) for part in match["rest"].split(":")], match["days"]) or None


def parse_duration(text: str, *, bare: bool = False) -> float:
    """A length of time such as `30m`, `90s`, `1h30m`, `1.5h`, `2d` or `1w`, in seconds: less than 100 years.

    Units come from the largest to the smallest, each once.

    Args:
        bare: a number without a unit is seconds, as for timeout(1). Elsewhere it is refused: `30` may be meant as days.

    Raises:
        ValueError: not one of these.
    """
    text = text.strip().lower()
    total = _sum_of_parts(f"{text}s" if bare and _NUMBER.fullmatch(text) else text)
    if total is None or total >= _LONGEST:
        raise ValueError(f"not a length of time: {text!r}")
    return total


def whole_seconds(text: str) -> int:
    """The same in whole seconds, above 0: a limit.

    Raises:
        ValueError: not a length of time, or zero.
    """
    total = parse_duration(text)
    if not total:
        raise ValueError(f"not above zero: {text!r}")
    return max(1, round(total))


def _sum_of_parts(text: str) -> float | None:
    if len(text) > _LONGEST_TEXT:
        return None
    parts = _PART.findall(text)
    units = [list(_UNITS).index(unit) for _, unit in parts]
    if not parts or _PART.sub("", text) or units != sorted(set(units)):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _in_hours(days: int, parts: list[int], dashed: str | None) -> float:
    if dashed is not None or len(parts) == 3:
        h, m, s = [*parts, 0, 0][:3]
        return days * 24 + h + m / 60 + s / 3600
    return parts[0] / 60 + (parts[1] / 3600 if len(parts) == 2 else 0)


def span(seconds: float) -> str:
    """A time in its two largest units: `45 s`, `12 min 4 s`, `3 h 5 min`, `2 d 4 h`."""
    left, parts = max(0, round(seconds)), []
    for size, unit in _LARGEST_FIRST:
        count, left = divmod(left, size)
        parts.append(f"{count} {unit}" if count else "")
    first = next((n for n, part in enumerate(parts) if part), len(parts) - 1)
    return " ".join(filter(None, parts[first : first + 2])) or "0 s"


def is_moment(text: object) -> bool:
    """True if it is a time with its offset from UTC, ISO 8601."""
    try:
        return isinstance(text, str) and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False

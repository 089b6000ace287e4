"""Time limits as sbatch reads them, and lengths of time. Small on purpose: checking a profile needs it."""

from __future__ import annotations

import re

_TIME = re.compile(r"^(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})$")
_LENGTH = re.compile(r"(?:(\d+)d)?\s*(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+)s)?", re.ASCII)
_UNITS = (86400, 3600, 60, 1)


def hours(time: str) -> float | None:
    """A Slurm time limit in hours, None for one without an end; zero is such a one (sbatch's manual page).

    The forms are sbatch's own: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`.

    Raises:
        ValueError: not one of these.
    """
    if time.strip().upper() in ("INFINITE", "UNLIMITED"):
        return None
    match = _TIME.match(time.strip())
    if match is None:
        raise ValueError(f"not a time limit: {time!r}")
    return _in_hours(int(match["days"] or 0), [int(part) for part in match["rest"].split(":")], match["days"]) or None


def seconds(text: str) -> int:
    """A length of time such as `30m`, `90s`, `1h30m` or `2d`, in seconds: above 0.

    Raises:
        ValueError: not one of these.
    """
    match = _LENGTH.fullmatch(text.strip())
    total = sum(int(part or 0) * unit for part, unit in zip(match.groups(), _UNITS, strict=True)) if match else 0
    if not total:
        raise ValueError(f"not a length of time: {text!r}")
    return total


def _in_hours(days: int, parts: list[int], dashed: str | None) -> float:
    if dashed is not None or len(parts) == 3:
        h, m, s = [*parts, 0, 0][:3]
        return days * 24 + h + m / 60 + s / 3600
    return parts[0] / 60 + (parts[1] / 3600 if len(parts) == 2 else 0)

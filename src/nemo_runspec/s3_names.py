"""The names that keys for S3 have in an environment. Python 3.6 and newer: it also travels with jobs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

KEYS = {"ACCESS_KEY": "AWS_ACCESS_KEY_ID", "SECRET_KEY": "AWS_SECRET_ACCESS_KEY"}
"""What a job needs for its data, and Amazon's names, which count where neither of these is set."""

TOKEN = "AWS_SESSION_TOKEN"
"""What temporary keys need besides."""

REGION = "us-east-1"
"""Where a service is of which nobody says it."""

PAIRS = (tuple(KEYS), tuple(KEYS.values()))


def pair_in(environment: "Mapping[str, str]") -> "tuple[str, ...]":
    """The names by which an environment has the keys: one of `PAIRS`, or none. What is set but empty is not set."""
    there = {name for pair in PAIRS for name in pair if _value(environment, name)}
    return () if lacking(there) else _meant(there)


def token_in(environment: "Mapping[str, str]") -> str:
    """The token of those keys, '' where they have none. With another key of Amazon's there it belongs to that one."""
    names = pair_in(environment)
    key, amazons = (_value(environment, name) for name in ("ACCESS_KEY", KEYS["ACCESS_KEY"]))
    of_another = names == PAIRS[0] and amazons not in ("", key)
    return _value(environment, TOKEN) if names and not of_another else ""


def lacking(given: "Collection[str]") -> "list[str]":
    """The names of keys that a job is still to be given, where it is given these variables. Pairs are not mixed."""
    return [name for name in _meant(given) if name not in given]


def _meant(given: "Collection[str]") -> "tuple[str, ...]":
    return next((pair for pair in PAIRS if any(name in given for name in pair)), PAIRS[0])


def _value(environment: "Mapping[str, str]", name: str) -> str:
    return environment.get(name, "").strip()

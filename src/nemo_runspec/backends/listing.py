"""Listings of a platform: each backend declares its own, and commands are made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

ListingRow = dict[str, Any]

Api = TypeVar("Api")
"""How a backend's lists ask its platform."""


@dataclass(frozen=True, slots=True)
class ListingRequest(Generic[Api]):
    """What a list is made from.

    Args:
        api: the backend's own, connected.
        env: the values of the profile that is named, empty without one.
        argument: what was typed behind the list's name, '' where it takes nothing.
        within: the part of the platform that was named by the list's own option, '' for none.
    """

    api: Api
    env: Mapping[str, Any]
    argument: str = ""
    within: str = ""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Api]):
    """One list.

    Args:
        name: of its command.
        help: a sentence.
        columns: head of a column → key of its rows; the last one may be cut where a terminal has no room.
        rows: asks for it. Values are plain JSON; a list is shown with commas.
        argument: the name of what must be typed behind its name, '' for nothing.
        argument_help: what that is.
        within: name and help of the option that narrows it to a part of the platform; '' where it has none.
    """

    name: str
    help: str
    columns: Mapping[str, str]
    rows: Callable[[ListingRequest[Api]], Iterable[ListingRow]]
    argument: str = ""
    argument_help: str = ""
    within: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Listings(Generic[Api]):
    """All lists of a backend, in the order of its help.

    Args:
        connect: `connect(env, profile, env_file)` connects to the platform of a profile's merged values (empty without
            a profile; the names are for messages). Raises `UserError` where it, or its login, is not known.
        needs_profile: the platform cannot be found without a profile.
    """

    connect: Callable[[Mapping[str, Any], str | None, str | None], Api]
    lists: tuple[Listing[Api], ...]
    needs_profile: bool = False

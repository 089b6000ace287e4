"""`nemotron lepton …`, `nemotron dgxcloud …`: what a platform has to offer, made of its backend's own lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError
from nemo_runspec.text import one_line
from nemotron.cli import complete
from nemotron.cli.click import Command
from nemotron.cli.forms import print_json
from nemotron.cli.job_formatting import fitted
from nemotron.cli.parameters import argument, command, group, option
from nemotron.cli.tables import Styled
from nemotron.cli.text import literal, table

if TYPE_CHECKING:
    from nemo_runspec.backends.base import Backend
    from nemo_runspec.backends.listing import Api, Listing, Listings
    from nemo_runspec.profiles.envfile import EnvFile
    from nemo_runspec.profiles.profile import Profile


def platform_group(backend: Backend) -> Command:
    """The group of a backend's lists."""
    listings = backend.load_listings()
    assert listings is not None, "asked for where there are some"
    made = (_command(backend.name, listings, listing) for listing in listings.lists)
    return group(backend.name, literal(backend.summary), *made)


def _command(executor: str, listings: Listings[Api], listing: Listing[Api]) -> Command:
    named = [argument(listing.argument, listing.argument_help)] if listing.argument else []
    within, help_text = listing.within
    narrowed = [option(f"--{within}", help_text, value="NAME")] if within else []
    return command(
        listing.name,
        listing.help,
        _call(executor, listings, listing),
        *named,
        option(
            "--profile",
            f"A profile of executor = {executor}; without it the only one there is.",
            value="PROFILE",
            complete=complete.profiles,
        ),
        *narrowed,
        option("--json", "Machine-readable output."),
    )


def _call(executor: str, listings: Listings[Api], listing: Listing[Api]) -> Callable[..., int]:
    def call(profile: str | None, as_json: bool, **words: str | None) -> int:
        typed = words.get(listing.argument) or "", words.get(listing.within[0].replace("-", "_")) or ""
        found = _rows(executor, listings, listing, profile, *typed)
        if as_json:
            print_json(found)
        else:
            _print(listing, found)
        return 0

    return call


def _rows(
    executor: str, listings: Listings[Api], listing: Listing[Api], named: str | None, word: str, within: str
) -> list[dict[str, Any]]:
    from nemo_runspec.backends.listing import ListingRequest
    from nemo_runspec.doctor.trial import merged

    profile, file = _profile(executor, named, needed=listings.needs_profile)
    env = merged(profile) if profile else {}
    api = listings.connect(env, profile.name if profile else None, str(file.path) if file else None)
    return list(listing.rows(ListingRequest(api, env, word, within)))


def _profile(executor: str, named: str | None, *, needed: bool) -> tuple[Profile | None, EnvFile | None]:
    """The named profile, or the only one of that executor; None where there is none and none is needed.

    Raises:
        UserError: it is another executor's, or which one is meant is not known.
    """
    from nemo_runspec.profiles.load import load_profile

    known = [] if named else _profiles_of(executor)
    name = named or (known[0] if len(known) == 1 else None)
    if name is None and needed:
        have = f"{len(known)} profiles" if known else "no profile"
        raise UserError(
            f"{have} of executor '{executor}': which is meant?", remedy=f"--profile {'|'.join(known) or 'NAME'}"
        )
    if name is None:
        return None, None
    profile, file = load_profile(name)
    if profile.executor != executor:
        raise UserError(f"profile '{name}' is one of executor '{profile.executor}', not of '{executor}'")
    return profile, file


def _profiles_of(executor: str) -> list[str]:
    from nemo_runspec.profiles.executor import executor_of
    from nemo_runspec.profiles.load import env_file_in_force

    env = env_file_in_force()
    found = []
    for name in env.profiles if env else ():
        try:
            if env is not None and executor_of(env, env.chain(name)) == executor:
                found.append(name)
        except UserError:  # a broken profile is none that is meant
            continue
    return found


def _print(listing: Listing[Api], found: Iterable[Mapping[str, Any]]) -> None:
    rows = [tuple(_cell(row.get(key)) for key in listing.columns.values()) for row in found]
    if not rows:
        print(f"no {listing.name.replace('-', ' ')}")
        return
    first, *others = fitted([tuple(listing.columns), *rows])
    print("\n".join(table([[Styled(cell, "bold") for cell in first], *others], indent="")))


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return one_line(", ".join(map(str, value)))
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else one_line(str(value))

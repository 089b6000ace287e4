"""Enroot's credentials as the `auth.json` that podman reads: for named registries only, never written down here.

Enroot's file is `$ENROOT_CONFIG_PATH/.credentials`, netrc-like; a password that begins with `$` is one that enroot has
a shell work out (its `doc/cmd/import.md`). `auth.json` is containers-auth.json(5).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

DEFAULT_REGISTRIES = ("nvcr.io",)

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\$\([^)\n]*\)|\S+)')
_ALSO: Mapping[str, tuple[str, ...]] = {"docker.io": ("auth.docker.io", "registry-1.docker.io", "index.docker.io")}
"""A registry → what enroot calls it."""


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One entry. `password` never shows in a `repr`."""

    machine: str
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class RegistryLogins:
    """What the credentials hold for the registries asked for.

    Args:
        auth: the text of `auth.json`; without any entry, it has none.
        registries: those in it. `left_out`: those whose password enroot works out by a command.
    """

    auth: str = field(repr=False)
    registries: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def read_logins(text: str) -> list[RegistryEntry]:
    """The entries of a credentials file, in its order. A `default` entry belongs to no registry and is left out."""
    entries: list[dict[str, str]] = []
    tokens = _tokens(text)
    for token in tokens:
        if token in ("machine", "default"):
            entries.append({"machine": next(tokens, "") if token == "machine" else ""})
        elif token in ("login", "password", "account"):
            (entries or [{}])[-1][token] = next(tokens, "")
    found = (entry for entry in entries if entry["machine"] and entry.get("password"))
    return [RegistryEntry(entry["machine"], entry.get("login", ""), entry["password"]) for entry in found]


def make_auth(text: str, registries: Iterable[str]) -> RegistryLogins:
    """`auth.json` out of enroot's credentials. The first entry of a registry counts, as for enroot.

    Args:
        registries: host names; what is not among them stays where it is.
    """
    logins = read_logins(text)
    auths: dict[str, dict[str, str]] = {}
    left_out = []
    for registry in dict.fromkeys(name.lower() for name in registries):
        names = (registry, *_ALSO.get(registry, ()))
        login = next((entry for entry in logins if entry.machine.lower() in names), None)
        if login is None:
            continue
        if login.password.startswith("$"):
            left_out.append(registry)
        else:
            pair = f"{login.user}:{login.password}".encode("utf-8", "surrogateescape")
            auths[registry] = {"auth": base64.b64encode(pair).decode("ascii")}
    return RegistryLogins(json.dumps({"auths": auths}, indent=2) + "\n", tuple(auths), tuple(left_out))


def _tokens(text: str) -> Iterator[str]:
    """The words, without comments: a line, or the rest of one, that begins with `#` where a key may stand."""
    for line in text.splitlines():
        value = False
        for found in _WORD.finditer(line):
            quoted, plain = found.groups()
            if not value and plain is not None and plain.startswith("#"):
                break
            yield re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain
            value = not value and plain != "default"

"""One `env.toml`, read: its sections with the line of every key, and its profiles with `extends` followed.

The user's own file may lie below it: sections that it alone has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.source import Layer, Source, display_path
from nemo_runspec.toml import KeyPath, key_lines, parse_toml, read_toml, split_lines

_LISTED = 12
"""Profiles that are named where none was found."""


@dataclass(frozen=True)
class MergedProfile:
    """One profile with what it inherits, for one executor: by canonical key, references to the environment as written.

    Args:
        problems, warnings: of the section itself, not of those it inherits from.
    """

    values: dict[str, Any]
    sources: dict[str, Source]
    problems: tuple[UserError, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class EnvFile:
    """A parsed env file.

    Args:
        path: the file.
        shown: how it is named to the user.
        sections: section name → table, system sections included.
        strays: top-level keys outside any section.
        lines: key path → 1-based line.
        text: what it says, a line each.
        users: whether it is the user's own, of no project.
        below: the user's own below it, None for none.
        merged: executor and section → what `profile.resolve_profile` has made of it, for those that extend it.
    """

    path: Path
    shown: str
    sections: Mapping[str, dict[str, Any]]
    strays: tuple[str, ...]
    lines: Mapping[KeyPath, int]
    text: tuple[str, ...] = field(default=(), repr=False)
    users: bool = False
    below: EnvFile | None = None
    merged: dict[tuple[str, str], MergedProfile] = field(default_factory=dict, compare=False, repr=False)
    _chains: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def profiles(self) -> list[str]:
        """Names of the profiles, in file order."""
        return [name for name in self.sections if name not in SYSTEM_SECTIONS]

    @property
    def files(self) -> tuple[EnvFile, ...]:
        """The file, then the user's own below it."""
        return (self,) if self.below is None else (self, self.below)

    @property
    def shown_all(self) -> str:
        """All of them, for a person."""
        return " and ".join(file.shown for file in self.files)

    def file_of(self, section: str) -> EnvFile:
        """The file that a section stands in."""
        below = self.below
        return below if below is not None and self.sections.get(section) is below.sections.get(section, ()) else self

    def above(self, users: EnvFile) -> EnvFile:
        """The same file with the user's own below it: of a section that both have, this one's counts, and whole."""
        return replace(
            self,
            sections={**self.sections, **{k: v for k, v in users.sections.items() if k not in self.sections}},
            below=users,
            merged={},
            _chains={},
        )

    def where(self, *path: str) -> str:
        """`file:line [section]` of a key, or of the nearest table above it."""
        return self.source(*path).place()

    def source(self, section: str, *path: str, inherited: bool = False) -> Source:
        """The `Source` of a key of a section; inside inline tables the line of the key that holds them."""
        keys: KeyPath = (section, *path)
        file = self.file_of(section)
        line = next((file.lines[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in file.lines), None)
        return Source(Layer.PROFILE, file.shown, line, section, inherited)

    def system(self, section: str) -> dict[str, Any]:
        """A system section, empty where the file has none."""
        return dict(self.sections.get(section, {}))

    def chain(self, name: str) -> tuple[str, ...]:
        """The profile and its ancestors, child first.

        Raises:
            UserError: unknown profile or parent, a system section, a cycle (its whole chain is printed).
        """
        known = self._chains.get(name)
        if known is None:
            self.require_profile(name)
            known = self._chains[name] = self._follow(name)
        return known

    def require_profile(self, name: str) -> None:
        """Raises `UserError` unless `name` is a profile of this file."""
        if name in SYSTEM_SECTIONS:
            raise UserError(
                f"'{name}' is a system section of {self.file_of(name).shown}, not a profile",
                where=self.where(name) if name in self.sections else self.shown,
                remedy=self._offer(name),
            )
        if name not in self.sections:
            raise UserError(f"no profile '{name}' in {self.shown_all}", where=self.shown, remedy=self._offer(name))

    def _offer(self, name: str) -> str:
        near = did_you_mean(name, self.profiles)
        more = len(self.profiles) - _LISTED
        listed = [*self.profiles[:_LISTED], *([f"{more} more"] if more > 0 else [])]
        have = f"profiles: {', '.join(listed)}" if listed else "the file has no profiles"
        return f"{near}  ({have})" if near else have

    def _follow(self, name: str) -> tuple[str, ...]:
        chain = [name]
        while True:
            parent = self.sections[chain[-1]].get("extends")
            if parent is None:
                return tuple(chain)
            self._require_parent(chain[-1], parent)
            if parent in chain:
                raise self._circle(chain[chain.index(parent) :])
            if parent in self._chains:
                return (*chain, *self._chains[parent])
            chain.append(parent)

    def _circle(self, members: list[str]) -> UserError:
        """Profiles that extend each other, told the same way whichever of them is asked for: from the file's first."""
        start = min(range(len(members)), key=lambda n: self.profiles.index(members[n]))
        loop = [*members[start:], *members[: start + 1]]
        return UserError(
            f"'extends' goes in a circle: {' -> '.join(loop)}",
            where=self.where(loop[0], "extends"),
            remedy=f"remove one of the {len(members)} 'extends' lines",
        )

    def _require_parent(self, child: str, parent: Any) -> None:
        where = self.where(child, "extends")
        if not isinstance(parent, str):
            raise UserError(
                f"profile '{child}': extends must name one profile, not {parent!r}",
                where=where,
                remedy='chain them instead: extends = "parent", and extends in the parent',
            )
        if parent in SYSTEM_SECTIONS:
            raise UserError(f"profile '{child}' extends the system section '{parent}', not a profile", where=where)
        if parent not in self.sections:
            raise UserError(
                f"profile '{child}' extends '{parent}', which {self.shown_all} does not have",
                where=where,
                remedy=did_you_mean(parent, self.profiles),
            )


def load_env_file(path: Path, *, users: bool = False) -> EnvFile:
    """Reads an env file.

    Args:
        users: whether it is the user's own, of no project.

    Raises:
        UserError: unreadable or not TOML, with file and line.
    """
    return env_file_of(path, read_toml(path, display_path(path))[1], users=users)


def env_file_of(path: Path, text: str, *, users: bool = False) -> EnvFile:
    """A file as it is with another text. Raises `UserError`: that is no TOML."""
    shown = display_path(path)
    document = parse_toml(text, shown)
    sections = {name: value for name, value in document.items() if isinstance(value, dict)}
    strays = tuple(name for name in document if name not in sections)
    return EnvFile(path, shown, sections, strays, key_lines(text), tuple(split_lines(text)), users)

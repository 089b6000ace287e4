"""git as a process: always in a named repository, never with locks, prompts or variables of a call around us."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path

from nemo_runspec.lines import text_lines

_FOREIGN = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_IMPLICIT_WORK_TREE", "GIT_NAMESPACE", "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
    "GIT_TRACE",
)  # fmt: skip
"""Set by a git hook, say, and meant for another repository (git's documentation, "rev-parse --local-env-vars")."""

_OURS = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}
_SETTINGS = (
    "core.fsmonitor=false", "core.untrackedCache=false", "core.splitIndex=false", "core.hooksPath=/dev/null",
    "advice.addEmbeddedRepo=false", "core.quotePath=false", "tar.umask=0022", "log.showSignature=false",
)  # fmt: skip
_WITHOUT = ("process=", "clean=", "smudge=", "required=false")
_WITHOUT_LFS = tuple(f"filter.lfs.{key}" for key in _WITHOUT)
"""Files of Git LFS stay the pointers they are in a commit: its filters fetch, and write into the repository."""


_INERT = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""Nothing is fetched by any way, whatever the settings say (git's documentation, "Environment Variables")."""

_FILTERS: ContextVar[tuple[str, ...] | None] = ContextVar("filters", default=None)


@contextmanager
def inert(find_filters: Callable[[], Iterable[str]]) -> Iterator[tuple[str, ...]]:
    """Within it git runs no program that a repository's own settings name, and fetches nothing: a preview only reads.

    A file with a filter then counts as changed as soon as its time has changed.

    Args:
        find_filters: the names of the filters there are; what it asks of git is asked so already.

    Yields: the names of the filters that are not run.
    """
    token = _FILTERS.set(())
    try:
        names = tuple(find_filters())
        _FILTERS.set(names)
        yield tuple(name for name in names if name != "lfs")
    finally:
        _FILTERS.reset(token)


_DUBIOUS = b"dubious ownership"
"""Of what git says there, in its own words: it has no code for it."""


class GitError(Exception):
    """git could not be started or failed; the text is the first line of what it said."""


class ForeignOwner(GitError):
    """git refuses to read a repository that belongs to somebody else."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository, read only unless its caller made it.

    Args:
        folder: its working tree, or with `bare` its git directory.
        extra: variables for git, such as where new objects are written instead.
        lfs: whether the filters of Git LFS work.
    """

    folder: Path
    bare: bool = False
    extra: Mapping[str, str] = field(default_factory=dict, hash=False)
    lfs: bool = False

    def run(self, *arguments: str, given: bytes | None = None, **extra: str) -> bytes:
        """What `git ARGUMENTS` prints.

        Raises:
            GitError: git is not there, or failed.
        """
        command = self.command(*arguments)
        environment = self.environment(**extra)
        try:
            done = subprocess.run(command, env=environment, input=given or b"", capture_output=True, check=False)
        except OSError as error:
            raise GitError(f"git cannot be run: {error.strerror}") from None
        if done.returncode:
            kind = ForeignOwner if _DUBIOUS in done.stderr else GitError
            raise kind(said(done.stderr) or f"git {arguments[0]} failed")
        return done.stdout

    def line(self, *arguments: str) -> str:
        """The same as one line of text."""
        return os.fsdecode(self.run(*arguments)).rstrip("\n")

    def ask(self, *arguments: str) -> str | None:
        """The same, None where git fails."""
        try:
            return self.line(*arguments)
        except GitError:
            return None

    def records(self, *arguments: str) -> list[str]:
        """The fields of an output that is separated by NUL bytes (`-z`)."""
        return split(self.run(*arguments))

    def command(self, *arguments: str) -> list[str]:
        """The whole command line."""
        chosen = _SETTINGS if self.lfs else (*_SETTINGS, *_WITHOUT_LFS)
        off = (f"filter.{name}.{key}" for name in _FILTERS.get() or () for key in _WITHOUT)
        settings = [word for setting in (*chosen, *off) for word in ("-c", setting)]
        return ["git", *settings, "-C", str(self.folder), *arguments]

    def environment(self, **extra: str) -> dict[str, str]:
        """What git sees."""
        inherited = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        place = {"GIT_DIR": str(self.folder), "GIT_WORK_TREE": str(self.folder)} if self.bare else {}
        quiet = {} if _FILTERS.get() is None else _INERT
        return {**inherited, **_OURS, **place, **quiet, **self.extra, **extra}

    def with_variables(self, **extra: str) -> Repository:
        """The same repository, with more variables for git."""
        return replace(self, extra={**self.extra, **extra})

    def path(self, name: str) -> Path:
        """A file or folder of the git directory, such as `index`, wherever it is kept."""
        return self.folder / self.line("rev-parse", "--git-path", name)


def said(errors: bytes) -> str:
    """The line of git's that says what is wrong, without `fatal: ` and without credentials."""
    lines = [line.strip() for line in text_lines(errors.decode("utf-8", "replace")) if line.strip()]
    chosen = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    return without_credentials(chosen.partition(": ")[2] if chosen.startswith(("fatal:", "error:")) else chosen)


def without_credentials(text: str) -> str:
    """The text with nothing between `://` and `@` in its addresses."""
    words: list[str] = []
    for word in text.split("://"):
        host, slash, rest = word.partition("/")
        words.append((host.rpartition("@")[2] if words else host) + slash + rest)
    return "://".join(words)


def split(output: bytes) -> list[str]:
    """Fields that end in NUL, as text; bytes that are not UTF-8 are kept as surrogates."""
    return [os.fsdecode(row) for row in output.split(b"\0") if row]


def joined(names: Iterable[str]) -> bytes:
    """Names for a command that reads them with `-z`."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)

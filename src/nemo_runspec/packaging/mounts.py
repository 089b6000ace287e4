"""Repositories that are cloned and mounted into a job, each job with a checkout of its own at exactly one commit.

A bare mirror of each repository is kept beside the checkouts. One process at a time may change it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.locks import locked_file
from nemo_runspec.packaging.addresses import mirror_folder
from nemo_runspec.packaging.git import GitError, Repository
from nemo_runspec.plans.model import AutoMount

_FULL = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
_SHORT = re.compile(r"[0-9a-f]{4,63}", re.IGNORECASE)
_EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


def provide_mounts(mounts: tuple[AutoMount, ...], say: Say) -> tuple[AutoMount, ...]:
    """Clones and checks out what a plan mounts; returns the mounts with their commits.

    A branch or tag is what the remote says it is now. A commit that is here already needs no network; one that is set
    (a retry) is used whatever the ref has become.

    Args:
        say: takes a line where something may take a while.

    Raises:
        UserError: a ref that cannot be had now, never an older copy of it; or the disk refuses.
    """
    return tuple(_provide(mount, say) for mount in mounts)


def remove_checkouts(mounts: Iterable[AutoMount], job: str) -> None:
    """Removes what was checked out for one job; the mirror and other jobs' checkouts stay.

    Raises:
        OSError: it cannot be removed.
    """
    for folder in {Path(mount.path).parent for mount in mounts}:
        if folder.name == job and folder.parent.name == "jobs" and folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)


def _provide(mount: AutoMount, say: Say) -> AutoMount:
    folder = mirror_folder(mount)
    is_new = not (folder / "mirror.git").is_dir()
    try:
        with _alone(folder, mount, say), _nothing_left(folder, mount, is_new=is_new):
            mirror = _mirror(folder / "mirror.git", mount.url)
            commit = mount.commit or _commit_of(mirror, mount, say)
            if not _has(mirror, commit):
                _fetch_commit(mirror, mount, commit, say)
            _check_out(mirror, mount, commit)
    except OSError as error:
        raise UserError(f"{_named(mount)} cannot be mounted: {error.strerror}", where=str(error.filename)) from None
    except GitError as error:
        raise UserError(f"{_named(mount)} cannot be mounted: {error}", where=str(folder)) from None
    return replace(mount, commit=commit)


@contextmanager
def _alone(folder: Path, mount: AutoMount, say: Say) -> Iterator[None]:
    paths.private_dir(folder)
    with locked_file(folder / "lock", on_wait=lambda: say(f"waiting for another job that fetches {mount.url}")):
        yield


@contextmanager
def _nothing_left(folder: Path, mount: AutoMount, *, is_new: bool) -> Iterator[None]:
    """Where it fails, what it has made goes again: a checkout's folder, and a mirror that was not there before."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # what another call of the same job has checked out keeps it
            Path(mount.path).parent.rmdir()
        if is_new:
            shutil.rmtree(folder / "mirror.git", ignore_errors=True)
        raise


def _mirror(folder: Path, url: str) -> Repository:
    """The mirror, made empty under another name first, so that it is whole if it is there."""
    repository = Repository(folder, bare=True, extra=_network(url))
    if not folder.is_dir():
        scratch = Path(tempfile.mkdtemp(prefix=".mirror.", dir=folder.parent))
        fresh = Repository(scratch)
        fresh.run("init", "--quiet", "--bare", ".")
        fresh.run("config", "remote.origin.url", url)
        fresh.run("config", "gc.autoDetach", "false")
        scratch.replace(folder)
    return repository


def _network(url: str) -> dict[str, str]:
    """Nothing may wait for an answer on the terminal."""
    configured = os.environ.get("GIT_SSH_COMMAND") or Repository(Path("/")).ask("config", "--get", "core.sshCommand")
    return {} if configured else {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}


def _commit_of(mirror: Repository, mount: AutoMount, say: Say) -> str:
    """The commit a ref stands for now."""
    ref = mount.ref
    if _FULL.fullmatch(ref) and _has(mirror, ref):
        return ref.lower()  # as git prints it, which the checkout is held against
    commits = _remote_refs(mirror, mount)
    if len(commits) > 1:
        raise UserError(
            f"{_named(mount)} is both a branch and a tag, of different commits",
            remedy=f"write refs/heads/{ref} or refs/tags/{ref}",
        )
    if commits:
        return commits.pop()
    if _FULL.fullmatch(ref):
        return ref.lower()
    if _SHORT.fullmatch(ref):
        _fetch(mirror, mount, say, *_EVERYTHING)
        found = mirror.ask("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        if found:
            return found
    raise UserError(
        f"{_named(mount)} is not there: the remote has no branch, tag or commit of that name",
        remedy=f"look at them: git ls-remote {mount.url}",
    )


def _remote_refs(mirror: Repository, mount: AutoMount) -> set[str]:
    """Commits of the branch and the tag of that name on the remote. Of an annotated tag, what it points to (`^{}`)."""
    names = [mount.ref] if mount.ref.startswith("refs/") or mount.ref == "HEAD" else []
    names += [f"refs/heads/{mount.ref}", f"refs/tags/{mount.ref}"]
    asked = [*names, *(f"{name}^{{}}" for name in names)]
    try:
        rows = text_lines(mirror.line("ls-remote", "--quiet", "origin", *asked))
    except GitError as error:
        raise _unreachable(mount, error) from None
    found = {name: commit for commit, _, name in (row.partition("\t") for row in rows)}
    return {found.get(f"{name}^{{}}", found[name]) for name in names if name in found}


def _fetch_commit(mirror: Repository, mount: AutoMount, commit: str, say: Say) -> None:
    """Gets a commit: with everything that has a name, else by itself, where the server allows it."""
    _fetch(mirror, mount, say, *_EVERYTHING)
    if _has(mirror, commit):
        return
    try:
        mirror.run("fetch", "--quiet", "--no-tags", "origin", commit)
    except GitError as error:
        raise _unreachable(mount, error) from None


def _fetch(mirror: Repository, mount: AutoMount, say: Say, *refs: str) -> None:
    say(f"fetching {mount.url}")
    try:
        mirror.run("fetch", "--quiet", "--prune", "--force", "origin", *refs)
    except GitError as error:
        raise _unreachable(mount, error) from None


def _check_out(mirror: Repository, mount: AutoMount, commit: str) -> None:
    """A clone of its own at the commit, made under another name first."""
    path = Path(mount.path)
    if path.is_dir():
        _require_commit(path, mount, commit)
        return
    paths.private_dir(path.parent)
    scratch = Path(tempfile.mkdtemp(prefix=".checkout.", dir=path.parent))
    try:
        _clone(mirror, mount, commit, scratch)
        scratch.chmod(0o755)
        scratch.replace(path)
    except GitError as error:
        raise UserError(f"{_named(mount)} cannot be checked out: {error}", where=str(path)) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _clone(mirror: Repository, mount: AutoMount, commit: str, folder: Path) -> None:
    here = Repository(folder, extra=mirror.extra, lfs=True)
    here.run("clone", "--quiet", "--local", "--no-checkout", str(mirror.folder), ".")
    here.run("remote", "set-url", "origin", mount.url)
    here.run("checkout", "--quiet", "--detach", commit)
    if (folder / ".gitmodules").exists():
        here.run("submodule", "--quiet", "update", "--init", "--recursive")


def _require_commit(path: Path, mount: AutoMount, commit: str) -> None:
    """A checkout that is there already, for the same job, must be of the same commit."""
    if Repository(path).ask("rev-parse", "HEAD") != commit:
        raise UserError(
            f"{_named(mount)}: its place holds something else than commit {commit[:12]}",
            where=str(path),
            remedy=f"take it away: {path}",
        )


def _has(mirror: Repository, commit: str) -> bool:
    return mirror.ask("cat-file", "-e", f"{commit}^{{commit}}") is not None


def _named(mount: AutoMount) -> str:
    return f"{mount.url} at {mount.commit or mount.ref}"


def _unreachable(mount: AutoMount, error: GitError) -> UserError:
    return UserError(
        f"{_named(mount)} cannot be had: {error}",
        remedy=f"try it: git ls-remote {mount.url}; a full commit that was fetched before needs no network",
    )

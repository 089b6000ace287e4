"""Finds out where pods can fetch a package's commit: whether origin has it, and gives it without a question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.packaging.git import GitError, Repository, without_credentials
from nemo_runspec.packaging.options import parts_of
from nemo_runspec.plans.model import Package
from nemo_runspec.transport.loopback import is_in_clear

TOKEN = "GIT_TOKEN"
"""The variable whose value git in the pods is given as a password; only its name stands anywhere."""

_SSH = re.compile(r"(?:ssh://)?(?:[^@/]+@)?(?P<host>[^:/@]+)(?::\d+)?[:/]+(?P<path>.+)")


@dataclass(frozen=True, slots=True)
class GitPlace:
    """What the pods fetch.

    Args:
        url: over https, without credentials.
        folder: of the commit, '' for all of it.
        tree: git's id of that.
    """

    url: str
    commit: str
    folder: str
    tree: str


def git_place(package: Package, *, token: bool) -> GitPlace:
    """Where pods fetch exactly this package from. Asks origin which commits it has.

    Args:
        token: whether the job has `GIT_TOKEN`.

    Raises:
        UserError: the package is not what its commit has, or origin has no such commit, or wants a password that the
            job does not have, or would get it in clear.
    """
    repository = Repository(Path(package.root or "."))
    commit, folder = package.commit or "", _folder(package)
    tree = repository.ask("rev-parse", "--verify", "--quiet", f"{commit}:{folder}") if commit else None
    if not tree or tree != package.digest:
        raise UserError(
            "the package is more or less than the files of a commit", remedy="commit all of it, without submodules"
        )
    url = fetch_url(repository.ask("remote", "get-url", "origin") or "")
    if token and is_in_clear(url):
        what = f"{url} is plain HTTP: everybody on the way could read {TOKEN}"
        raise UserError(what, remedy="give origin an address with https://")
    _require_at_origin(repository, commit, url, token=token)
    return GitPlace(url, commit, folder, tree)


def fetch_url(origin: str) -> str:
    """How pods reach an origin: https, and nothing of anybody's login.

    Raises:
        UserError: it is a directory of this machine, or none.
    """
    if origin.startswith(("https://", "http://")):
        return without_credentials(origin)
    match = _SSH.fullmatch(origin) if origin.startswith("ssh://") or "@" in origin.partition("/")[0] else None
    if match is None:
        what = f"pods cannot fetch from origin {origin!r}" if origin else "the repository has no origin"
        raise UserError(what, remedy="push to a server that pods reach over https")
    return f"https://{match['host']}/{match['path']}"


def _require_at_origin(repository: Repository, commit: str, url: str, *, token: bool) -> None:
    tips = _tips(repository, url, anonymous=True)
    if tips is None and token:
        tips = _tips(repository, "origin", anonymous=False)
    if tips is None:
        why = "does not answer" if token else "does not let everybody read"
        raise UserError(f"{url} {why}", remedy=f"name the secret that holds a token for it: secret_vars.{TOKEN}")
    if not any(tip == commit or _has(repository, commit, tip) for tip in tips):
        raise UserError(f"{url} does not have commit {commit[:12]}", remedy="git push")


def _tips(repository: Repository, remote: str, *, anonymous: bool) -> list[str] | None:
    """The commits that branches and tags point to; None where they are not told."""
    login = ("-c", "credential.helper=", "-c", "http.extraHeader=") if anonymous else ()
    here = repository.with_variables(GIT_ASKPASS="true", SSH_ASKPASS="true", GIT_SSH_COMMAND="ssh -o BatchMode=yes")
    try:
        listing = here.run(*login, "ls-remote", "--heads", "--tags", remote).decode("utf-8", "replace")
    except GitError:
        return None
    return [line.partition("\t")[0] for line in text_lines(listing)]


def _has(repository: Repository, commit: str, tip: str) -> bool:
    """True if a tip that is known here too has the commit among its ancestors."""
    known = repository.ask("cat-file", "-e", f"{tip}^{{commit}}") is not None
    return known and repository.ask("merge-base", "--is-ancestor", commit, tip) is not None


def _folder(package: Package) -> str:
    return parts_of(package.kind, package.options)[0].subpath

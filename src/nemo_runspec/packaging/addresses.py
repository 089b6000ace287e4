"""`git+URL@ref` of `${auto_mount:…}`: which repository, which commit of it, and where on this machine it will be."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nemo_runspec.digests import short_digest
from nemo_runspec.errors import UserError
from nemo_runspec.packaging.git import without_credentials
from nemo_runspec.plans.model import AutoMount

_FORM = "${auto_mount:git+https://host/team/repository.git@ref,/where/the/job/sees/it}"
_WITH_SCHEME = re.compile(r"(?P<scheme>[a-z]+)://(?P<host>[^/]*)(?P<path>/.*)", re.DOTALL)
_SCP_LIKE = re.compile(r"(?P<host>(?:[\w.-]+@)?[\w.-]+):(?P<path>[^/].*|/.*)", re.DOTALL)
_SCHEMES = ("https", "http", "ssh", "git", "file")
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


class MountRequests:
    """The resolver of one plan. It asks no network; what it was asked for is in `found`, what was wrong in `problem`.

    `written` has the text of every `${auto_mount:…}`, for messages.

    Args:
        job: the job's name, a part of every path, so that no job changes another's files.
        git_dir: called for the folder of all clones when one is needed.
        sent_to: where what is mounted will lie on another machine, below a job's directory; None for this machine.
    """

    def __init__(self, job: str, git_dir: Callable[[], Path], sent_to: str | None = None) -> None:
        self.job = job
        self.git_dir = git_dir
        self.sent_to = sent_to
        self.found: dict[tuple[str, str], AutoMount] = {}
        self.problem: UserError | None = None
        self.written: list[str] = []

    def __call__(self, *words: object) -> str:
        """`git+URL@ref` and a target → `path:target`, as a mount is written."""
        text = ",".join(map(str, words))
        self.written.append(f"${{auto_mount:{without_credentials(text)}}}")
        try:
            mount, written = read_auto_mount(text, self.job, self.git_dir)
        except UserError as error:
            self.problem = self.problem or error
            return "/:/"
        if self.sent_to is not None:
            name = f"mounts/{mirror_folder(mount).name}-{Path(mount.path).name}"
            mount = replace(mount, there=name)
        self.found[mount.path, mount.target] = mount
        return f"{mount.path if self.sent_to is None else f'{self.sent_to}/{mount.there}'}:{written}"

    def problem_on(self, executor: str, *, possible: bool) -> UserError | None:
        """What is wrong with what the plan asked for. `possible`: whether the executor mounts repositories at all."""
        if self.problem is not None or possible or not self.written:
            return self.problem
        return UserError(
            f"{self.written[0]}: executor '{executor}' cannot mount a repository",
            remedy="have the job clone it: pre_launch_commands = ['git clone …']; or send your own: packager",
        )


def read_auto_mount(text: str, job: str, git_dir: Callable[[], Path]) -> tuple[AutoMount, str]:
    """`git+URL@ref,target` as a mount, and the target as it was written, such as with `:ro`.

    Raises:
        UserError: not of that form; or an address with a user's token or password, which no plan may hold.
    """
    address, comma, written = text.strip().rpartition(",")
    written = written.strip()
    if not comma or not address.startswith("git+") or not written.startswith("/"):
        raise UserError(f"auto_mount: not git+URL@ref,/target: {_shown(text)}", remedy=f"write {_FORM}")
    url, ref = _split(address.strip().removeprefix("git+"))
    folder = git_dir() / f"{_slug(url.rstrip('/').removesuffix('.git').rpartition('/')[2])}-{short_digest(url)}"
    name = ref if _slug(ref) == ref else f"{_slug(ref)}-{short_digest(ref)}"
    path = folder / "jobs" / job / name
    return AutoMount(url, ref, str(path), written.partition(":")[0]), written


def mirror_folder(mount: AutoMount) -> Path:
    """The folder of everything cloned from a mount's address; its path is `<folder>/jobs/<job>/<ref>`."""
    return Path(mount.path).parents[2]


def _split(address: str) -> tuple[str, str]:
    """URL and ref. The ref begins after the last `@` of the path, so neither user names nor `feature/x` mislead."""
    found = _WITH_SCHEME.fullmatch(address) or _SCP_LIKE.fullmatch(address)
    place, path = (found["host"], found["path"]) if found else ("", address)
    repository, at, ref = path.rpartition("@")
    scheme = found.groupdict().get("scheme") if found else None
    known = scheme in _SCHEMES if scheme else "::" not in address and (bool(found) or address.startswith("/"))
    if not known or not at or not repository.strip("/") or not ref or ref.startswith("-") or place.startswith("-"):
        raise UserError(f"auto_mount: not a git+URL@ref: {_shown(address)}", remedy=f"write {_FORM}")
    user = place.rpartition("@")[0]
    if ":" in user or (user and scheme in ("http", "https")):
        raise UserError(
            f"auto_mount: the address {_shown(address)} holds a token or a password",
            remedy="leave it out: git asks its credential helper (git config --global credential.helper), or use ssh",
        )
    return address[: len(address) - len(ref) - 1], ref


def _shown(text: str) -> str:
    return repr(without_credentials(text))


def _slug(text: str) -> str:
    return _PLAIN.sub("-", text).strip("-.") or "repository"

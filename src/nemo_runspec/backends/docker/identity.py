"""Who a container's processes are: by default the caller, so that outputs are the caller's own."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass

from nemo_runspec import paths
from nemo_runspec.errors import UserError

_NUMBERS = re.compile(r"(?P<uid>\d+)(:\d+)?")
_ROOT = re.compile(r"(root|0)(:.*)?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?")


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as Docker takes it; `login` and `home` are set for one that the image need not know."""

    user: str
    login: str = ""
    home: str = ""


def identity(wanted: str | None, problems: list[UserError]) -> Identity:
    """The container's user.

    Args:
        wanted: what the profile says: root, `uid[:gid]`, a name of the image; None for the caller.
        problems: what is wrong is added here.
    """
    uid = os.getuid()
    user = wanted or f"{uid}:{os.getgid()}"
    if not _USER.fullmatch(user):
        problems.append(
            UserError(
                f"user: {user!r} is no user", remedy='write "root", "uid:gid" or a name of the image\'s', key="user"
            )
        )
    numbers = _NUMBERS.fullmatch(user)
    if numbers is None or is_root(user):
        return Identity(user)
    if uid not in (0, int(numbers["uid"])):
        problems.append(
            UserError(
                f"user: {user} is not you ({uid}), and could not read your job's files",
                remedy='leave it out, or write "root"',
                key="user",
            )
        )
    return Identity(user, _login(int(numbers["uid"])), str(paths.run_dir() / "home"))


def is_root(user: str) -> bool:
    """True for the container's root, however it is written; an empty user is the image's own choice."""
    return _ROOT.fullmatch(user) is not None


def _login(uid: int) -> str:
    """The user's name on this machine, else one made of the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user{uid}"

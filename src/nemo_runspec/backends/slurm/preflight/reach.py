"""Whether the login node is reached: its address, its host key, our right to log in, each by itself."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_runspec.doctor.check import Check, of_error, ok, skipped
from nemo_runspec.errors import Code, UserError
from nemo_runspec.transport.base import Host

_STEPS = ("host", "host key", "login")
_FAILED = {Code.HOST_KEY: "host key", Code.LOGIN: "login"}
"""What kind of error it is, and the step that failed; any other never got as far as the host."""


def reached(host: Host, *, ssh: bool) -> Iterator[Check]:
    """What is known once a command has run there."""
    if not ssh:
        yield ok("host", "this machine, as no tunnel is named")
        return
    yield ok("host", f"{host.name} answers")
    # It may be a connection that is open since before: known_hosts may say something else by now.
    yield ok("host key", "accepted when the connection was made")
    yield ok("login", "accepted")


def not_reached(error: UserError) -> Iterator[Check]:
    """What is known of the steps before and after the one that failed."""
    at = _STEPS.index(_FAILED.get(error.code, "host"))
    yield from (ok(step, "answers" if step == "host" else "known") for step in _STEPS[:at])
    yield of_error(_STEPS[at], error)
    yield from (skipped(step, f"not checked: {_STEPS[at]} failed") for step in _STEPS[at + 1 :])

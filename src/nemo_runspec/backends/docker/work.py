"""A job's container while it runs, as its supervisor sees it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nemo_runspec.backends.docker.container import has_ended, inspect, send, take_away
from nemo_runspec.backends.docker.engine import engine_host
from nemo_runspec.backends.docker.stream import Output
from nemo_runspec.errors import UserError
from nemo_runspec.jobs.record import Launcher
from nemo_runspec.script import JobLayout
from nemo_runspec.script.markers import NodeMarker, decisive, read_markers

KILLED = 137
"""The exit status of a process that was killed, as shells write it: 128 + 9."""

_SECONDS_BETWEEN_LOOKS = 1.0
_LOOKS = 3
"""Looks, one after the other, that must not find a container before it is believed to be gone."""

_SECONDS_OF_DOUBT = 60.0
"""How long an engine may be away, as while it is restarted, or deny a container whose output goes on."""

_SECONDS_TO_ANSWER = 10.0
_SECONDS_TO_REMOVE = 120.0


class EngineLost(UserError):
    """The engine went away while a job ran: what became of the job cannot be known from here."""

    exit_code = 1
    state = "lost"


class ContainerWork:
    """One started container.

    Args:
        client: docker-py's `APIClient`, ours to close. `known`: what the engine says of the container.
        output: attached before it was started. `folder`: the job's directory on this machine.
    """

    process: Launcher | None = None

    def __init__(self, client: Any, known: Mapping[str, Any], output: Output, folder: Path) -> None:
        self.container: str | None = known["Id"]
        self._client = client
        self._client.timeout = _SECONDS_TO_ANSWER
        self._known = dict(known)
        self._output = output
        self._layout = JobLayout(str(folder))
        self._status: int | None = None
        self._missed = 0
        self._missed_since: float | None = None
        self._looked = 0.0
        self._away_since: float | None = None
        self._closed = False

    def fileno(self) -> int:
        """The connection that the output comes through."""
        return self._output.fileno()

    def read(self) -> bytes | None:
        """Output that is there now; empty at its end."""
        return self._output.read()

    def poll(self) -> int | None:
        """The exit status once it has ended; asked of the engine once a second, and when the output has ended.

        Raises:
            EngineLost: the engine is gone, and the job left no exit marker.
        """
        now = time.monotonic()
        due = (self._output.ended and not self._missed) or now - self._looked >= _SECONDS_BETWEEN_LOOKS
        if self._status is None and due:
            self._looked = now
            self._status = self._look(now)
        return self._status

    def terminate(self) -> None:
        """TERM to the job script, through the container's first process."""
        send(self._client, self._known["Id"], "TERM")

    def kill(self) -> None:
        """KILL to the container's first process, with which all others end."""
        send(self._client, self._known["Id"], "KILL")

    def end_leftovers(self, grace: float) -> int:
        """None: all processes of a container end with its first one."""
        return 0

    def cause(self, status: int) -> str:
        """What the engine knows beyond the exit status: out of memory, removed, never begun."""
        if status == 0:
            return ""
        if self._missed:
            return "the container was removed by somebody else"
        if self._away_since is not None:
            return f"the Docker engine was stopped; the job script ended with exit code {status}"
        return cause_of(self._known, status, self._marker(), begun=has_begun(self._layout))

    def close(self) -> str:
        """Removes the container, and all that was made for it; says what could not be."""
        if self._closed:
            return ""
        self._closed = True
        self._output.close()
        self._client.timeout = _SECONDS_TO_REMOVE
        left = take_away(self._client, self._known, Path(self._layout.root))
        with suppress(OSError):
            Path(self._layout.secrets).unlink(missing_ok=True)
        self._client.close()
        return left

    def _look(self, now: float) -> int | None:
        from docker.errors import DockerException

        try:
            known = inspect(self._client, self._known["Id"])
        except (DockerException, OSError):
            return self._without_engine(now)
        self._away_since = None
        if known is None:
            return self._without_container(now)
        self._known, self._missed, self._missed_since = known, 0, None
        return int(known["State"]["ExitCode"]) if has_ended(known) else None

    def _without_container(self, now: float) -> int | None:
        """The exit status of one that was removed; None for some time. One whose output goes on is hardly gone."""
        self._missed += 1
        self._missed_since = now if self._missed_since is None else self._missed_since
        sure = self._output.ended or now - self._missed_since >= _SECONDS_OF_DOUBT
        return KILLED if sure and self._missed >= _LOOKS else None

    def _without_engine(self, now: float) -> int | None:
        """The exit status the job script itself left, if it did; None for some time."""
        self._away_since = now if self._away_since is None else self._away_since
        marker = self._marker()
        if marker is not None:
            return marker.exit_code
        if now - self._away_since < _SECONDS_OF_DOUBT:
            return None
        raise EngineLost(
            "the Docker engine was stopped while the job ran, and the job left no exit marker",
            where=engine_host(),
            remedy="start the engine again; nemotron jobs show says what it then knows",
        )

    def _marker(self) -> NodeMarker | None:
        return decisive(read_markers(Path(self._layout.status)))


def has_begun(layout: JobLayout) -> bool:
    """True once the job script has run its first lines."""
    return any(Path(layout.status).glob("gates-*"))


def cause_of(known: Mapping[str, Any], status: int, marker: NodeMarker | None, *, begun: bool) -> str:
    """Why a container ended with this status, where the engine knows more than the exit marker; else ''.

    Args:
        known: what the engine says of it, after its end.
    """
    state = known["State"]
    if state.get("OOMKilled") and not (marker and marker.oom):
        limit = known["HostConfig"].get("Memory")
        return "the kernel killed a process of the container: out of memory" + (
            f" (its limit is {limit / 2**20:,.0f} MiB)" if limit else ""
        )
    if begun:
        return ""
    return (
        f"the job script did not begin (exit code {status}){_said(state)}: the image needs bash and coreutils, and its "
        "user must be able to read the job's files"
    )


def _said(state: Mapping[str, Any]) -> str:
    return f", the engine says: {state['Error']}" if state.get("Error") else ""

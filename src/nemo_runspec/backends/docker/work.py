"""A job's container while it runs, as its supervisor sees it."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nemo_runspec.backends.docker.container import has_ended, inspect, remove_container, send
from nemo_runspec.backends.docker.engine import engine_host
from nemo_runspec.backends.docker.log_tail import try_complete_log
from nemo_runspec.backends.docker.stream import Output
from nemo_runspec.backends.worker import OutOfReach
from nemo_runspec.errors import UserError
from nemo_runspec.records.absence import BELIEVED, counted, is_believed
from nemo_runspec.records.lifecycle import Absence, Launcher
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import NodeMarker, deciding_marker, read_markers, signal_name

KILLED = 137
"""The exit status of a process that was killed, as shells write it: 128 + 9."""

_TOLD = (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
"""What may end a container in the milliseconds before its shell keeps it for the job."""

_SECONDS_BETWEEN_LOOKS = 1.0
_LOOKS = 3
"""Looks, one after the other, that must not find a container before it is believed to be gone: of an engine that was
there all the time. One that comes back may be another one, or still load what it had: as of any platform then."""

_SECONDS_WITHOUT_ENGINE = 15.0
"""How long an engine may be away, as while it is restarted, before it is said that nobody knows how the job is."""

_SECONDS_TO_END = 2.0
"""How long after the end of its output a container ends; one that goes on has lost the engine that listened to it."""

_SECONDS_OF_DOUBT = 60.0
"""How long an engine that was there all the time may deny a container whose output goes on."""

_SECONDS_TO_ANSWER = 10.0
_SECONDS_TO_REMOVE = 120.0


class ContainerLost(UserError):
    """The engine was away while a job ran, and does not have it any more: what became of the job nobody knows."""

    exit_code = 1
    state = "lost"


class ContainerWork:
    """One started container.

    Args:
        client: docker-py's `APIClient`, ours to close.
        known: what the engine says of the container.
        output: attached before it was started.
        folder: the job's directory on this machine.
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
        self._absent: Absence | None = None
        self._away_since: float | None = None
        self._was_away = self._is_cut = False
        self._ended_at: float | None = None
        self._left_alone = self._closed = False
        self.doubt = ""

    def fileno(self) -> int:
        """The connection that the output comes through."""
        return self._output.fileno()

    def read(self) -> bytes | None:
        """Output that is there now; empty at its end."""
        return self._output.read()

    def poll(self) -> int | None:
        """The exit status once it has ended; asked of the engine once a second, and when the output has ended.

        An engine that is away is waited for: the job is in `doubt` meanwhile.

        Raises:
            ContainerLost: the engine that came back does not have it, and the job left no exit marker.
        """
        now = time.monotonic()
        if self._output.ended and self._ended_at is None:
            self._ended_at = now
        due = self._is_ending(now) or now - self._looked >= _SECONDS_BETWEEN_LOOKS
        if self._status is None and due:
            self._looked = now
            self._status = self._look(now)
        return self._status

    def terminate(self) -> None:
        """TERM to the job script, through the container's first process."""
        send(self._client, self._known["Id"], "TERM")

    def kill(self) -> None:
        """KILL to the container's first process, with which all others end.

        Raises:
            OutOfReach: the engine does not answer. The container is left as it is.
        """
        if self._away_since is not None and self.doubt:
            self._left_alone = True
            raise OutOfReach(f"the job was not ended: {self.doubt}", remedy="once it does: nemotron jobs cancel")
        send(self._client, self._known["Id"], "KILL")

    def end_leftovers(self, grace: float) -> int:
        """Does nothing: all processes of a container end with its first one."""
        return 0

    def cause(self, status: int) -> str:
        """What the engine knows beyond the exit status: out of memory, removed, never begun."""
        if status == 0:
            return ""
        if self._missed and not self._was_away:
            return "the container was removed by somebody else"
        if self._away_since is not None:
            return f"the Docker engine was stopped; the job script ended with exit code {status}"
        if self._was_away and self._marker() is None and has_begun(self._layout):
            return f"the container ended with exit code {status} as the Docker engine was stopped or restarted"
        return cause_of(self._known, status, self._marker(), begun=has_begun(self._layout))

    def close(self) -> str:
        """Removes the container, and all that was made for it; says what could not be."""
        if self._closed:
            return ""
        self._closed = True
        self._output.close()
        self._client.timeout = _SECONDS_TO_REMOVE
        left = "" if self._left_alone else self._taken_away()
        with suppress(OSError):
            Path(self._layout.secrets).unlink(missing_ok=True)
        self._client.close()
        return left

    def _taken_away(self) -> str:
        folder = Path(self._layout.root)
        problems = [try_complete_log(self._client, self._known["Id"], folder) if self._is_cut else ""]
        return "; ".join(filter(None, [*problems, remove_container(self._client, self._known, folder)]))

    def _is_ending(self, now: float) -> bool:
        """True if its output has just ended: its own end is near."""
        return self._ended_at is not None and not self._missed and now - self._ended_at < _SECONDS_TO_END

    def _look(self, now: float) -> int | None:
        from docker.errors import DockerException

        try:
            known = inspect(self._client, self._known["Id"])
        except (DockerException, OSError):
            return self._without_engine(now)
        self._away_since, self.doubt = None, ""
        if known is None:
            return self._without_container(now)
        self._known, self._missed, self._missed_since, self._absent = known, 0, None, None
        if has_ended(known):
            return int(known["State"]["ExitCode"])
        self._is_cut = self._is_cut or (self._ended_at is not None and not self._is_ending(now))
        return None

    def _without_container(self, now: float) -> int | None:
        """The exit status of one that was removed; None for some time. One whose output goes on is hardly gone."""
        self._missed += 1
        self._missed_since = now if self._missed_since is None else self._missed_since
        if not self._was_away:
            sure = self._output.ended or now - self._missed_since >= _SECONDS_OF_DOUBT
            return KILLED if sure and self._missed >= _LOOKS else None
        marker = self._marker()
        if marker is not None:
            return marker.exit_code
        self._absent = counted(self._absent, now, stop=False)
        why = "the Docker engine was away, and does not have the job's container any more"
        if is_believed(self._absent):
            raise ContainerLost(f"{why}; the job left no exit marker", where=engine_host())
        self.doubt = f"{why}; {BELIEVED}"
        return None

    def _without_engine(self, now: float) -> int | None:
        """The exit status the job script itself left, if it did."""
        self._away_since = now if self._away_since is None else self._away_since
        self._was_away = self._is_cut = True
        marker = self._marker()
        if marker is not None:
            return marker.exit_code
        if now - self._away_since >= _SECONDS_WITHOUT_ENGINE:
            self.doubt = f"the Docker engine at {engine_host()} does not answer"
        return None

    def _marker(self) -> NodeMarker | None:
        return deciding_marker(read_markers(Path(self._layout.status)))


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
    if status - 128 in _TOLD:
        return f"signal {signal_name(status - 128)} ended the container before the job script began"
    return (
        f"the job script did not begin (exit code {status}){_said(state)}: the image needs bash and coreutils, and its "
        "user must be able to read the job's files"
    )


def _said(state: Mapping[str, Any]) -> str:
    return f", the engine says: {state['Error']}" if state.get("Error") else ""

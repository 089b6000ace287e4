"""The interface of a backend whose jobs run on this machine: a job is made ready, started, found again and ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.records.lifecycle import Launcher
from nemo_runspec.records.record import JobRecord
from nemo_runspec.script.enter import ShellRequest


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What was found of a job whose supervisor is gone.

    Args:
        state: a name of `records.record.STATES`, such as `running`, `failed`, `lost`.
        exit_code: where it has ended and that is known.
        reason: in words.
        absent: it is `lost` as something that can be wrong, an engine, says that it does not have it.
    """

    state: str
    reason: str = ""
    exit_code: int | None = None
    absent: bool = False


class OutOfReach(UserError):
    """What watches over a job cannot reach it any more, and was told to end it: how the job is stays unknown."""

    exit_code = 1


class Work(Protocol):
    """One started job, as its supervisor sees it.

    Attributes:
        process: the job script's own process, where it is one of this machine.
        container: the container's id, where the job runs in one.
        doubt: why it is not known now how the job is, as where an engine does not answer; '' where it is.
    """

    process: Launcher | None
    container: str | None
    doubt: str

    def fileno(self) -> int:
        """What to wait on for output."""

    def read(self) -> bytes | None:
        """Output that is there now; empty when there will be no more, None when there is none at the moment."""

    def poll(self) -> int | None:
        """The exit status once it has ended, negative after a signal as in `subprocess`; None while it runs."""

    def terminate(self) -> None:
        """Asks it to stop: TERM to the job script, which passes it on. May be called again, and after its end."""

    def kill(self) -> None:
        """Ends all of it now. May be called again, and after its end.

        Raises:
            OutOfReach: it cannot be known whether that comes to pass; the job may go on.
        """

    def end_leftovers(self, grace: float) -> int:
        """After the job script has ended: ends what it left running; how many processes these were."""

    def cause(self, status: int) -> str:
        """Why it ended so, where more is known than the exit status and the marker (out of memory, removed); or ''."""

    def close(self) -> str:
        """Gives everything back: nothing of the job is left on this machine, whatever happened before.

        Its log is as complete as it can be then: output that could not be read as it came is added to it.

        Returns: what could not be given back, in words; '' where all was.
        """


class Worker(Protocol):
    """The backend's part, one object without state."""

    def check(self, plan: Plan) -> None:
        """What must be so before anything is recorded or written. Raises `UserError`."""

    def prepare(self, plan: Plan, say: Say) -> Any:
        """What takes long before the start: an environment, an image. May be interrupted by an exception at any point.

        Returns: what `start` gets. Raises `UserError`.
        """

    def start(self, plan: Plan, prepared: Any, secrets: Mapping[str, str]) -> Work:
        """Starts the job script, which lies in the job directory with all it needs. Raises `UserError`."""

    def status(self, record: JobRecord, folder: Path) -> WorkerStatus:
        """What has become of a job whose supervisor is gone. `folder`: the job's own. Changes nothing."""

    def end(self, record: JobRecord, folder: Path, grace: float) -> str:
        """Ends what is left of a job whose supervisor is gone: TERM, `grace` seconds, KILL; nothing stays behind.

        Returns: what could not be given back, in words; '' where all was. Raises `UserError`: it could not be ended.
        """

    def settle(self, record: JobRecord, folder: Path) -> bool:
        """Before the end of a job whose supervisor is gone is written down: completes its log.

        It may be called several times, by several processes at once, and be killed at any point.

        Returns: False while something of the job still runs; nothing is written down then, and this is asked again.

        Raises:
            UserError: the log cannot be completed; the end is written down all the same.
        """

    def clear(self, record: JobRecord, folder: Path) -> None:
        """Removes what is left of a job that is over, its folder excepted. May be called again.

        Raises:
            UserError: something of it still runs, which is left as it is; or it cannot be removed.
        """

    def address(self, record: JobRecord, folder: Path) -> str:
        """Where a running job listens, as this machine reaches it, such as 127.0.0.1. Raises `UserError`: nowhere."""


class InputWorker(ABC):
    """The base class of a worker whose jobs may be given something to read."""

    @abstractmethod
    def start(self, plan: Plan, prepared: Any, secrets: Mapping[str, str], *, stdin: int | None = None) -> Work:
        """As `Worker.start`. `stdin`: the file that the job's command reads; None for nothing."""


class ShellWorker(ABC):
    """The base class of a worker that lets a person into a running job."""

    @abstractmethod
    def shell(self, record: JobRecord, folder: Path, entry: ShellRequest) -> Sequence[str]:
        """The command that runs `entry.words` beside the job's command; its exit code is theirs."""

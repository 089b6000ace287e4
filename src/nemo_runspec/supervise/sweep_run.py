"""One run of a sweep: several of them go on in threads of one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.interrupts import Interrupts
from nemo_runspec.planning.planned import Planned
from nemo_runspec.records import JobRecord
from nemo_runspec.submission.request import RetriedJob
from nemo_runspec.supervise.job import SupervisedJob


def run_member(
    planned: Planned,
    *,
    argv: Sequence[str],
    group: str,
    interrupts: Interrupts,
    say: Say,
    retried: RetriedJob | None = None,
) -> JobRecord:
    """Runs one plan of a sweep to its end, in the calling thread; its output goes to its own log only.

    Args:
        group: the sweep's name.
        interrupts: entered in the main thread; a signal that came ends this job too.
        retried: the job that is run once more.

    Returns: the record of the ended job; `failed` too where it could not be made ready or started.

    Raises:
        UserError: the job could not even be recorded.
    """
    job = SupervisedJob(planned.submission(argv, group=group, retried=retried), say, attached=False)
    job.record_job()
    with suppress(UserError):  # its record says the same
        job.run_to_its_end(_InThread(interrupts))
    return job.record


class _InThread(Interrupts):
    """The main thread's signals as another thread sees them: never raised in the middle of something."""

    def __init__(self, main: Interrupts) -> None:
        super().__init__()
        self.seen = main.seen

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raises `Interrupted` if a signal has come before; one that comes meanwhile is found by the next check."""
        self.check()
        yield

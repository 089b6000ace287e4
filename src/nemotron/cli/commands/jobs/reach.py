"""The common part of the ways into a running job: `nemotron jobs ssh` and `forward`."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore


def running(store: JobStore, job: str, what: str) -> JobRecord:
    """A job as it is now. Raises `UserError` where it does not run, which `what` needs: `a port`."""
    from nemo_runspec.records.settle import settled
    from nemo_runspec.remote.refresh import is_remote, refresh
    from nemo_runspec.sweeps.overview import find_job

    record = settled(store, find_job(store, job).name)
    if is_remote(record):
        record = refresh(store, [record])[0][0]
    if record.state != "running":
        raise UserError(
            f"job '{record.name}' is {record.state}, and {what} needs a running job",
            remedy=f"nemotron jobs show {record.name}" if record.over else f"nemotron jobs status {record.name}",
        )
    return record


def installed(command: Sequence[str]) -> list[str]:
    """The command. Raises `UserError` where its program is not on this machine."""
    if shutil.which(command[0]) is None:
        said = shlex.join(command)
        raise UserError(
            f"there is no {command[0]} on this machine",
            remedy=f"install it; it runs {said if len(said) < 400 else said[:200] + ' …'}",
        )
    return list(command)

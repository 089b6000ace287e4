"""A process without a terminal that waits for jobs elsewhere whose profile wants a command run at their end (`on_end`).

Where nobody stays with a job, nobody would learn that it has ended. If this process is gone, the next command that asks
about the job does it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from nemo_runspec.errors import UserError
from nemo_runspec.polling import Backoff
from nemo_runspec.records import JobRecord, JobStore

_PAUSES = (5.0, 60.0)
"""Seconds between two looks, at first and at last."""

_BOOT = "import sys; sys.path[:] = {path!r}; from nemo_runspec.remote.awaited_end import wait; wait({names!r})"


def await_ends(records: Iterable[JobRecord]) -> None:
    """Starts the process, where one of the jobs wants that. What cannot be started is nothing to stop a job for."""
    wanted = [record.name for record in records if record.on_end]
    if not wanted:
        return
    log = JobStore().folder(wanted[0]) / "on_end-wait.log"
    program = _BOOT.format(path=json.loads(json.dumps(sys.path)), names=wanted)
    with suppress(OSError), log.open("ab") as out:
        subprocess.Popen(  # it is on its own: nobody waits for it
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def wait(names: Sequence[str]) -> None:
    """Asks until all of the jobs are over, or were removed. Whoever writes down an end runs the command."""
    from setproctitle import setproctitle

    from nemo_runspec.remote.refresh import refresh

    setproctitle(f"nemotron: waits for {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else ""))
    store, pauses, left, told = JobStore(), Backoff(*_PAUSES), list(names), set[str]()

    def trouble(text: str, _: Sequence[JobRecord]) -> None:
        if text not in told:
            print(text, flush=True)
        told.add(text)

    while left := [name for name in left if store.exists(name)]:
        try:
            found = refresh(store, [store.by_name(name) for name in left], trouble=trouble)
            left = [record.name for record, _ in found if not record.over]
        except UserError as error:
            trouble(str(error), ())
        if left:
            pauses.wait()

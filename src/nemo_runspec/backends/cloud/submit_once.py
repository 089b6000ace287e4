"""A job made exactly once, however often a request breaks or a process dies meanwhile.

The job is looked for by its name, and by which attempt it is, before it is made and after every doubt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from nemo_runspec.transport.web import NotKnown

FoundJob = TypeVar("FoundJob")


def submit_once(
    create: Callable[[], FoundJob],
    find: Callable[[], FoundJob | None],
    *,
    before: Sequence[float],
    after: Sequence[Sequence[float]],
    say: Callable[[NotKnown], object],
    sent: bool = False,
    check: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[FoundJob, bool]:
    """Makes the job, unless it is there. The job, and whether another one may turn up.

    Args:
        create: makes it with one request.
        find: the job that is there, else None.
        before: seconds before each look that comes before the first request; none where a name is taken once only.
        after: for each request, should it break, the seconds before each look that comes after it.
        say: called with why it is not known whether it was made.
        sent: a request may have been made before, by a process that was cut off.
        check: look again once more than one request was made, and take what is found for the job.
        sleep: waits so many seconds.

    Raises:
        NotKnown: it is still not known after the last request. Others as `create` and `find`.
    """
    job, doubt = look(find, before, sleep), False
    for number, pauses in enumerate(after):
        if job is not None:
            break
        doubt = sent or number > 0
        try:
            made = create()
            job = (find() if doubt and check else None) or made
        except NotKnown as trouble:
            say(trouble)
            job = look(find, pauses, sleep)
            if job is None and number == len(after) - 1:
                raise
    assert job is not None
    return job, doubt


def look(
    find: Callable[[], FoundJob | None], pauses: Sequence[float], sleep: Callable[[float], None] = time.sleep
) -> FoundJob | None:
    """The job as soon as it is there, else None.

    Args:
        pauses: seconds before each look.
    """
    for pause in pauses:
        if pause:
            sleep(pause)
        job = find()
        if job is not None:
            return job
    return None

"""Ends jobs: the command is asked by TERM and has its grace; then Slurm ends what is left.

Seen with Slurm 22.05 and our batch script (KillWait=2, two nodes):

* `scancel ID`: TERM to all tasks and the batch script at once, KILL after the site's KillWait (30 s by default); ends
  as CANCELLED. A command that needs longer than KillWait to save loses its work.
* `scancel --batch --signal=TERM ID`: TERM to the batch script alone, and no KILL at any time. Our `slurm.py` has every
  node's job script hand it to the command, once; torchrun itself gets none, which would end its ranks after 30 s. The
  command saves, the exit markers are written, and `slurm.py`, which sees `status/cancelled`, lets the job be over.
* `scancel --signal=TERM ID`: TERM to all processes of the tasks, the launcher among them.
* `scancel --signal=TERM --full ID`: the same, with the tasks killed at once and no marker left.

So a running job gets the second of these, and after the grace the first. A waiting one, and one whose job script has
not begun, gets the first at once. Who asked is left in `status/cancelled`, for whoever looks later.
"""

from __future__ import annotations

from collections.abc import Sequence

from nemo_runspec.backends.slurm.cluster import ANOTHER, Answer, run_script, script_of
from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.backends.slurm.cluster.query import UNSETTLED, key_of, questions
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Host

_SECONDS = 25
_PER_JOB = 4


def request_stop(host: Host, jobs: Sequence[SlurmJobRef], by: str, *, hard: bool = False) -> None:
    """TERM to jobs whose command runs; the others of them are ended. One that is over is left. One round trip.

    Args:
        by: who asks, as in "cancelled by Ctrl-C".
        hard: Slurm ends all of them: TERM once more, and KILL after its own KillWait.

    Raises:
        UserError: Slurm does not answer, or refuses. Unreachable: the host does not answer.
    """
    if not jobs:
        return
    script = stopping_script("stop_jobs", by, hard=hard)
    answer = run_script(host, script, data=questions(jobs), timeout=60.0 + _PER_JOB * len(jobs))
    for job in jobs:
        require_stopped(host, f"job {job.id}", job.name, answer, key_of(job.id))


def stopping_script(function: str, by: str, *, hard: bool) -> str:
    """A script that ends what its input names. `hard`: without any grace."""
    at_once = "yes" if hard else ""
    return script_of("cluster/stop.sh", function, seconds=str(_SECONDS), unsettled=UNSETTLED, by=by, hard=at_once)


def require_stopped(host: Host, what: str, name: str, answer: Answer, key: str) -> None:
    """Raises `UserError` where a job was not stopped. `name`: its own in Slurm; `key`: of the answer about it."""
    section = answer[key]
    if not section.code:
        return
    reason = (section.reason if key in answer else answer.said) or "Slurm does not answer"
    another = section.code == ANOTHER
    own = f"squeue --me --states=all --name={name} shows the job itself, where Slurm still has it"
    remedy = own if another else "try again; nothing is done twice"
    raise UserError(f"{what} cannot be cancelled: {reason}", where=host.name, remedy=remedy)

"""A job that is put back into the queue without some nodes.

Seen with Slurm 22.05, as root and as a plain user: ExcNodeList of a running job cannot be changed ("Job is no longer
pending execution"). It can once the job is put back and held, by the very batch script that Slurm is ending then: there
is KillWait (30 s by default) before it is killed, and some 20 ms are needed.
"""

from nemo_runspec.backends.slurm.jobside.fate import is_put_back
from nemo_runspec.jobside.records import remove

MYPY = False
if MYPY:
    from nemo_runspec.backends.slurm.jobside.controller import Controller
    from nemo_runspec.backends.slurm.jobside.job import BatchJob

HELD = "held"
"""The record that says which, should this process be killed before it is through."""


def requeue_without(job: "BatchJob", controller: "Controller", nodes: str) -> bool:
    """Puts the job back, without these nodes (comma-separated); whether that could be done."""
    held = job.status.file(HELD)
    if not job.status.note(HELD, nodes + "\n"):
        return False
    is_held = controller.insist(
        "scontrol", "requeuehold", job.id, unless=lambda: is_put_back(job, controller.look(job.id))
    )
    if not is_held:
        remove(held)
        return False
    controller.insist("scontrol", "update", "JobId=" + job.id, "ExcNodeList=" + nodes)
    done = controller.insist("scontrol", "release", job.id)
    if done:
        remove(held)
    return done

"""One task of an array whose tasks are jobs of their own: its directory, its script and its log are its own too.

The batch script is the same for all; what of its srun names the array's directory is made to name the task's.
"""

import os
import re

from nemo_runspec.jobside.records import Folder

MYPY = False
if MYPY:
    from typing import List, Sequence

    from nemo_runspec.backends.slurm.jobside.controller import Controller
    from nemo_runspec.backends.slurm.jobside.job import BatchJob

_NUMBER = re.compile(r"[0-9]+(;[^ ]+)?$")


def own_words(job: "BatchJob", words: "Sequence[str]") -> "List[str]":
    """The words of a step of the array, for this task of it."""
    root = words[-1][: -len("/" + job.script)]
    renamed = {root + "/code", root + "/" + job.script}
    log = "%s/log-%s_%s_%d.out" % (job.root, job.name, job.id, job.restarts)
    found = []
    for word in words:
        if word in renamed:
            found.append("%s/members/%s%s" % (root, job.task, word[len(root) :]))
        else:
            found.append(log if word.startswith("%s/log-%s_" % (job.array_root, job.name)) else word)
    return found


def end_others(job: "BatchJob", controller: "Controller") -> None:
    """Ends the tasks that are left."""
    said = controller.ask("--array", "--jobs=" + job.array, "--format=%K")
    tasks = [word for word in said.split("\n") if word.isdigit() and word != job.task]
    for task in tasks:
        status = Folder("%s/members/%s/status" % (job.array_root, task))
        try:
            status.make()
        except OSError:
            continue
        status.note("cancelled", "the sweep, as task %s of its array has failed\n" % job.task)
    if tasks:
        controller.insist("scancel", "%s_[%s]" % (job.array, ",".join(tasks)))


def link(job: "BatchJob") -> None:
    """For whoever looks in the task's own directory; and the array's number, for whoever looks for it by name."""
    name = "sbatch_%s_%s.out" % (job.name, job.id)
    draft = "%s/.%s" % (job.root, name)
    try:
        if os.path.lexists(draft):
            os.unlink(draft)
        os.symlink("../../" + name, draft)
        os.replace(draft, "%s/%s" % (job.root, name))
    except OSError:
        pass  # nothing but a way to it
    folder = Folder(job.array_root)
    if not any(_NUMBER.match(line) for line in folder.text(".slurm_id").splitlines()):
        folder.note(".slurm_id", job.array + "\n")


def is_last_well(job: "BatchJob") -> bool:
    """Whether this task is the one that registers what an array of the user's own has made: the last that ended well.

    Its tasks share a directory and make one version together, once all of them have ended well.
    """
    job.status.note("well-" + job.task)
    well = [name for name in job.status.names() if name.startswith("well-") and name[5:].isdigit()]
    if len(well) < int(os.environ.get("SLURM_ARRAY_TASK_COUNT") or 1):
        return False
    try:
        os.mkdir(job.status.file("registering"))  # of two that end at once, one does
    except OSError:
        return False
    return True

"""One attempt of a job, as its batch script sees it: its values, and its task of an array.

The tasks of an array of ours are jobs of their own: each has its directory, its script and its log. The batch script is
the same for all; what of its srun names the array's directory is made to name the task's.

The batch script's supervisor and the process that stands where its srun stands talk in JSON, one word a line.
"""

import os
import re
import socket
import threading
import time
from collections import deque

from nemo_runspec.jobside import processes, values
from nemo_runspec.jobside.records import Folder
from nemo_runspec.lines import text_lines

MYPY = False
if MYPY:
    from typing import Any, Deque, Dict, List, Optional, Sequence

    from nemo_runspec.backends.slurm.jobside.attempt_end import Controller

    Message = Dict[str, Any]


class BatchJob:
    """A job's settings, and what Slurm tells of this attempt in the environment.

    Args:
        text: JSON of the settings, see `render.py: batch_values`.
        root: the job's directory, as the batch script sees
            it; of a task of an array whose tasks are jobs of their own, the array's.
    """

    def __init__(self, text: str, root: str) -> None:
        given: "Dict[str, Any]" = values.read(text)
        self.name = str(given["name"])
        self.script = str(given["script"])
        self.retries = int(given.get("retries", 0))
        self.resume = bool(given.get("resume"))
        self.max_restarts = int(given.get("max_restarts", 0))
        self.signal = str(given.get("signal", ""))
        self.lead = int(given.get("lead", 0))
        self.health_seconds = int(given.get("health_seconds", 0))
        self.members = bool(given.get("members"))
        self.ends_all = bool(given.get("ends_all"))
        self.array_root = root
        self.number = os.environ["SLURM_JOB_ID"]
        self.restarts = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        self.array = os.environ.get("SLURM_ARRAY_JOB_ID", "")
        self.task = os.environ.get("SLURM_ARRAY_TASK_ID", "")
        self.root = "%s/members/%s" % (root, self.task) if self.members else root
        self.began = int(time.time())

    @property
    def id(self) -> str:
        """What Slurm's commands know it by."""
        return "%s_%s" % (self.array, self.task) if self.task else self.number

    @property
    def is_shared(self) -> bool:
        """True if the tasks of an array share the job's directory."""
        return bool(self.task) and not self.members

    @property
    def status(self) -> Folder:
        """The folder of its records."""
        return Folder(self.root + "/status")

    @property
    def barriers(self) -> Folder:
        """The folder in which the tasks of this attempt meet."""
        return Folder("%s/status/gates-%s-%d" % (self.root, self.number, self.restarts))

    @property
    def runs(self) -> int:
        """How often it may run, by its own settings."""
        return 1 + self.retries + (self.max_restarts if self.resume else 0)

    @property
    def cancelled(self) -> "Optional[str]":
        """Who wants it to be over, None where nobody does."""
        return self.status.text("cancelled").split("\n")[0] if self.status.has("cancelled") else None


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
    if not any(_NUMBER.match(line) for line in text_lines(folder.text(".slurm_id"))):
        folder.note(".slurm_id", job.array + "\n")


def is_last_well(job: "BatchJob") -> bool:
    """True if this task is the one that registers what an array of the user's own has made: the last that ended well.

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


STEP_END = 100
"""The number of the step's end, which goes through the user's shell: low ones are the user's own."""


class ControlSocket:
    """The supervisor's end.

    What is heard wakes `signals.wait`.
    """

    def __init__(self) -> None:
        self._heard: "Deque[Message]" = deque()
        self._socket, self.theirs = socket.socketpair()

    def start(self) -> None:
        """Starts to listen. The other end is somebody else's by then."""
        self.theirs.close()
        threading.Thread(target=self._listen, daemon=True).start()

    def heard(self) -> "Optional[Message]":
        """The next message, None for none yet."""
        return self._heard.popleft() if self._heard else None

    def answer(self, message: "Message") -> None:
        """Answers a message."""
        _send(self._socket, message)

    def _listen(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                self._heard.append(values.read(line.decode()))
                processes.wake()


class Line:
    """The step's end."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=STEP_END)
        os.set_inheritable(STEP_END, False)
        self._lines = self._socket.makefile("rb")

    def ask(self, **message: "Any") -> "Message":
        """Sends a message; what is answered, empty where the supervisor has gone."""
        _send(self._socket, message)
        line = self._lines.readline()
        found: "Message" = values.read(line.decode()) if line else {}
        return found


def _send(target: socket.socket, message: "Message") -> None:
    try:
        target.sendall(values.write(message).encode() + b"\n")
    except OSError:
        return  # nobody is there any more

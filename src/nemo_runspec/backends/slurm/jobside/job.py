"""One attempt of a job, as its batch script sees it."""

import os
import time

from nemo_runspec.jobside import values
from nemo_runspec.jobside.records import Folder

MYPY = False
if MYPY:
    from typing import Any, Dict, Optional


class BatchJob:
    """A job's settings, and what Slurm tells of this attempt in the environment.

    Args:
        text: JSON of the settings, see `batch.py: batch_values`. `root`: the job's directory, as the batch script sees
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
        """Whether the tasks of an array share the job's directory."""
        return bool(self.task) and not self.members

    @property
    def status(self) -> Folder:
        """The folder of its records."""
        return Folder(self.root + "/status")

    @property
    def gates(self) -> Folder:
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

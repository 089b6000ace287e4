"""Values that a job's own script hands to the supervisor: the job's as JSON, this node and task as words."""

import os

from nemo_runspec.jobside import values

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Optional, Sequence


class JobTask:
    """One job, as one of its tasks sees it.

    Args:
        text: JSON of the values that are the same for all tasks, see `script/render.py: job_values`.
        words: `key=value`: `root`, the job's directory; `hidden`, names of variables that hold secrets; `version`, any
            number of times, what the job makes of an artifact; and what the task finds out of itself
            (`script/node_identity.py`); `early`, the names of the signals that have come already.
    """

    def __init__(self, text: str, words: "Sequence[str]") -> None:
        given: "Dict[str, Any]" = values.read(text)
        pairs = [word.partition("=") for word in words]
        found = {key: value for key, _, value in pairs}
        self.name = str(given["name"])
        self.root = found["root"]
        self.launch = str(given.get("launch", "direct"))
        self.ranks = int(given.get("ranks", 1))
        self.world = str(given.get("world", "processes"))
        self.gpus_per_node = int(given.get("gpus_per_node", 0))
        self.flags = frozenset(given.get("flags", ()))
        self.hidden = found.get("hidden", "").split()
        self.settings: "Dict[str, str]" = dict(given.get("settings", {}))
        self.versions = [value for key, _, value in pairs if key == "version"]
        self.inputs: "Dict[str, str]" = dict(given.get("inputs", {}))
        self.named: "Dict[str, str]" = dict(given.get("named", {}))
        self.checks: "List[Dict[str, Any]]" = list(given.get("checks", ()))
        self.ray: "Dict[str, Any]" = dict(given.get("ray", {}))
        self.stall: "Dict[str, Any]" = dict(given.get("stall", {}))
        self.node = int(found.get("node", "0"))
        self.nodes = int(found.get("nodes", given.get("nodes", 1)))
        self.task = int(found.get("task", self.node))
        self.tasks = int(found.get("tasks", self.nodes))
        self.local = int(found.get("local", "0"))
        self.attempt = found.get("attempt", "0")
        self.restarts = int(found.get("restarts", "0"))
        self.master = found.get("master", "")
        self.port = found.get("port", "")
        self.log = found.get("log", "")
        self.early = found.get("early", "").split()

    def has(self, flag: str) -> bool:
        """True if a flag of its node identity is set: `requeues`, `signals_all`, `ends_all`, `pods`, `secrets_file`,
        `here`. And `wandb`: it has a run on W&B; `head_only`: node 0 alone has the command.
        """
        return flag in self.flags

    def setting(self, name: str, default: str = "") -> str:
        """A variable that tells this side of the job something: the job's own, else that of the environment here."""
        return self.settings.get(name) or os.environ.get(name) or default

    def seconds(self, name: str, default: int) -> int:
        """Such a variable as a number of seconds."""
        text = self.setting(name)
        return int(text) if text.isdigit() else default

    @property
    def source(self) -> "Optional[int]":
        """What its command reads: our own input, where that was given to us for it; None for nothing."""
        return 0 if self.has("here") else None

    @property
    def status(self) -> str:
        """The folder of its records."""
        return self.root + "/status"

    @property
    def barriers(self) -> str:
        """The folder in which the tasks of this attempt meet."""
        return "%s/gates-%s" % (self.status, self.attempt)

    @property
    def secrets(self) -> str:
        """The file of its secrets."""
        return self.root + "/secrets.env"

    @property
    def metrics(self) -> str:
        """The file of its metrics."""
        return self.root + "/metrics.jsonl"

    @property
    def marker(self) -> str:
        """The name of this task's record."""
        return "node-%d" % self.node if self.local == 0 else "node-%d.%d" % (self.node, self.local)

    @property
    def has_ranks(self) -> bool:
        """True if the job has more than one rank in all, so that it matters which one is meant."""
        return not self.nodes == self.tasks == self.ranks == 1

    def tag(self, rank: int) -> str:
        """What comes before the lines of a rank: its number, where there are others."""
        return "[rank%d] " % rank if self.has_ranks else ""

    @property
    def first_rank(self) -> int:
        """The number of this task's first rank."""
        if self.launch == "torchrun":
            return self.node * self.ranks
        return self.task if self.tasks > 1 else 0

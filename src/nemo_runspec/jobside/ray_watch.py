"""Who is in a Ray cluster, asked of its head: who has joined, who is lost."""

import os
import time

from nemo_runspec.jobside import signals
from nemo_runspec.jobside.ray_node import name_of
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Optional

    from nemo_runspec.jobside.job import JobTask
    from nemo_runspec.jobside.ray_node import RayNode
    from nemo_runspec.jobside.records import Folder

HERE = "ray.here"
_GB = 1 << 30
_IN_BYTES = ("memory", "object_store_memory")


class RayWatch:
    """The nodes of a cluster as node 0 sees them."""

    def __init__(self, job: "JobTask", node: "RayNode", barriers: "Folder") -> None:
        self._job = job
        self._node = node
        self._gates = barriers
        self._known: "set[str]" = set()
        self.lost_node: "Optional[int]" = None

    def missing(self) -> "List[int]":
        """The nodes that have not joined yet."""
        nodes = self._nodes()
        return [n for n in range(self._job.nodes) if not nodes.get(name_of(n), {}).get("alive")]

    def missing_words(self) -> str:
        """The same for a person."""
        found = [self._who(n) for n in self.missing()]
        return "%s did not join Ray's head" % ", ".join(found)

    def summary(self) -> str:
        """What the cluster has, in a line."""
        total: "Dict[str, float]" = {}
        for node in self._nodes().values():
            for name, amount in node["resources"].items():
                total[name] = total.get(name, 0) + amount
        number = "%d node%s" % (self._job.nodes, "" if self._job.nodes == 1 else "s")
        parts = ["%g %s" % (amount, name) for name, amount in sorted(total.items()) if name not in _IN_BYTES]
        memory = ["%.1f GiB of memory" % (total["memory"] / _GB)] if "memory" in total else []
        return "%s with %s" % (number, ", ".join(parts + memory))

    def loss(self) -> str:
        """In words which node the cluster has lost, '' for none; one that may be lost is told in the log, once."""
        if self._node.is_lost():
            self.lost_node = 0
            return "Ray ended on node 0"
        for n in self.missing():
            name = name_of(n)
            if name in self._known:
                continue
            self._known.add(name)
            facts = self._nodes().get(name, {})
            why = str(facts.get("why", "")).split("\n")[0].strip()[:200]
            what = "Ray lost %s%s" % (self._who(n), ": " + why if why else "")
            if not self._job.ray.get("tolerate"):
                self.lost_node = n
                return what
            say(what + "; the job goes on, as ray_tolerate_lost says")
        return ""

    def loss_soon(self, seconds: float) -> str:
        """As `loss`, for a command that has failed by a loss which Ray's head has yet to notice."""
        until = time.monotonic() + seconds
        while self._job.nodes > 1:
            found = self.loss()
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            signals.wait(min(left, 0.5))
        return self.loss()

    def _nodes(self) -> "Dict[str, Dict[str, Any]]":
        found: "Dict[str, Dict[str, Any]]" = self._node.said.get("nodes", {})
        return found

    def _who(self, node: int) -> str:
        addresses = os.environ.get("NEMOTRON_NODE_IPS", "").split("\n")
        host = str(self._gates.read("%s.%d" % (HERE, node)).get("host", ""))
        known = [part for part in (host, addresses[node] if node < len(addresses) else "") if part]
        return "node %d%s" % (node, " (%s)" % ", ".join(known) if known else "")

"""Values that a pod's own script hands to the supervisor, and which node its platform says that it is."""

import json
import os

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Sequence


class PodJob:
    """The job, as one of its pods sees it.

    Args:
        text: JSON of what is the same for all pods, see `backends/cloud/pod/program.py: pod_values`.
        words: `key=value`: `root`, the job's directory; `version`, any number of times, what the job makes of an
            artifact; `prepare`, the profile's own commands; `early`, the names of the signals that have come already.
    """

    def __init__(self, text: str, words: "Sequence[str]") -> None:
        given: "Dict[str, Any]" = json.loads(text)
        pairs = [word.partition("=") for word in words]
        found = {key: value for key, _, value in pairs}
        self.root = found["root"]
        self.nodes = int(given.get("nodes", 1))
        self.platform = str(given["platform"])
        self.moves: "List[str]" = list(given.get("data", ()))
        self.outputs: "Dict[str, str]" = dict(given.get("outputs", {}))
        self.metadata: "Dict[str, Dict[str, str]]" = dict(given.get("cloud_metadata", {}))
        self.versions = [value for key, _, value in pairs if key == "version"]
        self.prepare = found.get("prepare", "")
        self.early = found.get("early", "").split()
        self.attempt = os.environ.get("NEMOTRON_POD_ATTEMPT") or "0"

    @property
    def status(self) -> str:
        """The folder of its records, which all pods see."""
        return self.root + "/status"

    def index(self, names: "Sequence[str]") -> int:
        """Which node this is, by the first of these variables that says something; 0 for what is no number."""
        given = next((os.environ[name] for name in names if os.environ.get(name)), "")
        return int(given) if self.nodes > 1 and is_number(given) else 0

    def log(self, index: int) -> str:
        """The file in which what a node's pod writes is kept."""
        return "%s/logs/node-%d.log" % (self.root, index)


class PodAddress:
    """Where a node stands among the others.

    Args:
        master, port: how the first node is reached; '' for what the nodes tell each other.
        workers: names of the others, comma-separated, where the platform has one for each.
    """

    def __init__(self, master: str = "", port: str = "", workers: str = "") -> None:
        self.master = master
        self.port = port
        self.workers = workers


def seconds(environment: "Dict[str, str]", name: str, default: int) -> int:
    """A variable that says for how long a pod waits."""
    text = environment.get(name, "")
    return int(text) if is_number(text) else default


def is_number(text: str) -> bool:
    """True if a text is a whole number, 0 or above."""
    return bool(text) and set(text) <= set("0123456789")

"""Starts one node's Ray and tells of the cluster: a program of the Python that has Ray, beside the node's keeper.

`supervisor.py ray-node - TOLD`, TOLD being JSON: `head`, the `words` of `ray start`, `folder`, where Ray writes its
address, `count`, how many nodes there are, `may_lack`, what nobody has asked for by name; nothing where it is to say
its versions alone. It reads the head's address from its input where it is not the head, and says JSON lines on file 3:

    {"python": "3.12.3", "ray": "2.60.0"}        what it runs; `ray` is '' where this Python has none
    {"address": "192.0.2.7:6379", "lacks": []}   Ray runs on this node, without these of `may_lack`
    {"nodes": {"node-1": {...}}}                   on the head: who is there, each time that it has changed

`ray start` is called here and not as a program: importing Ray is most of the time that a start takes.
"""

import importlib
import os
import signal
import sys
import time

from nemo_runspec.jobside import signals, values
from nemo_runspec.jobside.ray_report import RayReport, newest, state_of

MYPY = False
if MYPY:
    from typing import Any, Dict, Set

_OUT = 3
_TICK, _LATER = 0.5, 2.0
"""Seconds between two looks: while nodes join, and afterwards."""
_FAILURES = 5
_HOOK = "RAY_START_HOOK"
DASHBOARD = "dashboard"
_may_lack: "Set[str]" = set()
_lacks: "Set[str]" = set()
"""What the hook is told, and what it says: Ray calls it with its own arguments alone."""


def observe(text: str) -> int:
    """Does what `text` tells; its exit code."""
    signals.unblock_for_exec()  # what Ray starts would inherit the mask
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(sys.argv[0]))]
    told = values.read(text)
    found = {"python": "%d.%d.%d" % sys.version_info[:3], "ray": ray_version()}
    _say(found)
    if not told:
        return 0
    report = RayReport({**told["report"], **found}) if told["head"] else None
    if report is not None:
        report.begin()
    os.environ[_HOOK] = __name__ + ".adjust"
    from ray.scripts.scripts import start

    words, address = list(told["words"]), ""
    if not told["head"]:
        address = sys.stdin.readline().strip()
        if not address:
            return 1
        words.append("--address=" + address)
    _may_lack.update(told.get("may_lack") or [])
    start.main(words, prog_name="ray start", standalone_mode=False)
    if told["head"]:
        address = _written(told["folder"] + "/ray_current_cluster")
    _say({"address": address, "lacks": sorted(_lacks)})
    if report is not None:
        report.ray_runs(address, DASHBOARD not in _lacks)
        for number in signals.HEARD:
            signal.signal(number, signal.SIG_IGN)  # its end is the keeper's business
        _watch(address, int(told["count"]))
    return 0


def adjust(params: "Any", head: bool) -> None:
    """What `ray start` calls before it starts anything (Ray's RAY_START_HOOK): starts less, for which it has no option.

    A server for Ray's client would listen at 10001 on every machine, where two clusters meet.
    """
    os.environ.pop(_HOOK, None)
    params.ray_client_server_port = None
    if params.include_dashboard and DASHBOARD in _may_lack and _lacks_packages():
        params.include_dashboard = False
        _lacks.add(DASHBOARD)
    if not params.include_dashboard:
        # Without one Ray starts it all the same, with nothing in it but the usage reports, and waits for it.
        services = importlib.import_module("ray._private.services")
        services.start_api_server = lambda *words, **named: ("", None)  # type: ignore[attr-defined]


def _lacks_packages() -> bool:
    """True if this Ray is the small one, `ray` without `[default]`, which has no dashboard and fails over one."""
    try:
        return importlib.import_module("ray._private.utils").get_dashboard_dependency_error() is not None
    except AttributeError:
        return False


def _written(path: str) -> str:
    with open(path) as source:
        return source.read().strip()


def ray_version() -> str:
    """The version of this Python's Ray, without importing it; '' for none."""
    try:
        return str(importlib.import_module("importlib.metadata").version("ray"))
    except Exception:  # noqa: BLE001  (Python 3.7 has no such module; and Ray may be built by hand, without metadata)
        try:
            return str(importlib.import_module("ray").__version__)
        except ImportError:
            return ""


def _say(line: "Dict[str, Any]") -> None:
    os.write(_OUT, (values.write(line) + "\n").encode("ascii"))


def _watch(address: str, count: int) -> None:
    """Tells of the nodes until nobody listens."""
    known: "Dict[str, Any]" = {}
    ask, failures = _asking(address), 0
    keeper = os.getppid()
    while os.getppid() == keeper:
        try:
            told, failures = {str(node["NodeName"]): _facts(node) for node in newest(ask())}, 0
        except Exception as error:  # noqa: BLE001  (Ray's own, of many kinds; its servers are watched by the keeper)
            failures += 1
            if failures == _FAILURES:
                sys.stderr.write("Ray cannot be asked for its nodes: %s\n" % error)
            time.sleep(_LATER)
            continue
        found = {**known, **told}  # Ray tells of the dead too: an answer without a node says nothing about it
        if found != known:
            known = found
            _say({"nodes": found})
        time.sleep(_TICK if len(found) < count else _LATER)


def _facts(node: "Dict[str, Any]") -> "Dict[str, Any]":
    resources = {name: amount for name, amount in node.get("Resources", {}).items() if not name.startswith("node:")}
    return {
        "alive": bool(node["Alive"]),
        "address": str(node.get("NodeManagerAddress", "")),
        "host": str(node.get("NodeManagerHostname", "")),
        "why": str(node.get("DeathReasonMessage", "") or ""),
        "resources": resources,
    }


def _asking(address: str) -> "Any":
    """How the nodes are asked for: of Ray's head alone where its parts are as they have been since 2.10."""
    try:
        state = state_of(address)
        state.node_table()
    except (ImportError, AttributeError, TypeError):
        import ray

        ray.init(address=address, log_to_driver=False, configure_logging=False)  # as one more driver
        return ray.nodes
    return state.node_table

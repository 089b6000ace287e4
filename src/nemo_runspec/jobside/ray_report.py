"""`ray.json` in a job's directory: what its Ray cluster has and does, for those who ask from elsewhere.

Node 0's observer (`ray_observer.py`) writes it, in a thread of its own: neither a file system that hangs nor a Ray that
does not answer holds up what the job waits for. Ray's head alone is asked, for its tables; no dashboard is needed.

    {"phase": "running", "at": 1795454325.1, "address": "192.0.2.7:6379", "count": 2, "nodes": [...], ...}
"""

import threading
import time

from nemo_runspec.jobside.records import Folder

MYPY = False
if MYPY:
    from typing import Any, Dict, Iterable, List, Optional, Tuple

REPORT = "ray.json"
STARTING, RUNNING, ENDED = "starting", "running", "ended"
_PAUSE = 5.0
"""Seconds between two looks."""
_SOON = 1.0
"""The same while nodes join."""
_MOST = 300
"""Entries of what runs; groups of tasks with the same name, node and state are one."""
_MOST_TASKS = 5000
"""Tasks of one state that Ray is asked for."""
_SECONDS = 10
_ALIVE = ("ALIVE", "PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING")
_OWN = ("node:", "bundle_group_")
"""How resources begin that Ray has made for itself."""
_GROUP = "_group_"
"""In the name of a resource that is a placement group's part of another."""


class RayReport:
    """The file of one attempt of a job. Writing it may fail, and nobody is told: it is the next one that counts.

    Args:
        facts: what does not change: `root`, the job's directory; `count` of nodes; `dashboard`, its port and where the
            token lies, or None; `interpreter`, `python` and `ray`, which Python and Ray there are.
    """

    def __init__(self, facts: "Dict[str, Any]") -> None:
        self._folder = Folder(str(facts["root"]))
        self._known: "Dict[str, Any]" = {"phase": STARTING, "nodes": [], "work": [], "unknown_since": None}
        self._known.update(facts)
        self._starts = threading.Lock()
        self._starts.acquire()  # until Ray runs
        self._address = ""

    def begin(self) -> None:
        """Has a thread write it, and renew it once Ray runs, for as long as this process lives."""
        threading.Thread(target=self._follow, daemon=True).start()

    def ray_runs(self, address: str, dashboard: bool) -> None:
        """Says where Ray's head listens, and whether it has the dashboard that it was to have."""
        if not dashboard:
            self._known["dashboard"] = None
        self._address = address
        self._starts.release()

    def write(self, **news: "Any") -> None:
        """Writes it with what is new."""
        self._known.update(news)
        self._known["at"] = time.time()
        try:
            self._folder.write(REPORT, self._known)
        except OSError:
            return

    def _follow(self) -> None:
        self.write()
        self._starts.acquire()
        tables: "Optional[RayTables]" = None
        since: "Optional[float]" = None
        while True:
            try:
                tables = tables or RayTables(self._address)
                seen = tables.seen()
            except Exception as error:  # noqa: BLE001  (Ray's own, of many kinds; the job itself does not need this)
                tables, since = None, since or time.time()
                self.write(unknown_since=since, problem=("%s: %s" % (type(error).__name__, error)).split("\n")[0][:200])
                time.sleep(_PAUSE)
                continue
            since = None
            self.write(phase=RUNNING, unknown_since=None, problem="", address=self._address, **seen)
            joined = sum(node["state"] == "alive" for node in seen["nodes"])
            time.sleep(_SOON if joined < int(self._known["count"]) else _PAUSE)


def tell_end(root: str) -> None:
    """Writes down that the cluster is gone; what it was last seen to be stays."""
    folder = Folder(root)
    known = folder.read(REPORT)
    if known and known.get("phase") != ENDED:
        known.update({"phase": ENDED, "ended": time.time()})
        try:
            folder.write(REPORT, known)
        except OSError:
            return


class RayTables:
    """The tables of a cluster's head. Raises Ray's own errors, of many kinds, and `AttributeError` for another Ray."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._state = state_of(address)
        self._tasks: "Any" = None

    def seen(self) -> "Dict[str, Any]":
        """Nodes, what runs where, how much of that is left out, and what could not be asked for."""
        nodes = self._state.node_table()
        names = {str(node["NodeID"]): str(node["NodeName"]) for node in nodes}
        free = self._free()
        groups = dict(self._placement_groups(names))
        _add(groups, self._actors(names))
        untold: "List[str]" = []
        try:
            _add(groups, self._running_tasks(names))
        except Exception:  # noqa: BLE001  (without grpc, an older Ray, one too busy: the rest is known all the same)
            untold = ["task"]
        work = [_entry(*key, count) for key, count in sorted(groups.items())]
        return {
            "nodes": [_node(node, free.get(str(node["NodeID"]))) for node in newest(nodes)],
            "work": work[:_MOST],
            "left_out": max(0, len(work) - _MOST),
            "untold": untold,
        }

    def _free(self) -> "Dict[str, Dict[str, float]]":
        """What is not in use, by node."""
        try:
            return dict(self._state.available_resources_per_node())
        except AttributeError:  # before 2.10
            return {}

    def _actors(self, names: "Dict[str, str]") -> "Iterable[Tuple[Tuple[str, str, str, str], int]]":
        for actor in self._actor_table():
            if actor["State"] in _ALIVE:
                name = actor["ActorClassName"] + (": " + actor["Name"] if actor["Name"] else "")
                place = names.get(actor["Address"]["NodeID"], "") if actor["State"] == "ALIVE" else ""
                yield ("actor", name, place, _word(actor["State"])), 1

    def _actor_table(self) -> "List[Dict[str, Any]]":
        """Those that live: a cluster may remember a hundred thousand that do not."""
        try:
            return [each for state in _ALIVE for each in self._state.actor_table(None, None, state).values()]
        except TypeError:  # before 2.7
            return list(self._state.actor_table(None).values())

    def _placement_groups(self, names: "Dict[str, str]") -> "Iterable[Tuple[Tuple[str, str, str, str], int]]":
        """Their bundles by node."""
        found: "Dict[Tuple[str, str, str, str], int]" = {}
        for each in self._state.placement_group_table().values():
            if each["state"] == "REMOVED":
                continue
            why = each.get("stats", {}).get("scheduling_state", "")
            state = _word(each["state"]) + (
                ", infeasible" if each["state"] == "PENDING" and why == "INFEASIBLE" else ""
            )
            name = each["name"] or each["placement_group_id"][:8]
            for place in each.get("bundles_to_node_id", {}).values():
                _add(found, [(("placement group", name, names.get(place, ""), state), 1)])
        return found.items()

    def _running_tasks(self, names: "Dict[str, str]") -> "Iterable[Tuple[Tuple[str, str, str, str], int]]":
        """Those that run, and those that have still to. Raises `ImportError` where Ray was installed without grpc."""
        from ray.core.generated import common_pb2, gcs_service_pb2

        task_of, status = gcs_service_pb2.GetTaskEventsRequest, common_pb2.TaskStatus
        for states, predicate in ((("RUNNING",), 0), (("RUNNING", "FINISHED", "FAILED"), 1)):  # EQUAL, NOT_EQUAL
            chosen = task_of.Filters(exclude_driver=True)
            for state in states:
                chosen.state_filters.add(state=state, predicate=predicate)
            reply = self._task_service().GetTaskEvents(task_of(limit=_MOST_TASKS, filters=chosen), timeout=_SECONDS)
            for each in reply.events_by_task:
                if each.task_info.type == common_pb2.ACTOR_CREATION_TASK:
                    continue  # it is shown as an actor
                passed = each.state_updates.state_ts_ns
                word = _word(status.Name(max(passed, key=passed.get))) if passed else "unknown"
                node = names.get(each.state_updates.node_id.hex(), "")
                yield ("task", each.task_info.name or each.task_info.func_or_class_name, node, word), 1

    def _task_service(self) -> "Any":
        if self._tasks is None:
            from ray._private.grpc_utils import init_grpc_channel
            from ray.core.generated.gcs_service_pb2_grpc import TaskInfoGcsServiceStub

            self._tasks = TaskInfoGcsServiceStub(init_grpc_channel(self._address))
        return self._tasks


def state_of(address: str) -> "Any":
    """The tables of Ray's head as its own commands ask for them. Raises for an older Ray than 2.10, in many ways."""
    from importlib import import_module

    from ray._private.state import GlobalState

    state = GlobalState()
    made_of = import_module("ray._raylet").GcsClientOptions  # of compiled code, which no type checker reads
    options = made_of.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=True)
    state._initialize_global_state(options)
    return state


def _entry(kind: str, name: str, node: str, state: str, count: int) -> "Dict[str, Any]":
    return {"kind": kind, "name": name, "node": node, "state": state, "count": count}


def _add(
    found: "Dict[Tuple[str, str, str, str], int]", more: "Iterable[Tuple[Tuple[str, str, str, str], int]]"
) -> None:
    for key, count in more:
        found[key] = found.get(key, 0) + count


def newest(nodes: "List[Dict[str, Any]]") -> "List[Dict[str, Any]]":
    """In the order of their names; of a name that has come again, the one that lives."""
    found = {str(node["NodeName"]): node for node in sorted(nodes, key=lambda node: bool(node["Alive"]))}
    return [found[name] for name in sorted(found, key=lambda name: (len(name), name))]


def _node(node: "Dict[str, Any]", free: "Any") -> "Dict[str, Any]":
    """A node; `used` is left out where Ray does not say it, as of one that is lost."""
    total = _resources(node.get("Resources") or {})
    alive = bool(node["Alive"])
    found: "Dict[str, Any]" = {
        "name": str(node["NodeName"]),
        "state": "alive" if alive else "lost",
        "address": str(node.get("NodeManagerAddress", "")),
        "host": str(node.get("NodeManagerHostname", "")),
        "why": "" if alive else str(node.get("DeathReasonMessage", "") or "").split("\n")[0][:200],
        "total": total,
    }
    if alive and free is not None:
        # What is used up is missing in Ray's answer.
        found["used"] = {name: round(max(0.0, amount - free.get(name, 0.0)), 4) for name, amount in total.items()}
    return found


def _resources(found: "Dict[str, float]") -> "Dict[str, float]":
    return {name: amount for name, amount in sorted(found.items()) if not name.startswith(_OWN) and _GROUP not in name}


def _word(state: str) -> str:
    return state.lower().replace("_", " ")

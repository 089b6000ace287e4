"""The variables of a job: what all nodes learn of each other, and what nemotron sets."""

import os

from nemo_runspec.jobside import artifacts
from nemo_runspec.jobside.address import address, free_port
from nemo_runspec.jobside.barriers import Barriers
from nemo_runspec.jobside.rank import NODE_SUPERVISOR

MYPY = False
if MYPY:
    from typing import Callable, Dict

    from nemo_runspec.jobside.job import JobTask
    from nemo_runspec.jobside.records import Folder

_LAUNCHERS = (
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK NNODES MASTER_ADDR MASTER_PORT RAY_ADDRESS"
)
"""What a launcher around the job may have set, which is not this job's."""


def meeting(job: "JobTask", barriers: Barriers, pause: "Callable[[float], None]") -> "Dict[str, str]":
    """Every task tells its address, the first one the port too, and learns those of the others.

    Raises:
        Failure: they do not meet.
    """
    mine = address() if job.nodes > 1 else "127.0.0.1"
    port = job.settings.get("MASTER_PORT") or job.port
    if job.tasks > 1:
        own = {"node": job.node, "address": mine, "port": port or str(free_port())}
        try:
            barriers.folder.write("address.%d" % job.task, own)
        except OSError:
            pass  # the barrier says so
        barriers.reach("met", pause)
        told = [barriers.folder.read("address.%d" % task) for task in range(job.tasks)]
    else:
        told = [{"node": job.node, "address": mine, "port": port or str(free_port())}]
    addresses = {}
    for one in reversed(told):
        addresses[int(one.get("node", 0))] = str(one.get("address", ""))
    ordered = [addresses[node] for node in sorted(addresses)]
    first = ordered[0]
    return {
        "NEMOTRON_NODE_IPS": "\n".join(ordered),
        "MASTER_ADDR": job.settings.get("MASTER_ADDR") or job.master or first,
        "MASTER_PORT": port or str(told[0].get("port", "")),
    }


def variables(job: "JobTask", status: "Folder", given: "Dict[str, str]") -> "Dict[str, str]":
    """All variables of the shell in which the job's own lines run; those of its plan are among these lines.

    Args:
        given: its secrets, and what the nodes have told each other.
    """
    found = {name: value for name, value in os.environ.items() if name not in _LAUNCHERS.split()}
    found.pop("NEMOTRON_OWNER", None)
    found.update(given)
    found.update({
        "PYTHONUNBUFFERED": "1",
        "NEMOTRON_JOB_NAME": job.name,
        "NEMOTRON_JOB_DIR": job.root,
        "NEMOTRON_METRICS_FILE": job.metrics,
        "WANDB_DIR": job.root,
        "NEMOTRON_GPUS_PER_NODE": str(job.gpus_per_node),
        "NEMOTRON_NODE_RANK": str(job.node),
        "NEMOTRON_NUM_NODES": str(job.nodes),
        "NEMOTRON_ATTEMPT": str(job.restarts),
        "NODE_RANK": str(job.node),
        "NNODES": str(job.nodes),
        NODE_SUPERVISOR: str(os.getpid()),
    })  # fmt: skip
    found.update({name: artifacts.named(status, job.inputs, value) for name, value in job.named.items()})
    found.update(_world(job))
    if job.has("wandb"):  # started again, it goes on with its run
        found.update({"WANDB_RUN_ID": job.name, "WANDB_NAME": job.name, "WANDB_RESUME": "allow"})
    if job.has("pods"):
        found["WORKER_ADDRS"] = _workers(job, found["NEMOTRON_NODE_IPS"])
    if job.stall:
        found.setdefault("PYTHONFAULTHANDLER", "1")
    return found


def _world(job: "JobTask") -> "Dict[str, str]":
    """By default as PyTorch means it; containers that begin processes of their own may mean the nodes."""
    found = {}
    if job.world == "nodes":
        found = {"WORLD_SIZE": str(job.nodes), "NUM_GPU_PER_NODE": str(job.gpus_per_node)}
    elif job.launch == "torchrun":
        found = {"WORLD_SIZE": str(job.nodes * job.ranks)}
    elif job.launch == "direct":
        found = {"WORLD_SIZE": str(job.tasks)}
    # With RANK or LOCAL_RANK set, libraries set up process groups that a single process does not need.
    if job.launch == "direct" and job.tasks > 1:
        found.update({"RANK": str(job.task), "LOCAL_RANK": str(job.local)})
    return found


def _workers(job: "JobTask", addresses: str) -> str:
    """How the nodes but the first are reached, comma-separated; by name where the platform has one for each."""
    others = addresses.split("\n")[1:]
    return (os.environ.get("NEMOTRON_POD_WORKERS") or ",".join(others)) if job.nodes > 1 else ""

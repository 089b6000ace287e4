"""Which node a pod is, by the training operator's variables, which run:ai's distributed workloads get. Runs in the pod.

All of them count pods here.
"""

from nemo_runspec.jobside.pod.values import PodAddress
from nemo_runspec.jobside.pod.variables import check, need

MYPY = False
if MYPY:
    from nemo_runspec.jobside.pod.pod import PodRun

INDEX = ("PET_NODE_RANK", "RANK")
"""Variables that say which node this is, the first that is set."""

_PORT = "23456"


def place(pod: "PodRun") -> PodAddress:
    """Where this node stands among the others. Raises `Failure`."""
    given = pod.environment
    found = _meet(pod) if pod.job.nodes > 1 else PodAddress()
    for name in [name for name in given if name.startswith("PET_")]:
        del given[name]  # torchrun would take them for arguments that it was not given
    return found


def _meet(pod: "PodRun") -> PodAddress:
    given = pod.environment
    index = next((name for name in INDEX if given.get(name)), INDEX[-1])
    need(pod, "run:ai", (index, "MASTER_ADDR", "WORLD_SIZE"))
    check(pod, index, "PET_NNODES" if given.get("PET_NNODES") else "")
    return PodAddress(given["MASTER_ADDR"], given.get("MASTER_PORT") or _PORT)

"""How a node finds out, on each executor, which node it is: shell expressions, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nemo_runspec.errors import UserError


@dataclass(frozen=True, slots=True)
class Place:
    """Shell expressions that one invocation of the job script evaluates.

    Args:
        node: this node's rank. `nodes`: how many there are; None for what the plan says.
        task: this invocation among all of the job's; `tasks`: how many (None: one per node); `local`: among its node's.
        attempt: differs when a scheduler starts the same job again, so that markers of before are not believed.
        restarts: how often it was started before.
        master, port: the first node's address and port where the platform knows them; None: the nodes tell each other.
        log: pattern of what all tasks write, below the job's directory; None where the job has no such file.
        requeues: it may start the job again in the same directory; its own side then removes the secrets, not the job.
        signals_all: a signal to a task reaches every process of it.
        ends_all: it ends all tasks as soon as one has failed.
        supervised: a process of this machine takes the secrets out of what the job says; else its own side does.
        pods: pod.sh (cloud/pod/) calls it: the secrets are variables already, and a node may have a name of its own.
    """

    node: str = "0"
    nodes: str | None = None
    task: str = "$nemotron_node"
    tasks: str | None = None
    local: str = "0"
    attempt: str = "0"
    restarts: str = "0"
    master: str | None = None
    port: str | None = None
    log: str | None = None
    requeues: bool = False
    signals_all: bool = False
    ends_all: bool = False
    supervised: bool = False
    pods: bool = False


# Whatever a cloud calls it: cloud/pod/lepton.sh and cloud/pod/dgxcloud.sh find it out.
_POD = Place(
    node="${NEMOTRON_POD_INDEX:-0}",
    nodes="${NEMOTRON_POD_COUNT:-1}",
    attempt="${NEMOTRON_POD_LIFE:-${NEMOTRON_POD_ATTEMPT:-0}}",
    restarts="${NEMOTRON_POD_ATTEMPT:-0}",
    master="${NEMOTRON_POD_MASTER:-}",
    port="${NEMOTRON_POD_PORT:-}",
    log="logs/node-*.log",
    pods=True,
)

PLACES: Mapping[str, Place] = {
    "local": Place(nodes="1", supervised=True),
    "docker": Place(nodes="1", supervised=True),
    # srun sets these for every task (man srun, OUTPUT ENVIRONMENT VARIABLES).
    "slurm": Place(
        node="${SLURM_NODEID:-0}",
        nodes="${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}",
        task="${SLURM_PROCID:-0}",
        tasks="${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}",
        local="${SLURM_LOCALID:-0}",
        attempt="${SLURM_JOB_ID:-0}-${SLURM_RESTART_COUNT:-0}",
        restarts="${SLURM_RESTART_COUNT:-0}",
        log="log-*_${SLURM_JOB_ID:-0}_${SLURM_RESTART_COUNT:-0}*.out",  # as backends/slurm/batch.sh has srun write it
        # NeMo-Run's srun has --kill-on-bad-exit=1, which is right where a task dies without a word.
        requeues=True,
        signals_all=True,
        ends_all=True,
    ),
    "dgxcloud": _POD,
    "lepton": _POD,
}


def place_of(executor: str, nodes: int = 1) -> Place:
    """The place of an executor: the table's, else what its backend declares (`Backend.place`).

    Args:
        nodes: of the plan. Where nothing says which node is which, there can only be one: each of several would take
            itself for the only one, and end well.

    Raises:
        UserError: several nodes, and no place.
    """
    place = PLACES.get(executor) or _declared(executor)
    if place is None and nodes > 1:
        raise UserError(
            f"executor '{executor}' does not say how a node finds out which of the {nodes} it is",
            remedy="set nodes = 1; or let its backend name a Place (nemo_runspec.script.places) as its place",
        )
    return place or Place(nodes="1")


def _declared(executor: str) -> Place | None:
    from nemo_runspec.backends import get_backend

    try:
        place: Place | None = get_backend(executor).own_place()
        return place
    except UserError:  # a plan that was made with another backend installed
        return None

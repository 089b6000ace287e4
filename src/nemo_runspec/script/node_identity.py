"""Shell expressions, as data, by which a node finds out which of a job's nodes it is. Each backend brings its own."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_runspec.errors import UserError


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Shell expressions that one invocation of the job script evaluates.

    Args:
        node: this node's rank.
        nodes: how many there are; None for what the plan says.
        task: this invocation among all of the job's.
        tasks: how many (None: one per node).
        local: among its node's.
        attempt: differs when a scheduler starts the same job again, so that markers of before are not believed.
        restarts: how often it was started before.
        master, port: the first node's address and port where the platform knows them; None: the nodes tell each other.
        log: pattern of what all tasks write, below the job's directory; None where the job has no such file.
        requeues: it may start the job again in the same directory; its own side then removes the secrets, not the job.
        signals_all: a signal to a task reaches every process of it.
        ends_all: it ends all tasks as soon as one has failed.
        supervised: a process of this machine takes the secrets out of what the job says; else its own side does.
        publishes: the job script itself makes what the job has made the newest version; else what starts it does.
        secrets_file: the job reads its secrets from a file; else they are in its environment when it starts.
        pods: pod.sh (backends/cloud/pod/) calls it, and a node may have a name of its own.
        here: it sees this machine's files where they are, and its input is for its command.
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
    publishes: bool = False
    secrets_file: bool = True
    pods: bool = False
    here: bool = False


ALONE = NodeIdentity(nodes="1")
CONTAINER = NodeIdentity(nodes="1", supervised=True, publishes=True)
PROCESS = NodeIdentity(nodes="1", supervised=True, publishes=True, secrets_file=False, here=True)
"""One node of this machine under a supervisor: in a container, or as a process that gets its secrets as variables."""


def node_identity_of(executor: str, nodes: int = 1) -> NodeIdentity:
    """What the backend of an executor declares (`Backend.node_identity`).

    Args:
        nodes: of the plan. Where nothing says which node is which, there can only be one: each of several would take
            itself for the only one, and end well.

    Raises:
        UserError: several nodes, and no identity.
    """
    from nemo_runspec.backends import find_backend

    backend = find_backend(executor)  # None: the plan was made where another backend is installed
    identity = backend.own_node_identity() if backend else None
    if identity is None and nodes > 1:
        raise UserError(
            f"executor '{executor}' does not say how a node finds out which of the {nodes} it is",
            remedy="set nodes = 1; or let its backend declare a node_identity (nemo_runspec.script.node_identity)",
            key="nodes",
        )
    return identity or ALONE

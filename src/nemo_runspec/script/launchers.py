"""The launchers of a node's ranks: one process, torchrun, or Ray, which a keeper starts (`jobside/ray.py`).

torchrun's rendezvous is `static` for several nodes, not c10d: c10d numbers the nodes by host name, so that `NODE_RANK`
would not say which ranks a node has, and it guesses from its host name whether a node is the master (torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterator

from nemo_runspec.plans.model import Plan
from nemo_runspec.script.node_identity import NodeIdentity


def launch(plan: Plan, identity: NodeIdentity) -> Iterator[str]:
    """The lines that become a node's command."""
    if plan.launch.kind == "torchrun":
        yield from _torchrun(plan)
    elif plan.launch.kind == "ray":
        yield 'exec bash "$nemotron_script" --ray 9>&-'
    else:
        yield "nemotron_run"


def _torchrun(plan: Plan) -> Iterator[str]:
    if plan.resources.nodes == 1:
        where = "--standalone --local-addr=127.0.0.1 --nnodes=1"
    else:
        where = (
            '--nnodes="$NNODES" --node-rank="$NODE_RANK" --rdzv-backend=static '
            '--master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'
        )
    yield f"exec python -m torch.distributed.run {where} \\"
    yield f'  --nproc-per-node={plan.resources.nproc_per_node} --no-python bash "$nemotron_script" --rank 9>&-'

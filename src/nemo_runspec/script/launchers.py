"""How the ranks of a node are started: one process, torchrun, or Ray with node 0 as its head.

torchrun's rendezvous is `static` for several nodes, not c10d: c10d numbers the nodes by host name, so that `NODE_RANK`
would not say which ranks a node has, and it guesses from its host name whether a node is the master (torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterator

from nemo_runspec.plans.model import Plan
from nemo_runspec.script.node_identity import NodeIdentity


def launch(plan: Plan, identity: NodeIdentity) -> Iterator[str]:
    """The lines that start a node's ranks, and wait for their end."""
    if plan.launch.kind == "torchrun":
        yield from _torchrun(plan)
    elif plan.launch.kind == "ray" and plan.resources.nodes > 1:
        yield from _ray(plan, identity)
    else:
        yield from _launched('nemotron_rank "${RANK:-0}"')
        yield 'nemotron_finish "$nemotron_code" "${RANK:-0}" 1'


def _launched(command: str, indent: str = "") -> Iterator[str]:
    """Its status in `nemotron_code`. Not by `||`: bash would ignore `set -e` in all that runs below."""
    for line in ("set +e", f"nemotron_launch {command}", "nemotron_code=$?", "set -e"):
        yield indent + line


def _torchrun(plan: Plan) -> Iterator[str]:
    ranks = plan.resources.nproc_per_node
    if plan.resources.nodes == 1:
        where = "--standalone --local-addr=127.0.0.1 --nnodes=1"
    else:
        where = (
            '--nnodes="$NNODES" --node-rank="$NODE_RANK" --rdzv-backend=static '
            '--master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'
        )
    yield "nemotron_apart=1"
    yield from _launched(
        f"python -m torch.distributed.run {where} \\\n"
        f'  --nproc-per-node={ranks} --no-python bash "$nemotron_script" --rank'
    )
    yield f'nemotron_finish "$nemotron_code" $((nemotron_node * {ranks})) {ranks}'


def _ray(plan: Plan, identity: NodeIdentity) -> Iterator[str]:
    yield "# Node 0 is Ray's head and runs the command; the others serve it until it has ended. Nothing here waits for"
    yield "# workers to join: ask Ray for the resources the job needs."
    gpus = f" --num-gpus={plan.resources.gpus_per_node}" if plan.resources.gpus_per_node else ""
    # Ray names nodes by their addresses; that of a pod is a name.
    head = "${NEMOTRON_NODE_IPS%%$'\\n'*}" if identity.pods else "$MASTER_ADDR"
    yield f"export RAY_ADDRESS={head}:$((MASTER_PORT + 1))"
    yield 'if [ "$nemotron_node" -eq 0 ]; then'
    yield '  ray start --head --block --node-ip-address="${RAY_ADDRESS%:*}" --port="${RAY_ADDRESS##*:}"' + gpus + " &"
    yield "  nemotron_ray=$!"
    yield "  nemotron_gate ray"
    yield from _launched("nemotron_rank 0", "  ")
    yield '  nemotron_record "$nemotron_gates/driver" "exit_code=$nemotron_code"'
    yield "else"
    yield "  nemotron_gate ray"
    yield f'  ray start --block --address="$RAY_ADDRESS"{gpus} &'
    yield "  nemotron_ray=$!"
    yield '  until [ -f "$nemotron_gates/driver" ]; do'
    yield '    kill -0 "$nemotron_ray" 2> /dev/null || { nemotron_reason="Ray ended on node $nemotron_node"; exit 1; }'
    yield '    sleep 1; ls "$nemotron_gates" > /dev/null'
    yield "  done"
    yield '  nemotron_code=`nemotron_value "$nemotron_gates/driver" exit_code`'
    yield "fi"
    yield 'kill "$nemotron_ray" 2> /dev/null || :'
    yield 'nemotron_finish "$nemotron_code" 0 1'

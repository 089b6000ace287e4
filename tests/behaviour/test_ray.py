"""Real Ray: `launch = "ray"` makes one cluster of a job's nodes, for as long as its command runs."""

from __future__ import annotations

import pytest
from ray_jobs import ray_env

JOB = '''
    # /// script
    # dependencies = []
    # [tool.runspec]
    # schema = "1"
    # [tool.runspec.run]
    # launch = "ray"
    # ///
    import ray, signal, time
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    ray.init(logging_level="ERROR")

    @ray.remote(num_cpus=1)
    def look():
        return ray.get_runtime_context().get_node_id(), os.environ["AT_SETUP"], os.path.basename(os.getcwd())

    def look_everywhere():
        """What a task says on each node, by the node's name."""
        nodes = {node["NodeID"]: node["NodeName"] for node in ray.nodes() if node["Alive"]}
        each = [look.options(scheduling_strategy=On(node, soft=False)).remote() for node in nodes]
        return {nodes[node]: [at_setup, folder] for node, at_setup, folder in ray.get(each)}
'''
COUNTS = (
    JOB
    + """
    has = {node["NodeName"]: node["Resources"] for node in ray.nodes()}
    amounts = {name: [of.get(key, 0) for key in ("CPU", "GPU", "every", "later")] for name, of in has.items()}
    tell(amounts=amounts, seen=look_everywhere(), here=os.path.basename(os.getcwd()), words=sys.argv[1:])
    raise SystemExit(7)
"""
)
STOPS = (
    JOB
    + """
    def stop(*_):
        print("got TERM with", *sorted(look_everywhere()), flush=True)
        raise SystemExit(9)
    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    while True:
        time.sleep(0.1)
"""
)
LOSES = (
    JOB
    + """
    @ray.remote(resources={"later": 1}, max_retries=0)
    def end_node():
        os.kill(os.getppid(), signal.SIGKILL)
    try:
        ray.get(end_node.remote())
    except ray.exceptions.RayError as error:
        print("lost by", type(error).__name__, flush=True)
    time.sleep(3600)
"""
)


def prepared(bench, **keys):
    """The bench for jobs of several nodes, with a Ray that they see."""
    bench = bench.of_several()
    seen, path = bench.setting.seen(ray_env())
    setup = [f"export PATH={path}/bin:$PATH AT_SETUP=$NEMOTRON_NODE_RANK"]
    own = {"ray_resources": {"every": 1}, "ray_worker_resources": {"later": 2}, "startup_commands": setup}
    bench.profile(**{**own, **seen, **keys})
    return bench


@pytest.mark.slow
def test_ray(bench):
    """A Ray cluster of exactly the job's nodes, each with what was asked for; the command's exit code is the job's."""
    bench = prepared(bench)
    ended = bench.attached(COUNTS, "--steps", "a b")
    name, nodes = bench.newest(), [f"node-{rank}" for rank in range(bench.rig.nodes)]
    assert ended.code == 7, ended.err + ended.out
    told = ended._told(0)
    amounts = {node: amounts[1:] for node, amounts in told["amounts"].items()}
    assert amounts == {node: [0, 1, 0 if node == "node-0" else 2] for node in nodes}
    assert all(amounts[0] >= 1 for amounts in told["amounts"].values())
    assert told["seen"] == {node: [node[-1], told["here"]] for node in nodes}
    assert told["words"] == ["--steps", "a b"]
    record = bench.show(name)
    assert (record["state"], record["exit_code"], "node 1" in record["cause"]) == ("failed", 7, False), record
    assert bench.leftovers(name) == []


@pytest.mark.full
def test_ray_cancel(bench):
    """A cancelled Ray job is told TERM while its whole cluster is there; afterwards nothing of it is left."""
    bench = prepared(bench)
    name = bench.detached(STOPS)
    bench.log_has(name, "ready", nodes=1)
    bench.nemotron("jobs", "cancel", name, "--grace", "120").succeeds()
    log = bench.log(name)
    assert f"got TERM with {' '.join(f'node-{rank}' for rank in range(bench.rig.nodes))}\n" in log, log
    assert bench.show(name)["state"] == "cancelled"
    assert bench.leftovers(name) == []


@pytest.mark.full
def test_ray_node_lost(bench):
    """A node of Ray that is lost in the middle is the job's failure, and is named; nothing of the cluster is left."""
    bench = prepared(bench)
    ended = bench.attached(LOSES)
    record = bench.show(bench.newest())
    assert (ended.code, record["state"]) == (1, "failed"), ended.err + ended.out
    assert "node 1" in record["cause"], record
    assert bench.leftovers(record["name"]) == []

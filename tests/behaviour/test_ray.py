"""Real Ray: `launch = "ray"` makes one cluster of a job's nodes, for as long as its command runs."""

from __future__ import annotations

import os
import signal

import pytest
from ray_jobs import ray_env
from waiting import until

from behaviour.bench import finish

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
    while os.environ["ON"] == "no" or sum(node["Alive"] for node in ray.nodes()) > 1:
        time.sleep(0.2)
    print("went on", flush=True)
    raise SystemExit(5)
"""
)
ASKED = (
    JOB
    + """
    print("ready", *sorted(look_everywhere()), flush=True)
    wait_for_word()
    print("still", *sorted(look_everywhere()), flush=True)
    raise SystemExit(6)
"""
)
NEVER_STARTS = """\
if [ "$NODE_RANK" != 0 ]; then
    mkdir "$NEMOTRON_JOB_DIR/hangs"
    printf '#!/bin/sh\\nexec sleep 600\\n' > "$NEMOTRON_JOB_DIR/hangs/python"
    chmod +x "$NEMOTRON_JOB_DIR/hangs/python"
    export PATH=$NEMOTRON_JOB_DIR/hangs:$PATH
fi"""
"""A startup command after which the Python of every node but the first never does anything."""


def prepared(bench, *then, on="no", **keys):
    """The bench for jobs of several nodes, with a Ray that they see. `then`: startup commands after it."""
    bench = bench.of_several()
    seen, path = bench.setting.seen(ray_env())
    setup = [f"export PATH={path}/bin:$PATH AT_SETUP=$NEMOTRON_NODE_RANK ON={on}", *then]
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


@pytest.mark.full
def test_ray_node_lost_and_tolerated(bench):
    """With `ray_tolerate_lost` a Ray job goes on without a node that is lost, and ends as its command."""
    bench = prepared(bench, on="yes", ray_tolerate_lost=True)
    ended = bench.attached(LOSES)
    record = bench.show(bench.newest())
    assert (ended.code, record["state"], record["exit_code"]) == (5, "failed", 5), ended.err + ended.out
    log = bench.log(record["name"])
    assert "went on\n" in log and "node 1" in log, log
    assert bench.leftovers(record["name"]) == []


@pytest.mark.full
def test_ray_node_missing(bench):
    """A node that does not join Ray in time is the job's failure, and is named; the command never runs."""
    bench = prepared(bench, NEVER_STARTS, ray_start_timeout="10s")
    ended = bench.attached(COUNTS)
    record = bench.show(bench.newest())
    assert (ended.code, record["state"]) == (1, "failed"), ended.err + ended.out
    assert "node 1 (" in record["cause"] and "ray_start_timeout = 10s" in record["cause"], record
    assert "TOLD" not in ended.out, ended.out
    assert bench.leftovers(record["name"]) == []


@pytest.mark.full
def test_ray_client_killed(bench):
    """A Ray job whose waiting client is killed with -9 goes on with its whole cluster, and ends as any job."""
    bench = prepared(bench)
    client = bench.start(ASKED)
    name = until(lambda: bench.nemotron("jobs", "list", "--json").json, "the job", seconds=300)[0]["name"]
    everywhere = " ".join(f"node-{rank}" for rank in range(bench.rig.several))
    bench.log_has(name, f"ready {everywhere}", nodes=1)
    os.killpg(client.pid, signal.SIGKILL)
    finish(client)
    bench.give_word(name)
    assert bench.wait(name) == 6
    assert f"still {everywhere}\n" in bench.log(name)
    assert bench.leftovers(name) == []

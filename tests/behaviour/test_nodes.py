"""The nodes of one job: what they know of each other, where they wait, what the failure of one means to all."""

from __future__ import annotations

import pytest

LOOK = """
    import resource, socket
    given = dict(os.environ)
    addresses = given["NEMOTRON_NODE_IPS"].split("\\n")
    rank = int(given["NEMOTRON_NODE_RANK"])
    master = socket.gethostbyname(given["MASTER_ADDR"])
    for address in [addresses[rank], *([master] if rank == 0 else [])]:
        with socket.socket() as listening:
            listening.bind((address, 0))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    done = sorted(name for name in os.listdir(given["NEMOTRON_JOB_DIR"]) if name.startswith("done-"))
    tell(
        given=given, addresses=[socket.inet_aton(address).hex() for address in addresses], done=done,
        files=files[0] == min(files[1], 1 << 20),
    )
"""
SETUP = (
    'export AT_SETUP="$NEMOTRON_NODE_RANK of $NEMOTRON_NUM_NODES, done: $NEMOTRON_SETUP_DONE"',
    '[ "$NEMOTRON_NODE_RANK" -eq 0 ] || until [ -e "$NEMOTRON_JOB_DIR/done-0" ]; do sleep 0.1; done',
    'sleep "$NEMOTRON_NODE_RANK"; touch "$NEMOTRON_JOB_DIR/done-$NEMOTRON_NODE_RANK"',
)
HELD = """
    print("ready", flush=True)
    wait_for_word()
"""
FAILS = '[ "$NEMOTRON_NODE_RANK" -ne 1 ] || exit 5; sleep 3600'


def test_contract(bench):
    """Each node is told its rank, the addresses of all in their order, a master, and starts once all are set up."""
    bench = bench.of_several()
    bench.profile(startup_commands=SETUP)
    ended = bench.attached(LOOK, MASTER_ADDR="not.this.one", RANK="7", WORLD_SIZE="9", NEMOTRON_SETUP_DONE="1")
    name, nodes, places = bench.newest(), bench.rig.nodes, set()
    for rank, told in enumerate(ended.told_by_node):
        given = told.pop("given")
        expected = {
            "NEMOTRON_JOB_NAME": name, "NEMOTRON_NODE_RANK": str(rank), "NEMOTRON_NUM_NODES": str(nodes),
            "NEMOTRON_GPUS_PER_NODE": "0", "NEMOTRON_SETUP_DONE": "1", "AT_SETUP": f"{rank} of {nodes}, done: 0",
            "NODE_RANK": str(rank), "NNODES": str(nodes), "WORLD_SIZE": str(nodes), "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        assert {name: given.get(name) for name in expected} == expected
        assert 1024 < int(given["MASTER_PORT"]) < 65536
        assert {"NEMO_RUN_DIR", "NEMOTRON_JOB_DIR", "NEMOTRON_METRICS_FILE"} <= set(given)
        assert given.get("RANK") == (None if nodes == 1 else str(rank))
        done = [f"done-{node}" for node in range(nodes)]
        assert len(told.pop("addresses")) == nodes
        assert told == {"done": done, "files": True}
        places.add((given["MASTER_ADDR"], given["MASTER_PORT"], given["NEMOTRON_NODE_IPS"]))
    assert len(places) == 1


@pytest.mark.slow
def test_work_of_the_first_node(bench):
    """What is for the first node runs there alone: startup commands that all wait for, a command that all stay for."""
    bench = bench.of_several()
    made = '"$NEMOTRON_JOB_DIR/made-by-$NEMOTRON_NODE_RANK"'
    first = ["sleep 1", f"touch {made}; export ONLY=$NEMOTRON_NODE_RANK"]
    bench.profile(head_startup_commands=first, startup_commands=['ls "$NEMOTRON_JOB_DIR/made-by-0"'], head_only=True)
    ended = bench.attached(
        """
        import glob
        print("made by", [name[-1] for name in glob.glob(os.environ["NEMOTRON_JOB_DIR"] + "/made-by-*")])
        print("ran on", os.environ["NEMOTRON_NODE_RANK"], "with", os.environ["ONLY"])
        """
    )
    assert ended.code == 0, ended.err
    said = [line.removeprefix("[rank0] ") for line in ended.out.splitlines() if "made by" in line or "ran on" in line]
    assert said == ["made by ['0']", "ran on 0 with 0"]


@pytest.mark.slow
def test_failing_setup_of_one_node(bench):
    """A node that fails in its startup commands is named, with its exit code; the others, amid theirs, are ended."""
    bench = bench.of_several()
    bench.profile(startup_commands=["true", FAILS])
    ended = bench.attached("tell(reached=True)")
    assert (ended.code, "TOLD" in ended.out) == (5, False), ended.err
    assert "node 1 failed in its setup: startup command 2 of 2" in ended.err, ended.err


@pytest.mark.slow
def test_failing_node(bench):
    """A node whose command fails is named, with its exit code; those of the others are ended."""
    bench = bench.of_several()
    bench.profile(run_command=FAILS)
    ended = bench.attached("")
    record = bench.show(bench.newest())
    assert (ended.code, record["state"], record["exit_code"]) == (5, "failed", 5), ended.err
    assert "node 1" in record["cause"] or "rank 1" in record["cause"], record
    assert bench.leftovers(record["name"]) == []


@pytest.mark.slow
def test_shell_in_a_job(bench):
    """`jobs ssh` runs a command in a running job, on any node: its variables, directory, exit code; not later."""
    bench = bench.of_several()
    bench.profile(startup_commands=["export OF_SETUP='a  b'", "cd /dev"])
    name = bench.detached(HELD)
    bench.log_has(name, "ready")
    last = str(bench.rig.nodes - 1)
    said = 'echo "$OF_SETUP, node $NEMOTRON_NODE_RANK of $NEMOTRON_JOB_NAME, $NEMOTRON_SETUP_DONE $PWD"; exit 7'
    done = bench.nemotron("jobs", "ssh", name, "--node", last, "--", "bash", "-c", said)
    assert (done.code, done.out) == (7, f"a  b, node {last} of {name}, 1 /dev\n"), done.err
    bench.give_word(name)
    assert bench.wait(name) == 0
    bench.nemotron("jobs", "ssh", name).refuses(f"job '{name}' is succeeded, and a shell needs a running job")

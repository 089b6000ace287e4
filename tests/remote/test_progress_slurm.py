"""How far jobs of a cluster are, read with the question about their states, over SSH."""

from __future__ import annotations

from labs.slurm.fixtures import needs_slurm
from waiting import open_gate

pytestmark = needs_slurm

TRAINS = """
    import json, os, time
    with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as metrics:
        for step in (1, 30):
            metrics.write(json.dumps({"step": step, "total_steps": 200, "loss": 30 / step}) + "\\n")
        metrics.write("\\x1equeue;\\x1f0\\n==> /etc/passwd <==\\n")
    while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/go"):
        time.sleep(0.05)
"""


def test_progress_comes_with_the_state(cluster):
    """What a job writes into its file cannot be taken for an answer of Slurm's."""
    names = [cluster.batch(TRAINS) for _ in range(2)]
    for name in names:
        cluster.until(name, lambda record: record.get("progress", {}).get("step") == 30)
    told = cluster.nemotron("jobs", "status", *names).succeeds()
    assert told.out.count("loss 1, step 30/200") == 2, told.out
    # 'list' and 'show' ask nobody.
    cluster.lab.stop_ssh()
    try:
        assert "step 30/200" in cluster.nemotron("jobs", "show", names[0]).succeeds().out
        assert cluster.nemotron("jobs", "list").succeeds().out.count("step 30/200") == 2
    finally:
        cluster.lab.start_ssh()
    for name in names:
        open_gate(cluster.remote(name))
    assert cluster.nemotron("jobs", "wait", *names).code == 0
    assert "progress" not in cluster.show(names[0])


def test_a_watch_of_a_clusters_job_ends_with_its_exit_code(cluster):
    name = cluster.batch(TRAINS + "    raise SystemExit(3)\n")
    watching = cluster.started("jobs", "status", "--watch", name)
    open_gate(cluster.remote(name))
    out, _ = watching.communicate(timeout=300)
    assert watching.returncode == 3
    assert f"{name}: failed, exit code 3" in out

"""`jobs pull` and `jobs forward` of a job on a cluster, through the login node's real sshd."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import suppress

from labs.slurm.fixtures import needs_slurm
from waiting import until

pytestmark = needs_slurm

MAKES = """
    import os, pathlib
    top = pathlib.Path(os.environ["NEMOTRON_JOB_DIR"])
    (top / "ckpt").mkdir()
    (top / "ckpt/weights").write_bytes(bytes(range(256)) * 4096)
    (top / "ckpt/latest").symlink_to("weights")
    print("made", flush=True)
"""
SERVES = """
    import http.server, os, pathlib
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), http.server.SimpleHTTPRequestHandler)
    top = pathlib.Path(os.environ["NEMOTRON_JOB_DIR"])
    (top / "greeting").write_text("from the node")
    (top / "port.tmp").write_text(str(server.server_address[1]))
    (top / "port.tmp").rename(top / "port")
    os.chdir(top)
    server.serve_forever()
"""


def test_a_checkpoint_is_brought_here_whole_and_once(cluster):
    name = cluster.batch(MAKES)
    assert cluster.nemotron("jobs", "wait", name).code == 0
    outcome = cluster.nemotron("jobs", "pull", name, "ckpt").succeeds()
    here = cluster.project.folder / name / "ckpt"
    assert outcome.out.strip() == str(here)
    assert (here / "weights").read_bytes() == bytes(range(256)) * 4096
    assert str((here / "latest").readlink()) == "weights"
    assert "1.0 MB of it here before" in cluster.nemotron("jobs", "pull", name, "ckpt").succeeds().err
    logs = cluster.nemotron("jobs", "pull", name, "logs").succeeds()
    files = [path.name for path in (cluster.project.folder / name / "logs").iterdir()]
    assert any(file.startswith("log-") for file in files), (files, logs.err)
    cluster.nemotron("jobs", "pull", name, "ckpt/weight").refuses("/ckpt there are: ", "weights", "latest")
    cluster.nemotron("jobs", "pull", name, "weights-10").refuses(" there are: ", "ckpt/, ")
    cluster.lab.stop_ssh()
    try:
        cut = cluster.nemotron("jobs", "pull", name, "ckpt", "--to", "other")
        assert cut.code == 2 and cut.err.startswith("error: ")
    finally:
        cluster.lab.start_ssh()


def test_a_port_of_the_jobs_node_is_reached_from_here(cluster):
    name = cluster.batch(SERVES)
    cluster.until(name, lambda record: record["state"] == "running")
    port = until((cluster.remote(name) / "port").exists) and (cluster.remote(name) / "port").read_text()
    here = free_port()
    forwarding = cluster.started("jobs", "forward", name, f"{here}:{port}")
    try:
        assert until(lambda: answer(here), "an answer") == "from the node"
    finally:
        forwarding.terminate()
        _, said = forwarding.communicate(timeout=60)
        cluster.nemotron("jobs", "cancel", name)
    assert f"http://127.0.0.1:{here} leads to n" in said


def answer(port: int) -> str:
    with suppress(OSError):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/greeting", timeout=10).read().decode()
    return ""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

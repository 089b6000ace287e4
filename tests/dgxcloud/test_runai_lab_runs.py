"""The run:ai server of the tests: it really runs what it is given, and fails as it is told."""

from __future__ import annotations

from typing import Any

import pytest
from labs.pods import needs_mounts
from labs.runai.model import Workload
from runai_client import Client, ended, reached, reasons
from waiting import LONG, until

pytestmark = needs_mounts

ONE = """
echo "secret $TOKEN at $WHERE, é"
cat /data/input; echo changed > /data/output; echo no > /fixed/x || echo "read only"; ls /tmp
exit 7
"""


def test_it_runs_a_training(client: Client) -> None:
    lab = client.lab
    (lab.claims["data"] / "input").write_text("given\n")
    claims = [
        {"claimName": "data", "path": "/data", "existingPvc": True},
        {"claimName": "scratch", "path": "/fixed", "existingPvc": True, "readOnly": True},
    ]
    secret = lab.credential("hub", {"KEY": "value-of-secret"})
    variables = [
        {"name": "TOKEN", "secret": {"name": secret, "key": "KEY"}},
        {"name": "WHERE", "podFieldRef": {"path": "spec.nodeName"}},
    ]
    workload = client.training(ONE, storage={"pvc": claims}, variables=variables)
    assert ended(workload) == "Failed"
    assert client.get(f"/workloads/trainings/{workload.id}")["actualPhase"] == "Failed"
    pod = client.get(f"/workloads/{workload.id}/pods")["pods"][0]
    text = client.log(pod["name"]).text
    assert "secret value-of-secret at gpu-node-1, é\ngiven\n" in text and "read only" in text
    assert (lab.claims["data"] / "output").read_text() == "changed\n"
    status = client.session.get(f"{lab.kube_url}/api/v1/namespaces/runai-{lab.project}/pods/{pod['name']}").json()
    assert status["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert "value-of-secret" not in client.call("GET", f"/workloads/trainings/{workload.id}").text
    phases = [item["spec"]["phaseUpdate"]["phase"] for item in workload.history if "phaseUpdate" in item["spec"]]
    assert phases == ["Pending", "Creating", "Initializing", "Running", "Failed"]


TWO = """
echo "rank $RANK of $WORLD_SIZE on $HOSTNAME"
if [ "$RANK" = 0 ]; then
  python3 -c 'import os, socket
s = socket.create_server(("", int(os.environ["MASTER_PORT"]))); c = s.accept()[0]; print("met", c.recv(99).decode())'
else
  python3 -c 'import os, socket, time
for _ in range(3000):
    try: c = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))); break
    except OSError: time.sleep(0.02)
c.sendall(os.environ["HOSTNAME"].encode()); c.close()'
fi
echo "$RANK" > "/data/rank-$RANK"
until [ "$RANK" != 0 ] || [ -e /data/go ]; do sleep 0.1; done
"""


def test_it_runs_two_nodes(client: Client) -> None:
    workload = client.two_nodes(TWO)
    reached(workload, "Running")
    worker = workload.pods[1]
    until(lambda: worker.phase, "the worker's end", lambda phase: phase == "Succeeded")  # the master's would cut it off
    (client.lab.claims["data"] / "go").touch()
    assert ended(workload) == "Completed"
    pods = client.get(f"/workloads/{workload.id}/pods")["pods"]
    assert [(pod["name"], pod["nodeName"]) for pod in pods] == [
        ("pair-master-0", "gpu-node-1"),
        ("pair-worker-0", "gpu-node-2"),
    ]
    assert client.log("pair-master-0", container="pytorch").text == "rank 0 of 2 on pair-master-0\nmet pair-worker-0\n"
    assert {path.name for path in client.lab.claims["data"].iterdir()} == {"go", "rank-0", "rank-1"}


def test_workers_only_have_no_rank(client: Client) -> None:
    body = client.request("only", "echo rank=$RANK $PET_NNODES", distributedFramework="PyTorch", numWorkers=2)
    assert ended(client.start("distributed", body)) == "Completed"
    assert client.log("only-worker-1").text == "rank= 2\n"


def test_a_log_has_times_and_a_beginning(client: Client) -> None:
    workload = client.training(
        "for i in 1 2 3; do echo line $i; done; until [ -e /data/go ]; do sleep 0.1; done; echo last"
    )
    reached(workload, "Running")
    until(lambda: client.log("job-0-0").text, "line 3", lambda text: "line 3" in text)
    stamps = [line.split()[0] for line in client.log("job-0-0", timestamps="true").text.splitlines()]
    assert stamps == sorted(set(stamps)) and len(stamps) == 3
    late = f"{stamps[0].partition('.')[0]}.999999999Z"
    since = client.log("job-0-0", timestamps="true", sinceTime=late).text.splitlines()
    assert [line.split()[0] for line in since] == stamps, "sinceTime counts in whole seconds"
    assert client.log("job-0-0", tailLines=1).text == "line 3\n"
    assert client.log("job-0-0", container="other").status_code == 400
    (client.lab.claims["data"] / "go").touch()
    assert client.log("job-0-0", follow="true").text == "line 1\nline 2\nline 3\nlast\n"
    assert ended(workload) == "Completed"


def test_a_failed_training_is_run_again_by_default(client: Client) -> None:
    workload = client.training("echo try >> /data/tries; [ $(wc -l < /data/tries) = 3 ]", backoffLimit=None)
    assert ended(workload) == "Completed"
    assert workload.pods[0].restarts == 2


STOPPABLE = "trap 'echo stopping; touch /data/told-$HOSTNAME; exit 143' TERM; echo up; while :; do sleep 0.1; done"


@pytest.mark.parametrize("kind", ["trainings", "distributed"])
def test_suspend_ends_it(client: Client, kind: str) -> None:
    lab = client.lab
    lab.timing.grace = LONG
    workload = client.training(STOPPABLE) if kind == "trainings" else client.two_nodes(STOPPABLE)
    reached(workload, "Running")
    pods = [pod.name for pod in workload.pods]
    until(lambda: all("up" in client.log(pod).text for pod in pods), "up of every pod")
    answer = client.call("POST", f"/workloads/{kind}/{workload.id}/suspend")
    assert answer.json() == {"code": 202, "message": "Request has been accepted."}
    assert ended(workload) == "Stopped"
    assert {path.name for path in lab.claims["data"].iterdir()} == {f"told-{pod}" for pod in pods}
    assert not lab.pods.running
    assert client.log(pods[0]).status_code == 404
    assert client.call("POST", f"/workloads/{kind}/{workload.id}/resume").status_code == 202
    until(lambda: client.log(pods[0]).status_code, "a log anew", lambda status: status == 200)
    lab.timing.grace = 0.3
    assert client.call("DELETE", f"/workloads/{kind}/{workload.id}").status_code == 202
    assert client.call("GET", f"/workloads/{workload.id}").status_code == 404
    ended(workload)
    assert not lab.pods.running
    assert [item["id"] for item in client.get("/workloads", deleted="true")["workloads"]] == [workload.id]


def test_the_master_ends_it_and_what_still_runs_is_ended(client: Client) -> None:
    workload = client.two_nodes('[ "$RANK" = 0 ] || sleep 600')
    assert ended(workload) == "Completed"
    assert not client.lab.pods.running
    assert client.log("pair-worker-0").status_code == 404


# What goes wrong

LOOP = "echo up; while :; do sleep 0.1; done"
STUCK = {
    "nocapacity": ("Pending", "Unschedulable"),
    "badnode": ("Creating", "FailedMount"),
    "imagepull": ("Initializing", "BackOff"),
}


def told(client: Client, workload: Workload, reason: str) -> None:
    """Waits for an event with that reason."""
    until(lambda: reasons(client, workload), f"event {reason}", lambda found: reason in found)


@pytest.mark.parametrize("kind", STUCK)
def test_it_waits_for_ever(client: Client, kind: str) -> None:
    phase, reason = STUCK[kind]
    client.lab.scenario("job", kind)
    workload = client.training(LOOP)
    told(client, workload, reason)
    assert client.get(f"/workloads/{workload.id}")["phase"] == phase
    assert client.log("job-0-0").status_code == 400
    client.call("POST", f"/workloads/trainings/{workload.id}/suspend")
    assert ended(workload) == "Stopped"
    assert ended(client.training("true", "job-again")) == "Completed"


STRUCK: dict[str, tuple[dict[str, Any], str, int]] = {
    "oom": ({"when": "up"}, "OOMKilling", 137),
    "evicted": ({"when": "up", "grace": 0.2}, "Evicted", 137),
    "badnode": ({"when": "up", "lost": True}, "NodeNotReady", 137),
    "quickfail": ({}, "Started", 128),
}


@pytest.mark.parametrize("kind", STRUCK)
def test_it_fails(client: Client, kind: str) -> None:
    settings, reason, code = STRUCK[kind]
    client.lab.scenario(None, kind, **settings)
    workload = client.two_nodes(LOOP)
    assert ended(workload) == "Failed"
    assert reason in reasons(client, workload)
    assert code in [pod.exit_code for pod in [*workload.pods, *workload.removed]]
    phases = [item["spec"]["phaseUpdate"]["phase"] for item in workload.history if "phaseUpdate" in item["spec"]]
    assert ("Running" in phases) == (kind != "quickfail")
    assert not client.lab.pods.running


def test_what_is_preempted_is_run_anew(client: Client) -> None:
    client.lab.scenario(None, "evicted", when="up", reason="Preempted", grace=0.2, again=True)
    workload = client.training(f"echo try >> /data/tries; [ $(wc -l < /data/tries) = 2 ] || {{ {LOOP}; }}")
    assert ended(workload) == "Completed"
    phases = [item["spec"]["phaseUpdate"]["phase"] for item in workload.history if "phaseUpdate" in item["spec"]]
    assert phases.count("Pending") == phases.count("Running") == 2 and "Failed" not in phases


def test_a_bad_node_can_be_avoided(client: Client) -> None:
    client.lab.scenario(None, "badnode", node="gpu-node-1", times=None)
    stuck = client.training("true", "first")
    told(client, stuck, "FailedMount")
    expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["gpu-node-1"]}
    affinity = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    workload = client.training("true", "second", nodeAffinityRequired=affinity)
    assert ended(workload) == "Completed"
    assert workload.pods[0].node == "gpu-node-2"


def test_a_secret_that_is_not_there(client: Client) -> None:
    variables = [{"name": "TOKEN", "secret": {"name": "nowhere", "key": "KEY"}}]
    workload = client.training("true", variables=variables)
    told(client, workload, "Failed")
    path = f"/api/v1/namespaces/runai-{client.lab.project}/pods"
    listed = client.session.get(f"{client.lab.kube_url}{path}", params={"labelSelector": "workloadName=job"}).json()
    waiting = listed["items"][0]["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": 'secret "nowhere" not found'}


@pytest.mark.parametrize(("kind", "phase"), [("unknown_phase", "Hibernating"), ("degraded", "Degraded")])
def test_it_tells_another_phase(client: Client, kind: str, phase: str) -> None:
    client.lab.scenario(None, kind)
    workload = client.training("until [ -e /data/go ]; do sleep 0.1; done")
    reached(workload, phase)
    assert client.get(f"/workloads/trainings/{workload.id}")["actualPhase"] == phase
    (client.lab.claims["data"] / "go").touch()
    assert ended(workload) == "Completed"


def test_a_log_is_cut_and_tokens_end(client: Client) -> None:
    client.lab.scenario("cut", "truncated_log", lines=2)
    client.lab.scenario("ends", "expired", when="up")
    cut = client.training("seq 9", "cut")
    assert ended(cut) == "Completed"
    assert client.log("cut-0-0").text == "8\n9\n"
    client.training(LOOP, "ends")
    until(lambda: client.call("GET", "/workloads").status_code, "the token's end", lambda status: status == 401)
    client.login()
    assert client.get("/workloads")["workloads"]


# Others' programs


@pytest.mark.parametrize("nodes", [1, 2])
def test_nemo_run_is_served_as_it_is(client: Client, nodes: int) -> None:
    """What NVIDIA's own client sends is taken; that its way of cancelling is refused is its known defect."""
    from nemo_run.core.execution.dgxcloud import DGXCloudExecutor

    lab = client.lab
    lab.projects = [lab.mine]  # it reads the first page only
    executor = DGXCloudExecutor(
        base_url=lab.base_url,
        kube_apiserver_url=lab.kube_url,
        client_id=lab.client_id,
        client_secret=lab.client_secret,
        project_name=lab.project,
        container_image="lab/any",
        pvc_nemo_run_dir="/data",
        nodes=nodes,
        gpus_per_node=8,
        pvcs=[{"name": "data", "path": "/data", "existingPvc": True, "claimName": "data"}],
    )
    executor.pvc_job_dir = "/data"
    both = f"until [ $(wc -l < /data/said) = {nodes} ]; do sleep 0.1; done"  # the first to end would cut the other off
    (lab.claims["data"] / "launch_script.sh").write_text(f"echo hello >> /data/said\n{both}\n")
    token = executor.get_auth_token()
    project, cluster = executor.get_project_and_cluster_id(token)
    answer = executor.create_training_job(token, project, cluster, "nemo")
    assert answer.status_code == 202, answer.text
    workload = lab.workloads[answer.json()["workloadId"]]
    assert ended(workload) == "Completed"
    assert (lab.claims["data"] / "said").read_text() == "hello\n" * nodes
    assert executor.status(workload.id).value == "Completed"

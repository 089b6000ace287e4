"""The Lepton lab itself: Lepton's own client works against it, it refuses what it should, and jobs really run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labs.lepton.lab import LeptonLab
from labs.lepton.rules import LARGEST_JOB, LONGEST_ARGUMENT
from labs.lepton.scenario import Timings
from labs.pods import Pods, needs_mounts
from labs.slurm.process import children
from waiting import line_of, until

GROUP = "ng-h100-4f2a"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:leptonai|starlette|fastapi")
STUCK = ("imagepull", "imagepull_denied", "badnode", "stuck_pull", "stuck_start")


def job(name: str = "try", script: str = "true", **spec: Any) -> dict[str, Any]:
    """A job's description that is accepted."""
    made = {
        "resource_shape": "gpu.1xh100-sxm",
        "affinity": {"allowed_dedicated_node_groups": [GROUP]},
        "container": {"image": "nvcr.io/nvidia/nemo:25.11", "command": ["/bin/bash", "-c", script]},
    }
    return {"metadata": {"id": name}, "spec": {**made, **spec}}


def call(lab: LeptonLab, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
    """One request: status and JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {lab.token if token is None else token}", "Content-Type": "application/json"}
    url = path if path.startswith("http") else lab.url + path
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def submit(lab: LeptonLab, *args: Any, **spec: Any) -> Any:
    """Submits what is accepted; the lab's own job."""
    status, answer = call(lab, "POST", "/jobs", job(*args, **spec))
    assert status == 201, answer
    return next(each for each in lab.jobs if each.id == answer["metadata"]["id"])


def shown(lab: LeptonLab, one: Any) -> Any:
    """A job as clients see it."""
    return call(lab, "GET", f"/jobs/{one.id}?job_query_mode=alive_and_archive")[1]


def replicas(lab: LeptonLab, one: Any) -> list[Any]:
    """Its replicas as clients see them, those of earlier attempts too."""
    found: list[Any] = call(lab, "GET", f"/jobs/{one.id}/replicas?job_query_mode=alive_and_archive")[1]
    return found


def issue(lab: LeptonLab, one: Any) -> tuple[str, str]:
    """What keeps its first replica, reason and message: empty before there is one, and between two of them."""
    found = replicas(lab, one)
    said = found[0]["status"].get("readiness_issue", {}) if found else {}
    return said.get("reason", ""), said.get("message", "")


def lines(lab: LeptonLab, one: Any, **query: Any) -> list[tuple[int, str]]:
    """Lines of `/logs`, in the order of the answer's streams."""
    words = "&".join(f"{key}={value}" for key, value in {"limit": 5000, **query}.items())
    status, answer = call(lab, "GET", f"/logs?job={one.id}&job_query_mode=alive_and_archive&{words}")
    assert status == 200, answer
    return [(int(ns), line) for stream in answer["data"]["result"] for ns, line in stream["values"]]


@pytest.fixture
def client(lepton_lab: LeptonLab) -> Any:
    """The installed client, as it is."""
    from leptonai.api.v1.client import APIClient

    return APIClient(lepton_lab.workspace, lepton_lab.token, lepton_lab.url)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    """Containers without a server."""
    with Pods(tmp_path / "pods") as made:
        yield made


@needs_mounts
def test_leptons_own_client_runs_a_job_to_its_end(lepton_lab, client):
    from leptonai.api.v1.types.job import LeptonJob
    from leptonai.api.v1.types.secret import SecretItem

    assert client.info().workspace_name == lepton_lab.workspace
    group = next(each for each in client.nodegroup.list_all() if each.metadata.name == "h100-pool")
    assert len(client.nodegroup.list_nodes(group)) == group.status.ready_nodes == 4
    client.secret.create([SecretItem(name="my-hf", value="hf_lab")])
    assert [each.name for each in client.secret.list_all()] == ["my-hf"]
    script = 'echo "größe $LEPTON_JOB_WORKER_INDEX $HF"; echo $HF >/mnt/data/$LEPTON_WORKER_ID; cat /mnt/read/x'
    (lepton_lab.volumes["lustre"] / "x").write_text("from the volume\n")
    body = job(
        "env-job",
        script,
        completions=2,
        parallelism=2,
        envs=[{"name": "HF", "value_from": {"secret_name_ref": "my-hf"}}],
        mounts=[
            {"path": "/out", "from": "node-nfs:lustre", "mount_path": "/mnt/data"},
            {"path": "/", "from": "node-nfs:lustre", "mount_path": "/mnt/read", "mount_options": {"read_only": True}},
        ],
    )
    id = client.job.create(LeptonJob(**body)).metadata.id_
    assert id != "env-job" and id.startswith("env-job-") and len(id) == len("env-job-") + 4
    assert [each.metadata.id_ for each in client.job.list_all()] == [id]
    until(lambda: client.job.get(id).status.state.value, "its end", lambda state: state == "Completed")
    pods = client.job.get_replicas(id)
    assert [each.id_.rpartition("-")[0] for each in pods] == [f"{id}-0", f"{id}-1"]
    assert len({each.status.node.id_ for each in pods}) == 2
    assert "".join(client.job.get_log(id, pods[1])) == "größe 1 hf_lab\nfrom the volume\n"
    now = time.time_ns()
    history = client.log.get_log(name_or_job=id, replica=pods[0], start=str(now - 10**12), end=str(now))
    assert [line for _, line in history["data"]["result"][0]["values"]] == ["from the volume", "größe 0 hf_lab"]
    assert {"Scheduled", "Pulled", "Started"} <= {event.reason for event in client.job.get_events(id)}
    written = {file.name: file.read_text() for file in (lepton_lab.volumes["lustre"] / "out").iterdir()}
    assert written == {each.id_: "hf_lab\n" for each in pods}


@needs_mounts
def test_leptons_own_client_stops_restarts_and_deletes(lepton_lab, client):
    from leptonai.api.v1.api_resource import ClientError
    from leptonai.api.v1.types.job import LeptonJob

    lepton_lab.timings = Timings(grace=60)
    body = job("long", "trap 'echo asked; exit 143' TERM; echo up; while :; do sleep 0.05; done")
    id = client.job.create(LeptonJob(**body)).metadata.id_
    one = lepton_lab.jobs[0]
    until(lambda: "up" in one.text, "its word")
    assert client.job.update(id, {"spec": {"stopped": True}})
    one.wait_for("Stopped")
    assert one.text == "up\nasked\n" and not lepton_lab.running
    assert client.job.get(id).status.state.value == "Stopped"
    assert client.job.update(id, {"spec": {"stopped": False}})
    until(lambda: one.text.count("up") == 2, "its word once more")
    assert client.job.delete(id)
    one.wait_for("Deleted")
    assert not lepton_lab.running
    with pytest.raises(ClientError, match="404"):
        client.job.get(id)
    assert client.job.list_all() == []


def test_who_may_ask(lepton_lab):
    def status(path: str = "/jobs", token: str | None = None) -> int:
        return call(lepton_lab, "GET", path, token=token)[0]

    elsewhere = lepton_lab.url.replace("ws-lab", "ws-none") + "/jobs"
    assert status() == 200
    assert status(token="bad") == status(token="") == status("/no-such-path", "bad") == status(elsewhere, "bad") == 401
    assert status(token=lepton_lab.other_token) == 403
    assert status(elsewhere) == 404
    assert "expired" not in call(lepton_lab, "GET", "/jobs", token="bad")[1]["message"]
    old = lepton_lab.token
    lepton_lab.renew_token()
    assert status(token=old) == 401 and status() == 200


def mount(**values: str) -> dict[str, Any]:
    return job(mounts=[{"path": "/", "from": "node-nfs:lustre", "mount_path": "/mnt/x", **values}])


def env(**values: Any) -> dict[str, Any]:
    return job(envs=[{"name": "A", **values}])


REFUSED = {
    "upper case": (job("Try"), "invalid name"),
    "a digit first": (job("1try"), "invalid name"),
    "a dash at the end": (job("try-"), "invalid name"),
    "too long a name": (job("t" * 37), "37 characters"),
    "a reserved name": (job("try-by-lepton"), "invalid name"),
    "no image": (job(container={"command": ["true"]}), "'image' is a required property"),
    "an unknown field": (job(gpus=8), "'gpus' was unexpected"),
    "an unknown shape": (job(resource_shape="gpu.9"), "is no resource shape"),
    "a shape of another group": (job(resource_shape="gpu.8xa100-80gb"), "not offered"),
    "a shape for endpoints": (job(resource_shape="gpu.8xh100-endpoint"), "no resource shape for jobs"),
    "a group's name": (job(affinity={"allowed_dedicated_node_groups": ["h100-pool"]}), "no node group with id"),
    "an unknown node": (
        job(affinity={"allowed_dedicated_node_groups": [GROUP], "allowed_nodes_in_node_group": ["a100-node-0"]}),
        "no node 'a100-node-0'",
    ),
    "a mount without from": (job(mounts=[{"path": "/", "mount_path": "/mnt/x"}]), "'from' is a required property"),
    "an unknown volume": (mount(**{"from": "node-nfs:nothing"}), "no volume"),
    "a path without permission": (mount(**{"from": "node-nfs:home"}), "no permission for '/'"),
    "a reserved path": (mount(mount_path="/opt"), "'/opt' is reserved"),
    "a relative path": (mount(mount_path="data"), "not absolute"),
    "a reserved variable": (job(envs=[{"name": "LEPTON_JOB_NAME", "value": "x"}]), "is reserved"),
    "a variable with two values": (env(value="x", value_from={"secret_name_ref": "s"}), "either value or value_from"),
    "an unknown secret": (env(value_from={"secret_name_ref": "none"}), "no secret 'none'"),
    "an unknown registry": (job(image_pull_secrets=["ngc"]), "no image pull secret 'ngc'"),
    "no workers": (job(completions=0), "minimum"),
    "too long an argument": (job(script="x" * (LONGEST_ARGUMENT + 1)), "argument list too long"),
    "a priority there is not": (job(queue_config={"priority_class": "urgent"}), "is not one of"),
    "preemption without a priority": (job(queue_config={"can_preempt": True}), "priority_class"),
    "an unknown reservation": (job(reservation_config={"reservation_id": "res-1"}), "no reservation"),
    "labels": ({**job(), "metadata": {"id": "try", "labels": {"k" * 64: "v"}}}, "invalid key"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_job_may_not_be(lepton_lab, name):
    body, words = REFUSED[name]
    status, answer = call(lepton_lab, "POST", "/jobs", body)
    assert status == 400 and words in answer["message"], answer
    assert not lepton_lab.jobs


def test_a_job_has_a_largest_size(lepton_lab):
    words = ["/bin/true", *["x" * 100_000] * 16]
    status, answer = call(lepton_lab, "POST", "/jobs", job(container={"image": "i", "command": words}))
    assert status == 413 and str(LARGEST_JOB) in answer["message"]


def test_jobs_are_listed_in_pages_and_by_mode(lepton_lab):
    lepton_lab.scenario(None, "nocapacity", times=None)
    made = [submit(lepton_lab, f"many-{index}") for index in range(3)] + [submit(lepton_lab, "other")]

    def ids(query: str) -> list[str]:
        status, answer = call(lepton_lab, "GET", f"/jobs?{query}")
        assert status == 200, answer
        return [each["metadata"]["id"] for each in answer["jobs"]]

    assert len(ids("page=1&page_size=3")) == 3 and len(ids("page=2&page_size=3")) == 1
    assert ids("page=3&page_size=3") == []
    assert sorted(ids("q=many&page=1")) == sorted(each.id for each in made[:3])
    assert ids("job_query_mode=archive_only") == [] and len(ids("job_query_mode=alive_and_archive")) == 4
    for query in ("page=0", "page_size=501", "job_query_mode=archive_and_live", "pages=1"):
        assert call(lepton_lab, "GET", f"/jobs?{query}")[0] == 400, query


def test_secrets_are_not_told_and_not_made_twice(lepton_lab):
    login = {"registry_server": "nvcr.io", "username": "$oauthtoken", "password": "nvapi-lab"}
    registry = {"metadata": {"name": "ngc", "id": "ngc"}, "spec": login}
    for path, body in (("/usersecrets", [{"name": "hf", "value": "hf_lab"}]), ("/imagepullsecrets", registry)):
        assert call(lepton_lab, "POST", path, body)[0] == 201
        assert call(lepton_lab, "POST", path, body)[0] == 409
        said = json.dumps(call(lepton_lab, "GET", path)[1])
        assert "hf" in said or "ngc" in said
        assert "_lab" not in said and "nvapi" not in said
    assert call(lepton_lab, "DELETE", "/usersecrets/hf")[0] == 200
    assert call(lepton_lab, "DELETE", "/usersecrets/hf")[0] == 404


@needs_mounts
@pytest.mark.parametrize("form", ["worker", "service"])
def test_pods_have_the_platforms_variables_and_find_each_other(lepton_lab, form):
    lepton_lab.hosts = form
    script = """
        for name in NAME WORKER_INDEX TOTAL_WORKERS FAILURE_COUNT; do n=LEPTON_JOB_$name; echo "$name=${!n}"; done
        for prefix in "$LEPTON_JOB_WORKER_PREFIX" "$LEPTON_JOB_SERVICE_PREFIX"; do
            getent hosts "$prefix-0.$LEPTON_SUBDOMAIN" >/dev/null && echo "found $prefix"
        done
        echo "$LEPTON_RESOURCE_ACCELERATOR_NUM $(hostname)"
    """
    one = submit(lepton_lab, "talk", script, completions=2, parallelism=2, intra_job_communication=True)
    one.wait_for("Completed")
    found = f"found {'worker' if form == 'worker' else one.id}\n"
    for index, replica in enumerate(one.replicas):
        expected = f"NAME={one.id}\nWORKER_INDEX={index}\nTOTAL_WORKERS=2\nFAILURE_COUNT=0\n{found}1 worker-{index}\n"
        assert replica.pod.text == expected
    alone = submit(lepton_lab, "alone", script, completions=2, parallelism=2)
    alone.wait_for("Completed")
    assert "found" not in alone.text


@needs_mounts
@pytest.mark.parametrize("kind", STUCK)
def test_jobs_that_stick_say_why(lepton_lab, kind):
    lepton_lab.scenario("try", kind)
    one = submit(lepton_lab)
    one.wait_for("Starting")
    expected = {
        "imagepull": ("Failed", "not found"),
        "imagepull_denied": ("Failed", "401"),
        "badnode": ("ConfigError", "Mount point not found"),
        "stuck_pull": ("InProgress", "Pulling image"),
        "stuck_start": ("InProgress", "Creating container"),
    }[kind]

    def is_expected(said: tuple[str, str]) -> bool:
        return said[0] == expected[0] and expected[1] in said[1]

    until(lambda: issue(lepton_lab, one), "the issue", is_expected)
    assert one.state == "Starting" and not lepton_lab.running
    assert call(lepton_lab, "PATCH", f"/jobs/{one.id}", {"spec": {"stopped": True}})[0] == 200
    one.wait_for("Stopped")


def test_a_job_without_room_waits_until_there_is_some(lepton_lab):
    lepton_lab.scenario("first", "stuck_start")
    big = {"resource_shape": "gpu.8xh100-sxm", "completions": 4, "parallelism": 4}
    first = submit(lepton_lab, "first", **big)
    first.wait_for("Starting")
    nodes = call(lepton_lab, "GET", f"/dedicated-node-groups/{GROUP}/nodes")[1]
    assert [node["spec"]["resource"]["gpu"]["allocated"] for node in nodes] == [8.0] * 4
    assert call(lepton_lab, "GET", f"/dedicated-node-groups/{GROUP}/nodes?idle=true")[1] == []
    lepton_lab.scenario("second", "stuck_start")
    second = submit(lepton_lab, "second")

    until(lambda: issue(lepton_lab, second), "no capacity", lambda said: said[0] == "NoCapacity")
    assert shown(lepton_lab, second)["status"]["state"] == "Queueing"
    assert "node" not in replicas(lepton_lab, second)[0]["status"]
    events = f"/jobs/{second.id}/events"
    until(lambda: json.dumps(call(lepton_lab, "GET", events)[1]), "the event", lambda told: "FailedScheduling" in told)
    assert call(lepton_lab, "DELETE", f"/jobs/{first.id}")[0] == 200
    second.wait_for("Starting")


@needs_mounts
def test_a_bad_node_can_be_avoided(lepton_lab):
    lepton_lab.scenario("try", "badnode", times=None)
    first = submit(lepton_lab)
    first.wait_for("Starting")
    bad = replicas(lepton_lab, first)[0]["status"]["node"]["id"]
    others = [node.id for node in lepton_lab.world.groups[0].nodes if node.id != bad]
    affinity = {"allowed_dedicated_node_groups": [GROUP], "allowed_nodes_in_node_group": others}
    submit(lepton_lab, affinity=affinity).wait_for("Completed")
    assert first.state == "Starting"


@needs_mounts
def test_a_process_out_of_memory_is_really_killed(lepton_lab):
    lepton_lab.scenario("try", "oom", when="ready")
    script = "python3 -c 'import time; x = bytearray(50000000); print(\"ready\", flush=True); time.sleep(600)'; exit $?"
    one = submit(lepton_lab, "try", script)
    one.wait_for("Failed")
    assert [replica.code for replica in one.replicas] == [137]
    analysis = call(lepton_lab, "GET", f"/jobs/{one.id}/failure-analysis")[1]
    assert (
        analysis["err_class"] == "ERR_PROGRAM" and analysis["job_failure_by_node_event"][0]["node_event_name"] == "OOM"
    )
    assert replicas(lepton_lab, one)[0]["status"]["readiness_issue"]["message"] == "OOMKilled"


@needs_mounts
def test_an_evicted_job_starts_again_as_often_as_it_may(lepton_lab):
    lepton_lab.scenario("try", "evicted", times=2, when="up")
    script = "trap 'exit 143' TERM; echo up; [ $LEPTON_JOB_FAILURE_COUNT = 2 ] || { sleep 600 & wait; }"
    one = submit(lepton_lab, "try", script, max_job_failure_retry=2)
    one.wait_for("Completed", "Failed")
    status = shown(lepton_lab, one)["status"]
    assert (status["state"], status["succeeded"]) == ("Completed", 1)
    assert [(each["state"], each["failed"]) for each in status["job_history"]] == [("Failed", 1), ("Failed", 1)]
    assert len(replicas(lepton_lab, one)) == 3
    assert len(call(lepton_lab, "GET", f"/jobs/{one.id}/replicas")[1]) == 1
    assert "Preempted" in json.dumps(call(lepton_lab, "GET", f"/jobs/{one.id}/events")[1])


@needs_mounts
def test_a_replica_that_fails_may_be_replaced(lepton_lab):
    once = {"mounts": [{"from": "node-nfs:lustre", "path": "/x", "mount_path": "/x"}], "max_failure_retry": 1}
    one = submit(lepton_lab, "try", "echo up; mkdir /x/$LEPTON_JOB_WORKER_INDEX", completions=2, parallelism=2, **once)
    one.wait_for("Completed", "Failed")
    assert one.state == "Completed" and len(one.replicas) == 2
    (lepton_lab.volumes["lustre"] / "x" / "1").rmdir()
    two = submit(lepton_lab, "try", "mkdir /x/$LEPTON_JOB_WORKER_INDEX || exit 4", completions=2, parallelism=2, **once)
    two.wait_for("Completed", "Failed")
    assert two.state == "Failed" and [each.index for each in two.replicas] == [0, 0, 1]
    assert len({each["id"] for each in replicas(lepton_lab, two)}) == 3


@needs_mounts
def test_one_replica_that_fails_ends_the_job(lepton_lab):
    script = "trap 'echo asked; exit 1' TERM; [ $LEPTON_JOB_WORKER_INDEX = 0 ] && exit 3; while :; do sleep 0.05; done"
    one = submit(lepton_lab, "try", script, completions=2, parallelism=2)
    one.wait_for("Failed")
    assert one.replicas[0].code == 3 and not lepton_lab.running
    analysis = call(lepton_lab, "GET", f"/jobs/{one.id}/failure-analysis")[1]
    assert "code 3" in analysis["suggestion"]


@needs_mounts
@pytest.mark.parametrize(
    ("kind", "state", "counts"),
    [("archived_ok", "Archived", (0, 1)), ("archived_fail", "Archived", (1, 0)), ("archived_silent", "Archived", None)],
)
def test_archived_jobs(lepton_lab, kind, state, counts):
    lepton_lab.scenario("try", kind)
    one = submit(lepton_lab, "try", "echo done")
    one.wait_for(state)
    status = shown(lepton_lab, one)["status"]
    assert (None if counts is None else (status["failed"], status["succeeded"])) == counts
    assert ("failed" in status) == (counts is not None)
    assert call(lepton_lab, "GET", f"/jobs/{one.id}")[0] == 404, "it is alive no more"
    assert [line for _, line in lines(lepton_lab, one)] == ["done"]


@needs_mounts
def test_other_ways_to_go_wrong(lepton_lab):
    lepton_lab.scenario("quick", "quickfail")
    lepton_lab.scenario("strange", "unknown_state")
    lepton_lab.scenario("gone", "lost", after=0)
    lepton_lab.scenario("node", "nodefail", after=0)
    lepton_lab.scenario("token", "expired_token", after=0)
    quick, strange, gone, node = (
        submit(lepton_lab, name, "sleep 600") for name in ("quick", "strange", "gone", "node")
    )
    seen = set()

    def over() -> bool:
        seen.add(shown(lepton_lab, quick)["status"]["state"])
        return quick.state == "Failed"

    until(over, "its quick end")
    assert "Running" not in seen and "failed at once" in quick.text
    strange.wait_for("Hibernating")
    assert shown(lepton_lab, strange)["status"]["state"] == "Hibernating"
    until(lambda: call(lepton_lab, "GET", f"/jobs/{gone.id}")[0] == 404, "its loss")
    node.wait_for("Failed")
    assert call(lepton_lab, "GET", f"/jobs/{node.id}/failure-analysis")[1]["err_class"] == "ERR_INFRA"
    assert sum(each.unschedulable for each in lepton_lab.world.groups[0].nodes) == 1
    submit(lepton_lab, "token", "sleep 600")
    until(lambda: call(lepton_lab, "GET", "/jobs")[0] == 401, "the end of the token")


@needs_mounts
def test_private_images_need_the_right_password(lepton_lab):
    lepton_lab.private["nvcr.io/nvidia/"] = "nvapi-good"
    for name, password in (("bad", "nvapi-old"), ("good", "nvapi-good")):
        lepton_lab.world.registries[name] = {"registry_server": "nvcr.io", "username": "u", "password": password}
    submit(lepton_lab, "good", image_pull_secrets=["good"]).wait_for("Completed")
    bad = submit(lepton_lab, "bad", image_pull_secrets=["bad"])
    bad.wait_for("Starting")
    until(lambda: json.dumps(replicas(lepton_lab, bad)), "a refusal", lambda told: "401" in told)


@needs_mounts
def test_logs_are_asked_for_by_time(lepton_lab):
    one = submit(lepton_lab, "log", "for i in $(seq 1 40); do echo line $i; done", completions=2, parallelism=2)
    one.wait_for("Completed")
    first = one.replicas[0].id
    rows = lines(lepton_lab, one, replica=first, direction="forward")
    assert [line for _, line in rows] == [f"line {i}" for i in range(1, 41)]
    assert len(lines(lepton_lab, one)) == 80
    assert lines(lepton_lab, one, replica=first) == rows[::-1]
    start, end = rows[10][0], rows[20][0]
    assert lines(lepton_lab, one, replica=first, direction="forward", start=start, end=end) == rows[10:20]
    assert lines(lepton_lab, one, replica=first, start=start, end=end, limit=3) == rows[17:20][::-1]
    assert len(lines(lepton_lab, one, q="line%2011")) == 2
    lepton_lab.log_resolution_ns = 10**12
    assert len({ns for ns, _ in lines(lepton_lab, one)}) <= 2
    for query in (f"start={start}", "start=0&end=5", f"start={end}&end={start}", "limit=5001", "direction=up"):
        assert call(lepton_lab, "GET", f"/logs?job={one.id}&{query}")[0] == 400, query
    lepton_lab.scenario("cut", "truncated_log", drop_every=4)
    cut = submit(lepton_lab, "cut", "for i in $(seq 1 8); do echo line $i; done")
    cut.wait_for("Completed")
    assert [line for _, line in lines(lepton_lab, cut, direction="forward")] == [
        f"line {i}" for i in (1, 2, 3, 5, 6, 7)
    ]


@pytest.mark.slow
def test_what_nemo_run_sends(lepton_lab, monkeypatch):
    from nemo_run.core.execution.lepton import LeptonExecutor
    from pydantic import ValidationError

    for name, value in lepton_lab.environment().items():
        monkeypatch.setenv(name, value)
    lepton_lab.scenario(None, "nocapacity")
    values = {"container_image": "i", "nemo_run_dir": "/mnt/x", "resource_shape": "gpu.1xh100-sxm"}
    where = {"path": "/", "mount_path": "/mnt/x"}
    executor = LeptonExecutor(**values, node_group="h100-pool", mounts=[{**where, "from": "node-nfs:lustre"}])
    assert executor.create_lepton_job("ours").metadata.id_ == lepton_lab.jobs[0].id
    with pytest.raises(ValidationError, match="from"):
        LeptonExecutor(**values, node_group="h100-pool", mounts=[where]).create_lepton_job("documented")
    with pytest.raises(RuntimeError, match=r"400.*invalid name"):
        LeptonExecutor(**values, node_group="h100-pool").create_lepton_job(f"{'n' * 33}-")


@needs_mounts
def test_the_longest_arguments_there_may_be_arrive(lepton_lab):
    words = ["y" * LONGEST_ARGUMENT, *["z" * 100_000] * 5]
    command = ["/bin/bash", "-c", 'for word; do echo "${#word}"; done', "nemotron", *words]
    one = submit(lepton_lab, "long", container={"image": "i", "command": command})
    one.wait_for("Completed", "Failed")
    assert one.text.split() == [str(len(word)) for word in words]


@needs_mounts
def test_nothing_of_a_job_survives(lepton_lab):
    before = set(children(os.getpid()))
    script = (
        "trap '' TERM; setsid bash -c \"trap '' TERM; sleep 600\" & touch /opt/it /tmp/it; echo up; wait; sleep 600"
    )
    one = submit(lepton_lab, "stay", script, completions=2, parallelism=2)
    until(lambda: one.text.count("up") == 2, "the words of both")
    pids = [pid for replica in one.replicas for pid in replica.pod.pids]
    assert len(pids) >= 4 and all(Path(f"/proc/{pid}").exists() for pid in pids)
    lepton_lab.reset()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids) and set(children(os.getpid())) <= before
    assert not Path("/opt/it").exists() and not lepton_lab.jobs


@needs_mounts
def test_a_container_is_by_itself(pods, tmp_path):
    (tmp_path / "data").mkdir()
    mounts = [(tmp_path / "data", "/data", False), (tmp_path / "data", "/read", True)]
    script = """
        echo $$ $HOME $A
        find /tmp /root "$REPO" -mindepth 1 2>/dev/null | head -n 3 # nothing of this machine's, nor of the repository
        echo x >/data/x
        cat /read/x
        touch /read/y 2>/dev/null || echo read-only
        ls /proc | grep -c '^[0-9]'
    """
    repository = str(Path(__file__).resolve().parents[2])
    pod = pods.start("alone", ["/bin/bash", "-c", script], {"A": "ö", "REPO": repository}, mounts)
    assert pod.wait() == 0
    *said, processes = pod.text.splitlines()
    assert said == ["1 /root ö", "x", "read-only"] and int(processes) <= 3
    assert (tmp_path / "data" / "x").read_text() == "x\n"
    times = [ns for ns, _ in pod.log]
    assert times == sorted(set(times)) and not pod.pids


@needs_mounts
def test_how_a_container_ends(pods):
    patient = pods.start(
        "patient", ["/bin/bash", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"], {}
    )
    patient.wait_for("up")
    assert patient.stop(60) == 7 and patient.text == "up\nbye\n"
    deaf = pods.start("deaf", ["/bin/sleep", "600"], {})
    assert deaf.state == "running" and deaf.exit_code is None
    assert deaf.stop(0.2) == 137
    assert pods.start("none", ["/no/such/program"], {}).wait() == 127
    hungry = "python3 -c 'x = bytearray(400000000); import time; time.sleep(600)'; echo $?"
    assert pods.start("hungry", ["/bin/bash", "-c", hungry], {}, memory_limit=200_000_000).wait() == 0
    assert pods.all[-1].text.endswith("137\n") and pods.all[-1].oom_killed


@needs_mounts
def test_containers_end_with_the_process_that_started_them(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from labs.pods import Pods\n"
        f"pod = Pods(Path({str(tmp_path)!r})).start('orphan', ['/bin/sleep', '600'], {{}})\n"
        "while not pod.pids: time.sleep(0.01)\n"
        "print(*pod.pids, flush=True); time.sleep(600)\n"
    )
    tests = str(Path(__file__).resolve().parents[1])
    parent = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": tests}, stdout=-1)
    pids = [int(word) for word in line_of(parent.stdout).split()]
    assert pids
    parent.kill()
    parent.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the container's end")


def test_the_lab_by_hand():
    program = Path(__file__).resolve().parents[1] / "labs" / "lepton"
    served = subprocess.Popen([sys.executable, str(program), "--next", "oom"], stdout=subprocess.PIPE, text=True)
    said = dict(line_of(served.stdout).removeprefix("export ").strip().split("=", 1) for _ in range(3))
    assert "filestore-1, home, lustre, scratch" in line_of(served.stdout)
    asked = urllib.request.Request(
        f"{said['LEPTON_WORKSPACE_URL']}/workspace",
        headers={"Authorization": f"Bearer {said['LEPTON_WORKSPACE_TOKEN']}"},
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert json.loads(answer.read())["workspace_name"] == said["LEPTON_WORKSPACE_ID"]
    served.send_signal(signal.SIGINT)
    served.communicate(timeout=60)
    assert served.returncode == 0

"""How jobs are seen: each state, the exit code that a node has left, few requests for many jobs."""

from __future__ import annotations

import pytest
from labs.lepton.scenario import Timings
from labs.pods import needs_mounts
from lepton_jobs import api_of, body_of, handle_of, new_name, planted, run
from waiting import until

from nemo_runspec.backends.lepton.status import poll
from nemo_runspec.script.pod_marker import outputs_of

_END = (
    "nemotron-end: node={node} attempt=0 exit_code={code} signal= rank={rank} oom=0 phase=command lines= "
    "node_name=n reason={reason}"
)


def end(code, node="$LEPTON_JOB_WORKER_INDEX", rank="", reason=""):
    """A script's last words."""
    return f'echo "{_END.format(node=node, code=code, rank=rank, reason=reason)}"; exit {code}'


@pytest.fixture(autouse=True)
def short_of_patience(request, monkeypatch):
    """Where no node has left a word, that it is waited for is worth one test only."""
    if "late_log" not in request.node.name:
        monkeypatch.setattr("nemo_runspec.backends.lepton.status.Jobs.pauses", (0.0, 0.2))


def test_a_thousand_jobs_are_few_requests(lepton_lab):
    handles = [*planted(lepton_lab, 600, "Running"), *planted(lepton_lab, 400, "Queueing")]
    planted(lepton_lab, 300, "Running")  # other people's
    seen = poll(api_of(lepton_lab), handles)
    assert [each.state for each in seen] == ["running"] * 600 + ["queued"] * 400
    assert [each.facts.id for each in seen] == [handle["id"] for handle in handles]
    assert len(lepton_lab.calls) <= 3


def test_archived_jobs_are_found_among_many(lepton_lab):
    old, new = planted(lepton_lab, 6, "Archived"), planted(lepton_lab, 3, "Running")
    seen = poll(api_of(lepton_lab), [*old, *new])
    assert [each.state for each in seen] == ["lost"] * 6 + ["running"] * 3


@pytest.mark.parametrize("many", [1, 6])
def test_jobs_that_are_gone(lepton_lab, many):
    handles = [handle_of(lepton_lab, name, id=f"{name}-abcd") for name in (new_name() for _ in range(many))]
    seen = poll(api_of(lepton_lab), [*handles, handle_of(lepton_lab, new_name())])
    assert [each.state for each in seen] == ["unknown"] * many + ["failed"]
    assert [(each.absent, each.gone) for each in seen] == [(True, False)] * many + [(False, True)]
    assert f"Lepton has no job {handles[0]['id']} any more" in seen[0].reason


def test_a_job_without_an_id_is_adopted(lepton_lab):
    [handle] = planted(lepton_lab, 1, "Running")
    id = handle.pop("id")
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.facts.id) == ("running", id)


@needs_mounts
@pytest.mark.parametrize(
    ("kind", "script", "state", "code"),
    [
        ("ok", end(0), "succeeded", 0), ("ok", end(7, rank="3"), "failed", 7), ("ok", "exit 9", "failed", None),
        ("archived_ok", end(0), "succeeded", 0), ("archived_fail", end(4), "failed", 4),
        ("archived_silent", end(5), "failed", 5), ("archived_silent", end(0), "succeeded", 0),
        ("archived_silent", "true", "lost", None), ("late_log", end(6), "failed", 6),
        ("quickfail", "", "failed", None),
    ],
)  # fmt: skip
def test_how_a_job_ended(lepton_lab, kind, script, state, code):
    lepton_lab.scenario(None, kind)
    job, handle = run(lepton_lab, script)
    job.wait_for("Completed", "Failed", "Archived")
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.exit_code) == (state, code)
    assert bool(seen.reason) == (state != "succeeded")
    assert bool(seen.facts.unread) == (state == "failed" and code is None), "its last lines may come yet"
    job.ended -= 600  # it is over for ten minutes: nothing comes any more
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.exit_code) == (state, 1 if (state, code) == ("failed", None) else code)
    assert not seen.facts.unread


@needs_mounts
def test_the_node_that_failed_by_itself_says_why(lepton_lab):
    script = f"""if [ "$LEPTON_JOB_WORKER_INDEX" = 1 ]; then {end(3, rank="9")}
        else sleep 0.3; {end(143, reason="node 1 failed")}; fi"""
    lepton_lab.timings = Timings(grace=60)
    job, handle = run(lepton_lab, script, nodes=2)
    job.wait_for("Failed")
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.exit_code, seen.reason) == (3, "rank 9 ended with exit code 3")
    assert len(seen.facts.nodes.split(",")) == 2


@needs_mounts
def test_a_node_that_ended_long_before_the_others(lepton_lab):
    """What it said lies before all that the others have written since."""
    script = f"""if [ "$LEPTON_JOB_WORKER_INDEX" = 1 ]; then
            trap 'seq 900; {end(1)}' TERM; touch /mnt/lustre/ready; while :; do sleep 0.1; done
        else until [ -e /mnt/lustre/ready ]; do sleep 0.1; done
            echo 'nemotron-output: model /run/model'; {end(7)}; fi"""
    mounts = [{"path": "/", "mount_path": "/mnt/lustre", "from": "node-nfs:lustre"}]
    affinity = {"allowed_dedicated_node_groups": ["ng-h100-4f2a"]}
    lepton_lab.timings = Timings(grace=60)
    job, handle = run(lepton_lab, script, nodes=2, mounts=mounts, affinity=affinity)
    job.wait_for("Failed")
    [seen] = poll(api_of(lepton_lab), [handle])
    assert job.text.count("\n") > 900
    assert seen.exit_code == 7
    assert outputs_of(seen.detail.log) == {"model": "/run/model"}


@needs_mounts
def test_the_words_of_a_node_that_is_gone_are_not_waited_for(lepton_lab):
    lepton_lab.scenario(None, "nodefail")
    job, handle = run(lepton_lab, "sleep 600")
    job.wait_for("Failed")
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.exit_code) == ("failed", 1)
    assert len(lepton_lab.calls_of("GET /logs")) == 1


@needs_mounts
def test_out_of_memory_where_no_node_could_say_so(lepton_lab):
    lepton_lab.scenario(None, "oom", whole=True)
    job, handle = run(lepton_lab, "sleep 600")
    job.wait_for("Failed")
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.exit_code) == ("failed", 137)
    assert "memory" in seen.reason


@needs_mounts
@pytest.mark.parametrize(
    ("kind", "state", "phase", "waiting"),
    [
        ("nocapacity", "queued", "queue", "no capacity: Insufficient nvidia.com/gpu"),
        ("stuck_pull", "starting", "pull", "pulling the image"),
        ("imagepull", "starting", "pull", "the image cannot be pulled: "),
        ("badnode", "starting", "start", "its storage cannot be mounted: Mount point not found"),
    ],
)
def test_why_a_job_waits(lepton_lab, kind, state, phase, waiting):
    lepton_lab.scenario(None, kind)
    job, handle = run(lepton_lab, "true")
    job.wait_for("Queueing" if state == "queued" else "Starting")
    api = api_of(lepton_lab)
    [seen] = until(lambda: poll(api, [handle]), "why", lambda seen: _waits(seen[0]).startswith(waiting))
    assert (seen.state, seen.facts.phase) == (state, phase)


def _waits(seen):
    return seen.facts.waiting


def test_a_state_that_nobody_knows_is_shown(lepton_lab):
    [handle] = planted(lepton_lab, 1, "Hibernating")
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.exit_code) == ("unknown", None)
    assert "Hibernating" in seen.reason


def test_payloads_of_the_kit_are_taken(lepton_lab):
    """Guards the tests above: what they send is what the server accepts."""
    assert api_of(lepton_lab).create(body_of(new_name()))["metadata"]["id"]


@needs_mounts
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_success_of_which_a_node_tells_otherwise(lepton_lab, nodes):
    """Lepton's word against that of a node whose command has failed: that one was there."""
    script = f'[ "$LEPTON_JOB_WORKER_INDEX" = {nodes - 1} ] && {{ {end(9)}; }}; {end(0)}'
    job, handle = run(lepton_lab, script, nodes=nodes)
    job.wait_for("Completed", "Failed")
    lepton_lab.fault("GET /jobs/*", "changed", times=None, change=_completed)
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.exit_code) == ("failed", 9)


def _completed(answer):
    return {**answer, "status": {**answer["status"], "state": "Completed"}} if "status" in answer else answer


@pytest.mark.parametrize("status", [{}, None])
def test_a_status_that_is_empty_is_that_of_no_queue(lepton_lab, status):
    """A job that runs does not wait again as an answer lacks its status."""
    [handle] = planted(lepton_lab, 1, "Running")
    lepton_lab.fault("GET /jobs/*", "changed", change=lambda answer: {**answer, "status": status})
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.facts.phase or "") == ("unknown", "")

"""Jobs on run:ai from the command line to their end: exit codes, logs, signals, tokens, code, secrets."""

from __future__ import annotations

import hashlib
import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labs.pods import needs_mounts
from labs.runai.server import RunaiLab
from labs.s3.fixtures import s3_lab
from labs.s3.lab import S3Lab
from runai_workloads import job_folder, profile, said
from support import Outcome, Project, contents, finish, make_repository, start
from waiting import LONG, until

__all__ = ["s3_lab"]

pytestmark = needs_mounts

HELLO = """\
import os, sys, time
time.sleep(float(os.environ.get("LATE", "0")) if os.environ["NEMOTRON_NODE_RANK"] != "0" else 0)
print("hello from", os.environ["NEMOTRON_NODE_RANK"], "of", os.environ["NEMOTRON_NUM_NODES"], "ü" * 3, flush=True)
sys.exit(int(os.environ.get("CODE", "0")) if os.environ["NEMOTRON_NODE_RANK"] == os.environ.get("WHO", "0") else 0)
"""

SLOW = """\
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("told to stop", flush=True), sys.exit(0)))
print("begun", flush=True)
time.sleep(600)
"""

LAST = """\
import os, pathlib, sys, time
print("hello from", os.environ["NEMOTRON_NODE_RANK"], "of", os.environ["NEMOTRON_NUM_NODES"], "ü" * 3, flush=True)
if os.environ["NEMOTRON_NODE_RANK"] == "0":
    logs = lambda: pathlib.Path("/data/nemo_run/jobs").glob("*/logs/node-1.log")
    while not any(b"nemotron-end" in log.read_bytes() for log in logs()):
        time.sleep(0.1)
    sys.exit(3)
"""
"""Node 0 fails once the other has ended: its failure would end the other one, wherever that is."""

LINES = """\
import itertools, pathlib, time
for number in itertools.count():
    print("line", number, flush=True)
    if pathlib.Path("/data/go").exists():
        break
    time.sleep(0.5)
"""
"""A line after another, until it may end."""

AGAIN = """\
import os, time
attempt = os.environ["NEMOTRON_POD_ATTEMPT"]
print("begun", attempt, flush=True)
time.sleep(0 if attempt != "0" else 600)
print("done", flush=True)
"""


def record(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((job_folder(project) / "record.json").read_text())
    return found


def posted(lab: RunaiLab) -> list[Any]:
    """The bodies of the workloads that the server was sent."""
    return [call.body for call in lab.calls if call.method == "POST" and re.search(r"/workloads/\w+$", call.path)]


@pytest.mark.parametrize(("nodes", "kube"), [(1, True), (2, True), (2, False)], ids=["1-kube", "2-kube", "2-claim"])
def test_a_job_runs_to_its_end(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome], nodes: int, kube: bool
):
    here = "" if kube else f'run_dir_here = "{runai_lab.claims["data"]}/nemo_run"\n'
    profile(project, runai_lab, f"nodes = {nodes}\n{here}", kube=kube)
    if not kube:
        (runai_lab.claims["data"] / "nemo_run").mkdir()
    runai_lab.timing.clean = LONG  # a pod that takes its time to end keeps its log
    project.write("train.py", HELLO)
    done = nemotron_process("run", "./train.py", "--run", "dgx").succeeds()
    lines = [line.rpartition("] ")[2] for line in said(done) if "hello from" in line]
    assert sorted(lines) == [f"hello from {rank} of {nodes} üüü" for rank in range(nodes)]
    found = record(project)
    assert (found["states"][-1]["state"], found["exit_code"]) == ("succeeded", 0)
    assert len(posted(runai_lab)) == 1
    assert len(runai_lab.calls_of("POST /token")) == 1


@pytest.mark.parametrize(("kube", "who"), [(True, 0), (True, 1), (False, 1)], ids=["0-kube", "1-kube", "1-claim"])
def test_exit_code_17_is_17(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome], kube: bool, who: int
):
    here = "" if kube else f'run_dir_here = "{runai_lab.claims["data"]}/nemo_run"\n'
    profile(
        project,
        runai_lab,
        f'nodes = {1 + who}\n{here}env_vars = {{ CODE = "17", WHO = "{who}", LATE = "2" }}\n',
        kube=kube,
    )
    if not kube:
        (runai_lab.claims["data"] / "nemo_run").mkdir()
    project.write("train.py", HELLO)
    done = nemotron_process("run", "./train.py", "--run", "dgx")
    assert done.code == 17, done.err
    assert record(project)["states"][-1]["state"] == "failed"


def test_without_a_way_to_the_log_it_says_so(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]
):
    profile(project, runai_lab, kube=False)
    project.write("train.py", HELLO)
    done = nemotron_process("run", "./train.py", "--run", "dgx").succeeds()
    assert "hello" not in done.out
    assert done.out.count("cannot be read from here") == 1
    assert "kube_apiserver_url" in done.out


@pytest.mark.parametrize(("nodes", "word"), [(1, "stop"), (2, "cancel")])
def test_stop_ends_the_pods_and_keeps_the_record(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome], nodes: int, word: str
):
    here = f'run_dir_here = "{runai_lab.claims["data"]}/nemo_run"\n'
    (runai_lab.claims["data"] / "nemo_run").mkdir()
    profile(project, runai_lab, f"nodes = {nodes}\n{here}", kube=False)
    project.write("train.py", SLOW)
    name = nemotron_process("run", "./train.py", "--batch", "dgx").succeeds().out.strip()
    (made,) = runai_lab.jobs
    until(lambda: sum(b"begun" in line for pod in made.pods for line in log_of(pod)) == nodes, "begun on every node")
    done = nemotron_process("jobs", word, name, "--grace", "120").succeeds()  # else it is asked twice
    assert bool(made.deleted) == (word == "cancel")
    assert (name in done.out + done.err) and (word == "stop" or "deleted" in done.out + done.err)
    assert made.phase == "Stopped" or made.deleted
    assert [call.path.rpartition("/")[2] for call in runai_lab.calls_of("POST *suspend")] == ["suspend"]
    assert record(project)["states"][-1]["state"] == "cancelled"
    shown = nemotron_process("jobs", "logs", name).out
    assert shown.count("begun") == nodes


def test_a_token_that_expires_under_a_job_is_renewed(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]
):
    runai_lab.scenario(None, "expired", when="first")
    profile(project, runai_lab)
    project.write("train.py", "import time\nprint('first', flush=True)\ntime.sleep(3)\nprint('last', flush=True)\n")
    done = nemotron_process("run", "./train.py", "--run", "dgx").succeeds()
    assert [line.rpartition("] ")[2] for line in said(done)] == ["first", "last"]
    assert len(runai_lab.calls_of("POST /token")) == 2


@pytest.mark.parametrize("way", ["inline", "s3"])
def test_a_repository_of_60_kb_is_one_workload(
    runai_lab: RunaiLab, s3_lab: S3Lab, project: Project, nemotron_process: Callable[..., Outcome], way: str
):
    ways = {"inline": "", "s3": f'code_url = "s3://bucket/c"\n{s3(s3_lab)}'}
    profile(project, runai_lab, f'packager = "git"\ncode_transport = "{way}"\n{ways[way]}')
    content = random.Random(1).randbytes(60_000)
    script = "import hashlib, pathlib\nprint(hashlib.sha256(pathlib.Path('noise.bin').read_bytes()).hexdigest())\n"
    project.write("train.py", script)
    (project.folder / "noise.bin").write_bytes(content)
    make_repository(project.folder)
    keys = {"ACCESS_KEY": s3_lab.access_key, "SECRET_KEY": s3_lab.secret_key}
    done = nemotron_process("run", "./train.py", "--run", "dgx", **keys).succeeds()
    assert hashlib.sha256(content).hexdigest() in done.out
    (body,) = posted(runai_lab)
    sizes = [len(each.get("value") or "") for each in body["spec"]["environmentVariables"]]
    assert max(sizes) <= 9500
    assert (sum(sizes) > 80_000) == (way == "inline")
    assert len(runai_lab.jobs) == 1


def test_data_comes_and_goes_with_keys_that_run_ai_keeps(
    runai_lab: RunaiLab, s3_lab: S3Lab, project: Project, nemotron_process: Callable[..., Outcome]
):
    """Outputs are copied also of a job that has failed."""
    s3_lab.put("s3://bucket/in/text", b"from afar")
    runai_lab.credential("store", {"a": s3_lab.access_key, "s": s3_lab.secret_key})
    more = """
inputs = { "/data/in/text" = "s3://bucket/in/text" }
outputs = ["/data/out"]
output_url = "s3://bucket/results"
secret_vars = { ACCESS_KEY = "store/a", SECRET_KEY = "store/s" }
"""
    profile(project, runai_lab, more + s3(s3_lab))
    project.write(
        "train.py",
        "import pathlib, sys\ntext = pathlib.Path('/data/in/text').read_text()\n"
        "pathlib.Path('/data/out').mkdir()\npathlib.Path('/data/out/answer').write_text(text.upper())\nsys.exit(5)\n",
    )
    keys = {"ACCESS_KEY": s3_lab.access_key, "SECRET_KEY": s3_lab.secret_key}
    done = nemotron_process("run", "./train.py", "--run", "dgx", **keys)
    assert done.code == 5, (done.out, done.err)
    (job,) = runai_lab.jobs
    (made,) = s3_lab.urls("s3://bucket/results/")
    assert made.startswith(f"s3://bucket/results/{job.name}/")
    assert s3_lab.get(made) == b"FROM AFAR"


def test_a_job_outlives_a_platform_that_stumbles(runai_lab: RunaiLab, project: Project):
    faults = []
    for number, kind in enumerate(("500", "429", "reset", "garbage", "cut")):
        faults.append(runai_lab.fault("GET /workloads/*", kind, after=number, retry_after=0.2))
        faults.append(runai_lab.kube.fault("GET *", kind, after=2 * number, retry_after=0.2))
    profile(project, runai_lab)
    project.write("train.py", LINES)
    child = start(project, "run", "./train.py", "--run", "dgx")
    until(lambda: all(fault.times == 0 for fault in faults), "all that goes wrong")
    (runai_lab.claims["data"] / "go").touch()
    shown = [line.rpartition("] ")[2] for line in said(finish(child).succeeds())]
    assert shown == [f"line {number}" for number in range(len(shown))] and len(shown) > 1


def test_what_is_shown_is_what_is_sent(runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]):
    runai_lab.credential("hub", {"HF_TOKEN": "hf-hidden"})
    more = 'secret_vars = { HF_TOKEN = "hub/HF_TOKEN" }\ncustom_spec = { compute = { cpuCoreRequest = 2 } }\n'
    profile(project, runai_lab, f"nodes = 2\ngpus_per_node = 8\n{more}")
    project.write("train.py", "import os\nassert os.environ['HF_TOKEN'] == 'hf-' + 'hidden'\n")
    dry = nemotron_process("run", "./train.py", "--run", "dgx", "--dry-run", "--json").succeeds()
    assert runai_lab.calls == []
    nemotron_process("run", "./train.py", "--run", "dgx").succeeds()
    (sent,) = posted(runai_lab)
    shown = shown_payload(dry)
    facts = {
        "PROJECT_ID": runai_lab.mine.id,
        "CLUSTER_ID": runai_lab.cluster_id,
        "SECRET:hub": "genericsecret-hub",
        "UPLOAD": [each for each in sent["spec"]["environmentVariables"] if "UPLOAD" in each["name"]],
    }
    names = {json.loads(dry.out)["plan"]["name"]: sent["name"]}
    assert put_in(shown, {**facts, **names}) == sent
    assert json.loads((job_folder(project) / "job.json").read_text()) == sent


def test_secrets_are_nowhere(runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]):
    runai_lab.credential("hub", {"KEY": "hf-0123456789"})
    profile(project, runai_lab, 'secret_vars = { HF_TOKEN = "hub/KEY" }\n')
    project.write(
        "train.py", "import os\nprint('it is', os.environ['HF_TOKEN'])\nassert 'WANDB_API_KEY' not in os.environ\n"
    )
    environment = {"HF_TOKEN": "hf-of-mine-0123", "WANDB_API_KEY": "wandb-0123456789"}
    done = nemotron_process("run", "./train.py", "--run", "dgx", **environment).succeeds()
    assert "WANDB_API_KEY was found here and does not travel" in done.err
    assert "it is ******" in done.out
    secrets = [*environment.values(), runai_lab.client_secret, "hf-0123456789"]
    kept = contents(project.state, runai_lab.claims["data"]).values()
    told = [json.dumps(call.body) for call in runai_lab.calls if not call.path.endswith("/token")]
    for secret in secrets:
        assert not any(secret.encode() in text for text in kept), secret
        assert not any(secret in text for text in (done.out, done.err, *told)), secret


@pytest.mark.parametrize(
    "line", ['secrets = ["HF_TOKEN"]', 'env_vars = { HF_TOKEN = "hf-0123456789" }', 'inputs = { "/x" = "s3://b/x" }']
)
def test_a_secret_without_a_place_there_is_refused(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome], line: str
):
    profile(project, runai_lab, line)
    project.write("train.py", "pass\n")
    environment = {"HF_TOKEN": "hf-0123456789", "ACCESS_KEY": "key-0123456789", "SECRET_KEY": "0123456789"}
    refused = nemotron_process("run", "./train.py", "--run", "dgx", **environment)
    refused.refuses("cannot travel to run:ai", "secret_vars", "make a credential there")
    assert not posted(runai_lab)


def test_a_secret_in_custom_spec_is_refused(
    project: Project, runai_lab: RunaiLab, nemotron_process: Callable[..., Outcome]
):
    more = '[dgx.custom_spec]\nenvironmentVariables = [{ name = "HF_TOKEN", value = "hf-0123456789" }]\n'
    profile(project, runai_lab, more)
    project.write("train.py", "pass\n")
    refused = nemotron_process("run", "./train.py", "--run", "dgx")
    refused.refuses("custom_spec.environmentVariables: HF_TOKEN")
    assert "hf-0123456789" not in refused.err


def test_custom_spec_and_pre_launch_commands_take_effect(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]
):
    more = """
pre_launch_commands = ["echo made ready"]
[dgx.custom_spec]
nodePools = ["fast"]
backoffLimit = 1
environmentVariables = [{ name = "COLOUR", value = "blue" }]
[dgx.custom_spec.compute]
cpuCoreRequest = 2
"""
    profile(project, runai_lab, more)
    project.write("train.py", "import os\nprint('colour', os.environ['COLOUR'])\n")
    dry = nemotron_process("run", "./train.py", "--run", "dgx", "--dry-run").succeeds()
    assert "custom_spec.backoffLimit takes the place" in dry.out + dry.err
    done = nemotron_process("run", "./train.py", "--run", "dgx").succeeds()
    assert "made ready" in done.out
    assert "colour blue" in done.out
    spec = posted(runai_lab)[0]["spec"]
    assert spec["compute"] == {"largeShmRequest": True, "cpuCoreRequest": 2}
    assert (spec["nodePools"], spec["backoffLimit"]) == (["fast"], 1)


def test_a_client_killed_under_its_submission_finds_the_job(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]
):
    profile(project, runai_lab)
    project.write("train.py", HELLO)
    runai_lab.fault("POST /workloads/*", "timeout_after", seconds=60)
    command = [sys.executable, "-m", "nemotron", "run", "./train.py", "--batch", "dgx"]
    process = subprocess.Popen(command, cwd=project.folder, env=project.environment(), stderr=subprocess.DEVNULL)
    until(lambda: runai_lab.jobs, "the job")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (made,) = runai_lab.jobs
    assert made.over.wait(LONG)
    nemotron_process("jobs", "status", made.name).succeeds()
    found = record(project)
    assert (found["states"][-1]["state"], found["handle"]["id"]) == ("succeeded", made.id)
    assert len(runai_lab.jobs) == 1


def s3(lab: S3Lab) -> str:
    """Lines of a profile that say which S3 service is meant."""
    return f's3_endpoint = "{lab.endpoint}"\ns3_region = "{lab.region}"\n'


def log_of(pod: Any) -> list[bytes]:
    return [line for _, line in pod.process.log] if pod.process else []


def shown_payload(dry: Outcome) -> Any:
    """The workload of a dry run."""
    (text,) = [file["text"] for file in json.loads(dry.out)["rendering"]["files"] if file["name"] == "job.json"]
    return json.loads(text)


def put_in(value: Any, facts: dict[str, Any]) -> Any:
    """A shown payload with its holes filled, by their names."""
    if isinstance(value, dict):
        return {key: put_in(each, facts) for key, each in value.items()}
    if isinstance(value, list):
        filled = [put_in(each, facts) for each in value]
        return [item for each in filled for item in (each if isinstance(each, list) else [each])]
    return facts.get(value, value) if isinstance(value, str) else value


def test_resolved_it_is_the_same_but_for_what_run_ai_knows(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]
):
    profile(project, runai_lab)
    project.write("train.py", "pass\n")
    command = ("run", "./train.py", "--run", "dgx", "--dry-run", "--json")
    dry = shown_payload(nemotron_process(*command).succeeds())
    resolved = shown_payload(nemotron_process(*command, "--resolve").succeeds())
    assert not posted(runai_lab)
    assert {call.method for call in runai_lab.calls if not call.path.endswith("/token")} == {"GET"}
    facts = {"PROJECT_ID": runai_lab.mine.id, "CLUSTER_ID": runai_lab.cluster_id, dry["name"]: resolved["name"]}
    assert put_in(dry, facts) == resolved


def test_what_run_ai_would_refuse_is_said_when_it_is_asked(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]
):
    profile(project, runai_lab)
    project.write("env.toml", project.env_file.read_text().replace('claimName = "data"', 'claimName = "daat"'))
    project.write("train.py", "pass\n")
    command = ("run", "./train.py", "--run", "dgx", "--dry-run")
    nemotron_process(*command).succeeds()
    nemotron_process(*command, "--resolve").refuses("daat")


def test_logs_come_by_one_helper_where_s3_is_set_up(
    runai_lab: RunaiLab,
    s3_lab: S3Lab,
    project: Project,
    nemotron_process: Callable[..., Outcome],
):
    place = f'code_url = "s3://bucket/code"\n{s3(s3_lab)}'
    profile(project, runai_lab, f"nodes = 2\n{place}", kube=False)
    project.write("train.py", LAST)
    keys = {"ACCESS_KEY": s3_lab.access_key, "SECRET_KEY": s3_lab.secret_key}
    done = nemotron_process("run", "./train.py", "--run", "dgx", **keys)
    assert [done.out.count(f"hello from {rank} of 2 üüü") for rank in (0, 1)] == [1, 1]
    job, helper = (call.body for call in runai_lab.calls_of("POST /workloads/*") if call.body)
    assert helper["name"] == f"{job['name']}-logs"
    assert runai_lab.workload(helper["name"]).deleted
    assert not any(key in json.dumps(body) for key in (s3_lab.secret_key,) for body in (job, helper))
    again = nemotron_process("jobs", "logs", job["name"], **keys).succeeds()
    assert again.out.count("hello from 1 of 2") == 1
    assert len(runai_lab.jobs) == 2


def test_an_evicted_job_is_tried_again_where_the_profile_says_so(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]
):
    runai_lab.scenario(None, "evicted", when="begun", grace=LONG)
    profile(project, runai_lab, "retries = 1\n")
    project.write("train.py", AGAIN)
    done = nemotron_process("run", "./train.py", "--run", "dgx").succeeds()
    assert [line.rpartition("] ")[2] for line in said(done)] == ["begun 0", "begun 1", "done"]
    found = record(project)
    assert [job.name for job in runai_lab.jobs] == [found["name"], f"{found['name']}-r1"]
    assert (found["exit_code"], found["handle"]["attempt"]) == (0, 1)


def test_a_bad_node_is_avoided(runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]):
    runai_lab.scenario(None, "badnode", times=None, node="gpu-node-1", lost=True, when="begun")
    profile(project, runai_lab, "retries = 1\navoid_failed_nodes = true\n")
    project.write("train.py", AGAIN)
    nemotron_process("run", "./train.py", "--run", "dgx").succeeds()
    assert [pod.node for job in runai_lab.jobs for pod in job.pods] == ["gpu-node-1", "gpu-node-2"]


def test_a_job_that_is_never_started_is_stopped_in_time(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]
):
    runai_lab.scenario(None, "imagepull")
    runai_lab.timing.initializing = 0.0  # the pull fails as soon as it has begun, long before its time is up
    profile(project, runai_lab, 'pull_timeout = "3s"\non_timeout = "stop"\n')
    project.write("train.py", "pass\n")
    done = nemotron_process("run", "./train.py", "--run", "dgx")
    assert done.code == 124
    assert "image" in done.err
    assert "401 Unauthorized" in done.err
    assert runai_lab.jobs[0].phase == "Stopped"


@pytest.mark.parametrize("scheme", ["http", "HTTP"])
def test_a_cluster_is_not_asked_in_clear(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome], scheme: str
):
    profile(project, runai_lab, f'kube_apiserver_url = "{scheme}://cluster.example"\n', kube=False)
    project.write("train.py", "pass\n")
    nemotron_process("run", "./train.py", "--run", "dgx").refuses("kube_apiserver_url", "plain HTTP", "https://")
    assert runai_lab.calls == []
    assert not list((project.home / ".nemotron" / "jobs").glob("*")), "nothing was to be recorded"


def test_a_directory_that_is_not_the_pods_is_named(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome], tmp_path: Path
):
    profile(project, runai_lab, 'run_dir_here = "/not/there/at/all"\n')
    project.write("train.py", "pass\n")
    nemotron_process("run", "./train.py", "--run", "dgx").refuses("run_dir_here", "no directory of this machine")
    profile(project, runai_lab, f'run_dir_here = "{tmp_path}"\n')
    done = nemotron_process("run", "./train.py", "--run", "dgx").succeeds()
    assert done.out.count("is not the directory that they see") == 1


def test_while_it_waits_everything_says_why(
    runai_lab: RunaiLab, project: Project, nemotron_process: Callable[..., Outcome]
):
    runai_lab.scenario(None, "imagepull")
    profile(project, runai_lab)
    project.write("train.py", "pass\n")
    name = nemotron_process("run", "./train.py", "--batch", "dgx").succeeds().out.strip()
    (made,) = runai_lab.jobs
    until(lambda: made.pods and made.pods[0].waiting[0] == "ImagePullBackOff", "the failed pull")
    for command in ("status", "replicas", "events", "diagnose"):
        told = nemotron_process("jobs", command, name).out
        assert "pull" in told.lower(), (command, told)
    platform = nemotron_process("jobs", "logs", "--platform", name).succeeds()
    assert re.search(r"^[0-9-]{10} [0-9:]{8}Z .*ErrImagePull", platform.out, re.M), "times are UTC, and say so"
    nemotron_process("jobs", "stop", name).succeeds()
    assert made.phase == "Stopped"

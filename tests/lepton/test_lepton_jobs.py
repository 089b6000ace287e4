"""Jobs from the command line to their end: what is sent, what is said, exit codes, nothing made twice."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest
from absence_suite import later
from labs.lepton.world import Volume
from labs.pods import needs_mounts
from labs.s3.lab import S3Lab
from lepton_project import Site, make_site, var
from support import contents, finish
from waiting import until

pytestmark = needs_mounts

DATA_SCRIPT = """
import pathlib, sys
pathlib.Path("/results").mkdir()
pathlib.Path("/results/x.txt").write_text(pathlib.Path("/data/in/a.txt").read_text().upper())
sys.exit(6)
"""

TOKEN = "hf_" + "s3cr3t" * 6


@pytest.fixture
def site(lepton_lab, tmp_path) -> Site:
    return make_site(lepton_lab, tmp_path)


@pytest.mark.parametrize(("profile", "nodes"), [("one", 1), ("two", 2)])
@pytest.mark.parametrize("code", [0, 7])
def test_an_attached_job(site, profile, nodes, code):
    told = site.run(profile, *var(CODE=code, SECONDS_TO_RUN=1))
    assert told.code == code, told.err
    for rank in range(nodes):
        tag = f"[rank{rank}] " if nodes > 1 else ""
        assert f"{tag}hé llo 漢字 of {rank} of {nodes}\n" in told.out
    [job] = site.lab.jobs
    name = job.name
    record = site.record(name)
    assert record["exit_code"] == code
    assert record["states"][-1]["state"] == ("succeeded" if code == 0 else "failed")
    assert record["handle"]["id"] == job.id
    assert len(record["facts"]["nodes"].split(",")) == nodes
    folder = site.lab.volumes["lustre"] / "run" / "jobs" / name
    assert (folder / "pod.sh").is_file()
    assert site.lab.running == []


def test_what_lepton_makes_of_a_failure_stands_beside_ours(site):
    """In what an attached run says last, in what is shown later, and as fields of `--json`."""
    told = site.run("one", *var(CODE=7, SECONDS_TO_RUN=1))
    assert told.code == 7
    name = site.lab.jobs[0].name
    said = "The program exited with code 7: see its log"
    later = [site.nemotron("jobs", command, name, COLUMNS="300").succeeds().out for command in ("diagnose", "show")]
    for text in (told.err, *later):
        assert "diagnosis" in text
        assert "ERR_PROGRAM" in text
        assert said in text
        assert "Lepton shows" in text
    verdict = site.nemotron("jobs", "diagnose", name, "--json").succeeds().json
    assert (verdict["kind"], verdict["err_class"], verdict["suggestion"]) == ("user code", "ERR_PROGRAM", said)
    [stream] = verdict["log_streams"]
    assert stream["lines"]


KNOWS = """\
# /// script
# [tool.runspec]
# [tool.runspec.run]
# launch = "direct"
# cmd = "python3 {script}"
# [[tool.runspec.errors]]
# pattern = "no blend at .+"
# cause = "The data are not prepared."
# remedy = "prepare them"
# ///
raise SystemExit("no blend at /data")
"""


def test_an_error_that_the_recipe_knows_is_told_when_the_recipe_is_gone(site):
    recipe = site.project.write("knows.py", KNOWS)
    assert site.nemotron("run", "./knows.py", "--run", "one").code == 1
    recipe.unlink()
    verdict = site.nemotron("jobs", "diagnose", "last", "--json").succeeds().json
    assert (verdict["kind"], verdict["what"]) == ("known error", "The data are not prepared.")
    assert (verdict["evidence"], verdict["remedy"]) == ("no blend at /data", "prepare them")


WIDE = """
[wide]
extends = "two"
container_image = "nvcr.io/nvidia/nemo:25.11"
queue_priority = "mid-5000"
can_preempt = true
node_reservation = "res-7h3k"
secrets = ["MY_TOKEN"]
secret_vars = { OTHER = "kept" }
ttl = "1d"
shared_memory_size = 1024
custom_spec = { segment_config = { count_per_segment = 1 }, shared_memory_size = 2048 }
pre_launch_commands = ["echo before"]
mounts = [
  { path = "/runs", mount_path = "/mnt/lustre", from = "node-nfs:lustre" },
  { path = "/team", mount_path = "/team" },
]
"""
SECRETS = {"MY_TOKEN": TOKEN, "NGC_KEY": "nvapi-" + "k3y" * 9}


def test_what_is_shown_is_what_is_sent(site):
    """A dry run, one with the platform asked, and what the server got differ in nothing but the named holes."""
    site.profile(WIDE)
    site.lab.world.secrets["kept"] = "their value"
    site.lab.world.groups[0].volumes = [Volume("lustre", prefixes=("/runs",)), Volume("shared", prefixes=("/team",))]
    views = (["--full"], ["--full", "--resolve"], ["--script", "--resolve"])
    dry, asked, alone = (site.run("wide", "-d", *more, **SECRETS).succeeds().out for more in views)
    assert site.lab.calls_of("POST *") == []
    told = site.run("wide", **SECRETS).succeeds()
    assert "before" in told.out
    assert f"token {len(TOKEN)}" in told.out
    [call] = site.lab.calls_of("POST /jobs")
    holes = re.findall(r"^  (\w+): ", dry.partition("\nholes, filled when")[2], re.MULTILINE)
    filled = differences(payload_of(dry), payload_of(json.dumps(call.body)))
    assert sorted(filled) == sorted(set(holes) - {"WORKSPACE"})
    assert list(differences(payload_of(asked), payload_of(json.dumps(call.body)))) == ["UPLOAD"]
    assert list(differences(payload_of(alone), payload_of(json.dumps(call.body)))) == ["UPLOAD"]
    assert filled["MOUNT_1_FROM"] == "node-nfs:shared"
    assert call.body["spec"]["shared_memory_size"] == 2048
    assert "custom_spec replaces shared_memory_size of the job's spec" in told.err
    kept = json.loads((site.folder(site.lab.jobs[0].name) / "job.json").read_text())
    assert kept == call.body


def test_a_saved_plan_is_resolved_and_sent_as_it_was_shown(site):
    plan = str(site.project.folder / "plan.json")
    site.run("one", "-d", "--out", plan).succeeds()
    asked = site.nemotron("apply", plan, "--dry-run", "--resolve", "--full").succeeds().out
    assert site.lab.calls_of("POST *") == []
    site.nemotron("apply", plan, "--resolve").refuses("--resolve belongs to --dry-run")
    site.nemotron("apply", plan).succeeds()
    [call] = site.lab.calls_of("POST /jobs")
    assert list(differences(payload_of(asked), payload_of(json.dumps(call.body)))) == ["UPLOAD"]


def test_secrets_are_nowhere_but_in_the_workspace(site):
    site.profile(WIDE.replace("/runs", "/").replace('"/team", mount', '"/team", from = "node-nfs:filestore-1", mount'))
    site.lab.world.secrets["kept"] = "their value"
    site.run("wide", **SECRETS).succeeds()
    first = dict(site.lab.world.secrets)
    site.run("wide", **SECRETS).succeeds()
    assert site.lab.world.secrets == first  # used again, not made again
    site.run("wide", **{**SECRETS, "MY_TOKEN": TOKEN + "x"}).succeeds()
    made = [name for name in site.lab.world.secrets if name.startswith("nemotron-my-token-")]
    assert [site.lab.world.secrets[name] for name in made] == [TOKEN, TOKEN + "x"]
    [registry] = site.lab.world.registries.values()
    assert (registry["username"], registry["password"]) == ("$oauthtoken", SECRETS["NGC_KEY"])
    for job in site.lab.jobs:
        assert not set(found_in(json.dumps(job.body), job.text))
    for file, content in contents(site.project.state, site.lab.volumes["lustre"]).items():
        assert not set(found_in(content.decode(errors="replace"))), file


def found_in(*texts: str) -> list[str]:
    """The secrets in these texts."""
    return [name for name, value in SECRETS.items() for text in texts if value in text]


def test_a_secret_that_the_profile_names_and_nobody_has(site):
    site.profile('[bad]\nextends = "one"\nsecret_vars = { A = "not-there" }\n')
    site.run("bad").refuses("secret_vars: the workspace has no secret 'not-there'")
    assert site.lab.jobs == []


@pytest.mark.parametrize("kind", ["reset_after", "500", "429"])
def test_a_job_is_made_once(site, kind):
    site.lab.fault("POST /jobs", kind)
    told = site.run("one", *var(CODE=3))
    assert told.code == 3, told.err
    assert len(site.lab.jobs) == 1


def test_a_submission_that_was_killed_is_found_again(site):
    site.lab.fault("POST /jobs", "timeout_after", seconds=60)
    child = site.started("run", "./train.py", "--batch", "one", *var(SECONDS_TO_RUN=1))
    until(lambda: site.lab.jobs, "the job")
    child.kill()
    child.communicate()
    [name] = [path.name for path in (site.project.state / "jobs").iterdir() if (path / "record.json").is_file()]
    assert site.record(name)["states"][-1]["state"] == "submitting"
    told = site.nemotron("jobs", "wait", name)
    assert told.code == 0, told.err
    assert len(site.lab.jobs) == 1
    assert site.record(name)["handle"]["id"] == site.lab.jobs[0].id


def test_a_submission_that_was_killed_before_it_was_made(site):
    site.lab.fault("POST /jobs", "timeout", seconds=60)
    child = site.started("run", "./train.py", "--batch", "one")
    until(lambda: site.lab.calls_of("POST /jobs"), "the request")
    child.kill()
    child.communicate()
    [name] = [path.name for path in (site.project.state / "jobs").iterdir() if (path / "record.json").is_file()]
    for _ in range(2):  # one list without it is not the truth: the request may have made it
        assert site.state(name) == "unknown"
        later(site, name)
    assert site.state(name) == "failed"
    assert "never submitted" in site.record(name)["cause"]


@pytest.mark.parametrize("command", ["stop", "cancel"])
def test_a_job_that_is_ended(site, command):
    name = site.run("two", *var(SECONDS_TO_RUN=600), mode="--batch").succeeds().out.strip()
    [job] = site.lab.jobs
    job.wait_for("Running")
    until(lambda: job.text.count("token") == 2, "the words of both")
    way = "lepton offers no way into job"
    site.nemotron("jobs", "ssh", name).refuses(way, "dashboard has a terminal for each replica")
    told = site.nemotron("jobs", command, name).succeeds()
    record = site.record(name)
    assert (record["states"][-1]["state"], record["exit_code"]) == ("cancelled", 143)
    assert job.deleted is (command == "cancel")  # which says so
    assert (f"deleted: job {job.id}" in told.out) is (command == "cancel")
    assert site.lab.running == []
    assert site.nemotron("jobs", "logs", name).succeeds().out.count("hé llo") == 2


def test_a_broken_connection_and_a_busy_server_meanwhile(site):
    kinds = ("500", "429", "reset", "garbage")
    faults = [site.lab.fault("GET /jobs/*", kind, after=2) for kind in kinds]
    faults += [site.lab.fault("GET /logs", kind, after=1) for kind in kinds]
    child = site.started("run", "./train.py", "--run", "two", *var(GATE="go", CODE=5))
    until(lambda: all(fault.times == 0 for fault in faults), "all that goes wrong")
    site.opened(site.lab.jobs[0].name)
    told = finish(child)
    assert told.code == 5, told.err
    assert told.out.count("hé llo") == 2


def test_data_on_s3(site, tmp_path):
    """Inputs are there before the command, outputs are copied although it failed, keys travel by reference."""
    (tmp_path / "s3").mkdir()
    with closing(S3Lab(tmp_path / "s3")) as s3:
        s3.put("s3://bucket/in/a.txt", b"hello")
        site.profile(
            f'[data]\nextends = "one"\ns3_endpoint = "{s3.endpoint}"\ns3_region = "{s3.region}"\n'
            'inputs = { "/data/in" = "s3://bucket/in/" }\noutputs = ["/results"]\noutput_url = "s3://bucket/out"\n'
        )
        site.project.write("train.py", DATA_SCRIPT)
        site.run("data").refuses("secret ACCESS_KEY was not found")
        told = site.run("data", ACCESS_KEY=s3.access_key, SECRET_KEY=s3.secret_key)
        assert told.code == 6, told.err
        [job] = site.lab.jobs
        assert s3.get(f"s3://bucket/out/{job.name}/results/x.txt") == b"HELLO"
        keys = {"ACCESS_KEY": s3.access_key, "SECRET_KEY": s3.secret_key}
        site.nemotron("jobs", "pull", job.name).refuses("no keys for S3 here", "export ACCESS_KEY")
        for there in ("", ", 5 B of it here before"):
            pulled = site.nemotron("jobs", "pull", job.name, **keys).succeeds()
            assert pulled.err.endswith(f"results: 1 file, 5 B{there}\n")
        assert (site.project.folder / job.name / "results" / "x.txt").read_bytes() == b"HELLO"
        gone = site.nemotron("jobs", "pull", job.name, "results/gone", **keys)
        gone.refuses("there is no s3://bucket/out/", "there are: x.txt\n")
        site.nemotron("jobs", "pull", job.name, "logs").succeeds()
        site.nemotron("jobs", "forward", job.name, "8265").refuses("a port needs a running job")
        assert s3.secret_key not in json.dumps(job.body)
        assert {env["name"] for env in job.spec["envs"]} == {"ACCESS_KEY", "SECRET_KEY"}
        s3.tidy()


def test_a_profile_without_mounts(site):
    """The node group's volume is found; where there is none, nothing that would be lost is submitted."""
    site.profile(
        '[bare]\nextends = "one"\nnemo_run_dir = "/nemo_run"\nmounts = []\n[pair]\nextends = "bare"\nnodes = 2\n'
    )
    assert "nemo_run_dir '/nemo_run' is on none of mounts" in site.run("pair", "-d").succeeds().out
    assert site.run("pair").succeeds().out.count("hé llo") == 2
    [job] = site.lab.jobs
    assert job.spec["mounts"] == [{"path": "/", "mount_path": "/nemo_run", "from": "node-nfs:lustre"}]
    assert (site.lab.volumes["lustre"] / "jobs" / job.name / "job.sh").is_file()
    site.lab.world.groups[0].volumes = [Volume("scratch", "local")]
    told = site.run("pair")
    assert told.code == 2
    assert "the node group has no volume, and 2 nodes share no directory; nothing was submitted" in told.err
    told = site.run("bare", *var(CODE=4))
    assert told.code == 4, told.err
    assert "what the job writes is lost when it ends" in told.err


def test_a_platform_that_lacks_the_shape(site):
    site.profile('[none]\nextends = "one"\ngpus_per_node = 3\n[many]\nextends = "one"\ngpus_per_node = 2\n')
    site.run("none").refuses("resource_shape: no shape of that node group has 3 GPUs", "gpu.8xh100-sxm (8 GPUs)")
    site.run("many").refuses("resource_shape: 2 shapes have 2 GPUs", "gpu.2xh100-himem, gpu.2xh100-sxm")
    assert site.lab.calls_of("POST *") == []


def test_no_login(site):
    none = {"LEPTON_WORKSPACE_ID": "", "LEPTON_WORKSPACE_TOKEN": ""}
    site.run("one", **none).refuses("no Lepton workspace is named; nothing was submitted")
    site.run("one", LEPTON_WORKSPACE_TOKEN="wrong").refuses("HTTP 401", "LEPTON_WORKSPACE_TOKEN")
    assert not site.lab.jobs


def payload_of(text: str) -> dict:
    """The payload in a dry run's output, or as it is; the job's name, which is another each time, left out."""
    text = text.partition("--- payload: job.json ---\n")[2].partition("\n--- ")[0] or text
    return json.loads(text.replace(json.loads(text)["metadata"]["name"], "a-job"))


def differences(shown: object, sent: object, at: str = "") -> dict[str, object]:
    """Hole → what was sent in its place. Fails where anything else differs."""
    if isinstance(shown, dict) and isinstance(sent, dict):
        assert list(shown) == list(sent), at
        pairs = [(shown[key], sent[key], f"{at}.{key}") for key in shown]
        return {hole: value for pair in pairs for hole, value in differences(*pair).items()}
    if isinstance(shown, list) and isinstance(sent, list):
        if shown and is_hole(shown[-1]):  # which may have become any number of items
            return {shown[-1]: sent[len(shown) - 1 :], **differences(shown[:-1], sent[: len(shown) - 1], at)}
        assert len(shown) == len(sent), at
        pairs = [(a, b, f"{at}[{n}]") for n, (a, b) in enumerate(zip(shown, sent, strict=True))]
        return {hole: value for pair in pairs for hole, value in differences(*pair).items()}
    if shown == sent:
        return {}
    assert is_hole(shown), (at, shown, sent)
    return {str(shown): sent}


def is_hole(value: object) -> bool:
    """Whether it can stand for something."""
    return isinstance(value, str) and re.fullmatch(r"[A-Z][A-Z0-9_]{4,}", value) is not None

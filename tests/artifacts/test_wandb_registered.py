"""`[artifacts] backend = "wandb"`: what jobs make is registered with W&B by the real package, from outside."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from input_recipes import write_recipes
from labs.fixtures import served
from labs.s3.fixtures import s3_lab
from labs.s3.lab import S3Lab
from labs.wandb import ENVIRONMENTS, KEY, WandbLab, wandb_python
from support import Project, process
from waiting import until

__all__ = ["s3_lab"]

pytestmark = pytest.mark.slow

WORDS = "team/nemotron/words"
SECTION = """\
[artifacts]
backend = "wandb"
root = "{root}"
[wandb]
project = "nemotron"
entity = "team"
"""


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WandbLab]:
    yield from served("wandb", lambda folder: WandbLab(), request, tmp_path_factory)


@pytest.fixture
def project(project: Project) -> Project:
    """One whose environments are made once for all of these tests."""
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    project.state.mkdir()
    (project.state / "envs").symlink_to(ENVIRONMENTS)
    write_recipes(project)
    project.write("env.toml", section(project, 'mode = "offline"'))
    return project


def section(project: Project, *more: str) -> str:
    return "\n".join([SECTION.format(root=project.folder / "store"), *more, ""])


def online(project: Project, lab: WandbLab, *more: str) -> dict[str, str]:
    """The project's section, for the server; the variables of a person who is logged in there."""
    project.write("env.toml", section(project, f'base_url = "{lab.origin}"', *more))
    return {"WANDB_BASE_URL": lab.origin, "WANDB_API_KEY": KEY}


def recorded(project: Project, job: str = "last") -> dict[str, str]:
    """What a job's record has of its run."""
    found: dict[str, str] = process(project, "jobs", "show", job, "--json").succeeds().json["wandb"]
    return found


def kept(project: Project) -> dict[str, Path]:
    """The versions that the store has: by their links, where the data lie."""
    folder = project.folder / "store" / "words"
    return {link.name: folder / link.readlink() for link in folder.glob("v*")}


def test_a_job_registers_what_it_made_by_reference(project: Project, lab: WandbLab) -> None:
    given = online(project, lab)
    done = process(project, "mine", "make", **given).succeeds()
    [version] = lab.artifacts.versions(WORDS)
    job = recorded(project)["id"]
    data = kept(project)["v1"]
    assert (version.index, version.collection.type, version.run) == (0, "text", job)
    assert version.aliases == {"latest", job}
    assert lab.artifacts.references(version) == [(data / "words").as_uri()]
    manifest = json.loads((project.folder / "store/words/.versions/v1.json").read_text())
    assert version.metadata == {**manifest, "path": str(data)}
    assert version.metadata["producer"]["job"] == job and version.metadata["digest"].startswith("sha256:")
    assert recorded(project)["artifacts"] == f"{WORDS}:v0"
    assert f"W&B: registered {WORDS}:v0" in done.out
    shown = process(project, "jobs", "show", "last").succeeds().out
    assert f"{WORDS}:v0" in shown and str(data) in shown.replace("\n", "") and "words:v1" not in shown
    [run] = lab.runs.values()
    assert (run.id, run.exit_code) == (job, 0)
    assert "warning" not in done.out + done.err


def test_what_was_read_is_what_the_run_has_used(project: Project, lab: WandbLab) -> None:
    """A version without W&B's number is found by the job that made it."""
    given = online(project, lab)
    project.write("recipes/mine/both/both.py", BOTH)
    project.write("recipes/mine/both/config/default.yaml", BOTH_READS)
    process(project, "mine", "make", **given).succeeds()
    process(project, "mine", "both", **given).succeeds()
    [words], [counted] = lab.artifacts.versions(WORDS), lab.artifacts.versions("team/nemotron/counted")
    assert words.users == [f"team/nemotron/{counted.run}"]
    assert counted.metadata["inputs"][0]["name"] == "words"


BOTH = """\
# /// script
# [tool.runspec]
# description = "Reads and makes."
# [tool.runspec.run]
# launch = "direct"
# [[tool.runspec.consumes]]
# name = "data"
# type = "text"
# [[tool.runspec.produces]]
# name = "model"
# type = "text"
# ///
import pathlib, sys, yaml
config = yaml.safe_load(open(sys.argv[2]))
text = pathlib.Path(config["data"], "words").read_text()
folder = pathlib.Path(config["output_dir"])
folder.mkdir(parents=True)
(folder / "count").write_text(str(len(text)))
"""
BOTH_READS = """\
run: {data: {artifact: words}, model: {artifact: counted}}
data: ${art:data,path}
output_dir: ${run.output_dir}
"""


def test_one_that_fails_registers_nothing_and_makes_no_run(project: Project, lab: WandbLab) -> None:
    given = online(project, lab)
    assert process(project, "mine", "make", "-c", "failing", **given).code == 5
    assert lab.artifacts.collections == {} and lab.runs == {}


def test_metrics_and_artifacts_are_one_run(project: Project, lab: WandbLab) -> None:
    given = online(project, lab, "forward = true")
    script = project.folder / "recipes/mine/make/make.py"
    script.write_text(script.read_text().replace("sys.exit", APPENDS + "sys.exit"))
    process(project, "mine", "make", **given).succeeds()
    [run] = lab.runs.values()
    [version] = lab.artifacts.versions(WORDS)
    assert (run.losses(), version.run, run.exit_code) == ([0.5], run.id, 0)


APPENDS = 'open(os.environ["NEMOTRON_METRICS_FILE"], "a").write(\'{"step": 1, "loss": 0.5}\\n\')\n'


def test_offline_it_is_in_the_run_that_is_kept_and_a_version_once_that_is_sent(
    project: Project, lab: WandbLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = process(project, "mine", "make").succeeds()
    job = recorded(project)
    [run] = (project.state / "jobs" / job["id"] / "wandb").glob(f"offline-run-*-{job['id']}")
    text = (run / f"run-{job['id']}.wandb").read_bytes()
    data = kept(project)["v1"]
    assert (job["state"], job["artifacts"]) == ("offline", "words")
    assert (data / "words").as_uri().encode() in text and str(data).encode() in text
    assert f"wandb sync {run}" in done.out
    assert "words is in the run that is kept here" in done.out
    python = wandb_python(monkeypatch)
    asked = {"PATH": "/usr/bin:/bin", "HOME": str(project.home), "WANDB_BASE_URL": lab.origin, "WANDB_API_KEY": KEY}
    subprocess.run([python, "-m", "wandb", "sync", str(run)], env=asked, check=True, timeout=60)
    [version] = lab.artifacts.versions(WORDS)
    assert (version.index, version.run) == (0, job["id"])
    assert version.metadata["path"] == str(data)


def test_a_server_that_goes_away_loses_the_version_and_not_the_job(project: Project, lab: WandbLab) -> None:
    given = online(project, lab)
    lab.broken["CreateArtifact"] = 400
    done = process(project, "mine", "make", **given).succeeds()
    job = recorded(project)
    data = kept(project)["v1"]
    assert lab.artifacts.versions(WORDS) == []
    assert "artifacts" not in job and job["unregistered"]
    assert "W&B: words is not registered there:" in done.out
    assert f"nemotron artifacts register {job['id']}" in done.out and data.exists()
    assert "not all that it made is registered at W&B" in process(project, "jobs", "show", "last").succeeds().out


def test_without_the_package_that_is_said_when_it_starts_and_when_it_ends(project: Project, lab: WandbLab) -> None:
    """In an environment that cannot be made, as without a network."""
    given = online(project, lab)
    (project.state / "envs").unlink()
    nowhere = {"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": "", "UV_CACHE_DIR": str(project.folder / "no")}
    done = process(project, "mine", "make", **given, **nowhere).succeeds()
    assert "artifacts will not be told to W&B" in done.err
    assert "this job's python has no wandb: what it makes cannot be registered there" in done.out
    assert "words is not registered there: this job's python has no wandb" in done.out
    assert recorded(project)["unregistered"] == "this job's python has no wandb"


def test_two_at_once_are_two_versions(project: Project, lab: WandbLab) -> None:
    given = online(project, lab)
    process(project, "mine", "make", "-m", "++seed=1,2", **given).succeeds()
    found = lab.artifacts.versions(WORDS)
    assert [version.index for version in found] == [0, 1]
    assert len({version.run for version in found}) == 2


def test_without_a_project_it_is_refused(project: Project) -> None:
    project.write("env.toml", '[artifacts]\nbackend = "wandb"\n')
    process(project, "mine", "make").refuses('[artifacts] backend = "wandb" needs to know of which project')
    done = process(project, "mine", "make", "run.wandb.project=x", "run.wandb.mode=disabled").succeeds()
    assert "is a version in its store alone" in done.err


def asked(project: Project, given: dict[str, str], *words: str) -> str:
    """What `nemotron artifacts` prints."""
    return process(project, "artifacts", *words, **given).succeeds().out


def test_versions_are_looked_up_there(project: Project, lab: WandbLab, tmp_path: Path) -> None:
    given = online(project, lab)
    project.write("recipes/mine/both/both.py", BOTH)
    project.write("recipes/mine/both/config/default.yaml", BOTH_READS)
    for recipe in ("make", "make", "both"):
        process(project, "mine", recipe, **given).succeeds()
    first, second = (kept(project)[name] for name in ("v1", "v2"))
    assert {line.split()[0] for line in asked(project, given, "list").splitlines()[1:]} == {"words:v1", "counted:v0"}
    listed = process(project, "artifacts", "list", "words", "--json", **given).succeeds().json
    assert [(each["reference"], each["path"]) for each in listed] == [
        ("words:v1", str(second)),
        ("words:v0", str(first)),
    ]
    for word in ("0", "v0", first.name):
        assert "words:v0" in asked(project, given, "show", f"words:{word}").splitlines()[0]
    shown = asked(project, given, "show", "words")
    assert "words:v1 (latest)" in shown and "counted:v0" in shown and str(second) in shown
    lines = asked(project, given, "lineage", "counted").splitlines()
    assert lines[0].startswith("counted:v0") and "words:v1" in lines[1]
    asked(project, given, "tag", "words:0", "gold")
    assert [v.index for v in lab.artifacts.versions(WORDS) if "gold" in v.aliases] == [0]
    assert "words:v0" in asked(project, given, "show", "words:gold").splitlines()[0]
    pulled = asked(project, given, "pull", "words:gold", str(tmp_path / "here")).strip()
    assert Path(pulled, "words").read_text() == (first / "words").read_text()
    process(project, "artifacts", "rm", "words:1", "-y", **given).refuses("counted:v0 was made from it")
    asked(project, given, "rm", "words:0", "-y")
    assert [v.index for v in lab.artifacts.versions(WORDS)] == [1]
    assert first.exists()


def test_what_was_lost_is_registered_afterwards_by_the_jobs_own_run(project: Project, lab: WandbLab) -> None:
    given = online(project, lab)
    project.write("recipes/mine/both/both.py", BOTH)
    project.write("recipes/mine/both/config/default.yaml", BOTH_READS)
    process(project, "mine", "make", **given).succeeds()
    lab.broken["CreateArtifact"] = 400
    process(project, "mine", "both", **given).succeeds()
    job = recorded(project)["id"]
    process(project, "artifacts", "register", job, **given).refuses("W&B cannot be asked")
    lab.broken.clear()
    assert asked(project, given, "register", job) == f"{job}: registered counted\n"
    [words], [counted] = lab.artifacts.versions(WORDS), lab.artifacts.versions("team/nemotron/counted")
    assert (counted.run, counted.metadata["producer"]["job"], words.users[-1]) == (job, job, f"team/nemotron/{job}")
    assert recorded(project)["artifacts"] == "team/nemotron/counted:v0"
    assert "warning" not in process(project, "jobs", "show", "last").succeeds().out


def test_data_from_outside_are_added_by_reference(project: Project, lab: WandbLab, tmp_path: Path) -> None:
    given = online(project, lab)
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "w").write_text("1")
    assert asked(project, given, "add", str(tmp_path / "net"), "--name", "net", "--type", "model").startswith("net:v0")
    [version] = lab.artifacts.versions("team/nemotron/net")
    assert lab.artifacts.references(version) == [(tmp_path / "net" / "w").as_uri()]


def test_an_error_is_one_message(project: Project, lab: WandbLab) -> None:
    given = online(project, lab)
    process(project, "mine", "make", **given).succeeds()
    process(project, "artifacts", "show", "wrods", **given).refuses("there is no artifact 'wrods'", "words")
    process(project, "artifacts", "show", "words:7", **given).refuses("has no version '7'", "v0")
    process(project, "artifacts", "list", **{**given, "WANDB_API_KEY": ""}).refuses("there is no key for W&B here")
    other = {**given, "WANDB_API_KEY": "x" * 40}
    process(project, "artifacts", "list", **other).refuses("W&B does not let team/nemotron be read")
    gone = "http://127.0.0.1:9"
    project.write("env.toml", section(project, f'base_url = "{gone}"'))
    ended = process(project, "artifacts", "show", "words", WANDB_BASE_URL=gone, WANDB_API_KEY=KEY)
    ended.refuses("W&B cannot be asked, so what team/nemotron has is not known")
    assert "no artifact" not in ended.err


def test_an_input_is_the_version_that_it_is_there(project: Project, lab: WandbLab) -> None:
    """By number, tag, job, and the newest one: also where the store has another one that is newer."""
    given = online(project, lab)
    for _ in range(2):
        process(project, "mine", "make", **given).succeeds()
    first, second = (kept(project)[name].name for name in ("v1", "v2"))
    lab.broken["CreateArtifact"] = 400
    process(project, "mine", "make", **given).succeeds()
    lab.broken.clear()
    old, _new = lab.artifacts.versions(WORDS)
    old.aliases.add("gold")
    for word, job in (("", second), (":0", first), (":gold", first)):
        done = process(project, "mine", "read", "-c", "strict", f"run.data=words{word}", **given).succeeds()
        assert f"read: made by {job}" in done.out
    page = process(project, "mine", "read", "-c", "strict", "run.data=words:0", "--dry-run", **given).succeeds()
    assert "asked of W&B when it is submitted" in page.out
    process(project, "mine", "read", "-c", "strict", "run.data=words:7", **given).refuses("has no version 'v7'")
    project.write("env.toml", section(project, 'mode = "offline"'))
    process(project, "mine", "read", "-c", "strict", "run.data=words:0").refuses("W&B numbers")
    done = process(project, "mine", "read", "-c", "strict", "run.data=words").succeeds()
    assert f"read: made by {kept(project)['v3'].name}" in done.out


def test_a_saved_plan_says_which_version_it_is(project: Project, lab: WandbLab) -> None:
    given = online(project, lab)
    process(project, "mine", "make", **given).succeeds()
    saved = ("mine", "read", "-c", "strict", "run.data=words:0", "--dry-run", "--out", "plan.json")
    process(project, *saved, **given).succeeds()
    process(project, "apply", "plan.json", **given).refuses("saved before W&B was asked what words:v0 is")
    process(project, *saved, "--resolve", **given).succeeds()
    assert str(kept(project)["v1"]) in (project.folder / "plan.json").read_text()
    assert "read: made by" in process(project, "apply", "plan.json", **given).succeeds().out


def test_what_can_be_made_is_made_where_nothing_is_there_and_not_where_nobody_knows(
    project: Project, lab: WandbLab
) -> None:
    given = online(project, lab)
    done = process(project, "mine", "read", **given).succeeds()
    assert "read: made by" in done.out and len(lab.artifacts.versions(WORDS)) == 1
    lab.broken["ProjectArtifactTypes"] = 400
    ended = process(project, "mine", "read", **given)
    ended.refuses("W&B cannot be asked, so what team/nemotron has is not known")
    assert len(lab.artifacts.versions(WORDS)) == 1


def test_a_job_that_is_ended_registers_nothing(project: Project, lab: WandbLab) -> None:
    """It has written what it makes, and is told to stop then."""
    given = online(project, lab)
    script = project.folder / "recipes/mine/make/make.py"
    script.write_text(script.read_text().replace("sys.exit(", "(job / 'made').touch(); time.sleep(600); sys.exit("))
    process(project, "mine", "make", "--batch", "local", **given).succeeds()
    [job] = (project.state / "jobs").glob("mine-make-*")
    until((job / "made").exists, "it has made its data")
    process(project, "jobs", "cancel", job.name).succeeds()
    process(project, "jobs", "wait", job.name)
    assert lab.artifacts.collections == {} and lab.runs == {}
    assert kept(project) == {}


def test_a_server_that_is_gone_when_the_job_ends(project: Project, lab: WandbLab) -> None:
    """Its run has begun there."""
    given = online(project, lab, "forward = true")
    process(project, "mine", "make", "-c", "held", "--batch", "local", **given).succeeds()
    [job] = (project.state / "jobs").glob("mine-make-*")
    until(lambda: lab.runs, "its run has begun")
    lab.fault("*", "500", times=None)
    (job / "go").touch()
    assert process(project, "jobs", "wait", job.name).code == 0
    found = recorded(project, job.name)
    assert found["unregistered"] and "artifacts" not in found
    assert lab.artifacts.versions(WORDS) == [] and kept(project)


def test_what_lies_in_a_bucket_is_a_reference_into_it(project: Project, lab: WandbLab, s3_lab: S3Lab) -> None:
    given = {**online(project, lab), **s3_lab.environment()}
    bucket = f'root = "s3://bucket/our"\nendpoint = "{s3_lab.endpoint}"\nregion = "{s3_lab.region}"'
    text = project.env_file.read_text().replace(f'root = "{project.folder}/store"', bucket)
    project.write("env.toml", text)
    process(project, "mine", "make", **given).succeeds()
    [version] = lab.artifacts.versions(WORDS)
    uri = f"s3://bucket/our/words/{version.run}"
    assert lab.artifacts.references(version) == [uri] and version.metadata["path"] == uri
    assert s3_lab.get(f"{uri}/words") == f"made by {version.run}".encode()
    done = process(project, "mine", "read", "-c", "strict", "run.data=words:0", **given).succeeds()
    assert f"read: made by {version.run}" in done.out
    pulled = Path(asked(project, given, "pull", "words:0", str(project.folder / "here")).strip())
    assert (pulled / "words").read_text() == f"made by {version.run}"

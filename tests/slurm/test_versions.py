"""Versions of artifacts on a cluster: registered by the job itself, read by the next, never lost in a container."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from labs.s3.lab import S3Lab
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from labs.slurm.process import CLEAN
from labs.wandb import KEY, WandbLab, wandb_python
from slurm_jobs import LabHost, job_of, put, slurm_plan, wait
from support import Outcome, Project
from waiting import until

from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.backends.slurm.cluster.submit import submit
from nemo_runspec.backends.slurm.observe import collect_results
from nemo_runspec.plans.model import Artifact
from nemo_runspec.records.status import JobStatus

pytestmark = needs_slurm

HEAD = '# /// script\n# [tool.runspec]\n# schema = "1"\n# [tool.runspec.run]\n# launch = "direct"\n{0}# ///\n'
MAKER = (
    HEAD.format('# [[tool.runspec.produces]]\n# name = "model"\n# type = "text"\n')
    + """
import os, pathlib, sys, time
folder = pathlib.Path(open(sys.argv[2]).read().split("output_dir: ")[1].strip())
folder.mkdir(parents=True)
(folder / "by").write_text(os.environ["NEMOTRON_JOB_NAME"])
while os.environ.get("GATE") and not os.path.exists(os.environ["GATE"]):
    time.sleep(0.05)
"""
)
READER = (
    HEAD.format('# [[tool.runspec.consumes]]\n# name = "data"\n# type = "text"\n')
    + """
import pathlib, sys
print("made by", pathlib.Path(open(sys.argv[2]).read().split("data: ")[1].strip(), "by").read_text(), flush=True)
"""
)


@dataclasses.dataclass
class Cluster:
    """A project with the profile `lab`, and recipes that make and read an artifact."""

    lab: SlurmLab
    project: Project
    process: Callable[..., Outcome]
    lab_keys: dict[str, str] = dataclasses.field(default_factory=dict)

    def profile(self, top: Path, *lines: str) -> None:
        keys = ["[lab]", 'executor = "slurm"', 'account = "acme"', 'partition = "batch"', 'time = "00:05:00"']
        self.project.write("env.toml", "\n".join([*keys, f'remote_job_dir = "{top}/run"', *lines, ""]))

    def nemotron(self, *words: str) -> Outcome:
        path = f"{Path(sys.executable).parent}:{CLEAN['PATH']}"
        return self.process(*words, **{**self.lab.environment(), **self.lab_keys, "PATH": path})

    def show(self, name: str = "last") -> dict:
        return self.nemotron("jobs", "show", name, "--json").succeeds().json


@pytest.fixture
def s3_lab(slurm_lab: SlurmLab, tmp_path: Path) -> Iterator[S3Lab]:
    """Where the cluster's nodes reach this machine."""
    (tmp_path / "s3" / "bucket").mkdir(parents=True)
    lab = S3Lab(tmp_path / "s3", host=slurm_lab.outside)
    try:
        yield lab
    finally:
        lab.close()


@pytest.fixture
def cluster(slurm_lab: SlurmLab, project: Project, nemotron_process: Callable[..., Outcome]) -> Cluster:
    project.write("recipes/mine/make/make.py", MAKER)
    project.write(
        "recipes/mine/make/config/default.yaml",
        "run: {model: {artifact: words}}\nseed: 1\noutput_dir: ${run.output_dir}\n",
    )
    project.write("recipes/mine/read/read.py", READER)
    project.write("recipes/mine/read/config/default.yaml", "run: {data: {artifact: words}}\ndata: ${art:data,path}\n")
    return Cluster(slurm_lab, project, nemotron_process)


def test_a_chain_by_dependencies(cluster: Cluster, tmp_path: Path):
    """The second is submitted while the first one runs, and nobody asks about either meanwhile."""
    cluster.profile(tmp_path)
    gate = tmp_path / "go"
    cluster.nemotron("mine", "make", "--batch", "lab", f"++run.env.env_vars.GATE='{gate}'").succeeds()
    first = cluster.show()
    words = ("mine", "read", "--batch", "lab", f"run.env.dependencies=['{first['handle']['id']}']")
    dry = cluster.nemotron(*words, "--dry-run").succeeds()
    assert "the newest version when it starts" in dry.out
    cluster.nemotron(*words).succeeds()
    second = cluster.show()["name"]
    gate.touch()
    assert cluster.nemotron("jobs", "wait", second).code == 0
    assert f"made by {first['name']}" in cluster.nemotron("jobs", "logs", second).succeeds().out
    assert cluster.show(second)["inputs"] == {"data": f"{tmp_path}/run/artifacts/words/{first['name']}"}


def test_a_store_that_no_mount_holds_is_mounted_for_the_container(cluster: Cluster, tmp_path: Path):
    """As in an env file that names `[artifacts] root` besides a profile with a container and other mounts."""
    image = cluster.lab.image("versions-mounted")
    (tmp_path / "data").mkdir()
    cluster.profile(
        tmp_path,
        f'container_image = "{image}"',
        f'mounts = ["{tmp_path}/data:/data"]',
        f'[artifacts]\nroot = "{tmp_path}/store"',
    )
    dry = cluster.nemotron("mine", "make", "--run", "lab", "--dry-run").succeeds()
    assert f"{tmp_path}/store:{tmp_path}/store," in dry.out and "before submission" not in dry.out
    cluster.nemotron("mine", "make", "--run", "lab").succeeds()
    name = cluster.show()["name"]
    assert (tmp_path / "store" / "words" / "latest" / "by").read_text() == name
    assert f"made by {name}" in cluster.nemotron("mine", "read", "--run", "lab").succeeds().out


def test_a_store_behind_a_mount_is_registered_where_it_lies(cluster: Cluster, tmp_path: Path):
    """The container calls it otherwise than the batch shell, which registers it."""
    image = cluster.lab.image("versions-behind")
    (tmp_path / "mydata").mkdir()
    cluster.profile(
        tmp_path,
        f'container_image = "{image}"',
        f'mounts = ["{tmp_path}/mydata:/data"]',
        '[artifacts]\nroot = "/data/s"',
    )
    cluster.nemotron("mine", "make", "--run", "lab").succeeds()
    assert (tmp_path / "mydata" / "s" / "words" / "latest").readlink().name == cluster.show()["name"]


@pytest.mark.parametrize("mount", ["ro", "gone with the job"])
def test_a_store_that_keeps_nothing_is_refused(cluster: Cluster, tmp_path: Path, mount: str):
    source = "/dev/shm/x:/data" if mount != "ro" else f"{tmp_path}:/data:ro"
    cluster.profile(tmp_path, 'container_image = "x.sqsh"', f'mounts = ["{source}"]', '[artifacts]\nroot = "/data/s"')
    refused = cluster.nemotron("mine", "make", "--run", "lab")
    refused.refuses("output 'model' would be lost when the job ends", "env.toml:10 [artifacts]", "add to mounts")


def test_every_task_of_a_sweep_registers_its_own(cluster: Cluster, tmp_path: Path):
    cluster.profile(tmp_path)
    cluster.nemotron("mine", "make", "--run", "lab", "-m", "seed=1,2").succeeds()
    versions = {path.name for path in (tmp_path / "run" / "artifacts" / "words").iterdir()}
    assert {"latest", "v1", "v2"} < versions and len(versions) == 6
    assert (tmp_path / "run" / "artifacts" / "words" / "latest").readlink().name in versions


def test_the_tasks_of_an_array_register_one_version_together_once_all_have_ended_well(cluster: Cluster, tmp_path: Path):
    task = MAKER.replace("folder.mkdir(parents=True)", "folder.mkdir(parents=True, exist_ok=True)").replace(
        '"by").write_text', '("by" + os.environ["SLURM_ARRAY_TASK_ID"])).write_text'
    )
    ends = 'raise SystemExit(os.environ.get("FAILS") == os.environ["SLURM_ARRAY_TASK_ID"])\n'
    cluster.project.write("recipes/mine/make/make.py", task + ends)
    cluster.profile(tmp_path, 'array = "0-3"')
    assert cluster.nemotron("mine", "make", "--run", "lab", "++run.env.env_vars.FAILS='2'").code == 1
    cluster.nemotron("mine", "make", "--run", "lab").succeeds()
    (made,) = cluster.nemotron("artifacts", "list", "words", "-r", "lab", "--json").succeeds().json
    name = cluster.show()["name"]
    assert (made["version"], made["producer"]["job"], made["files"], made["latest"]) == (1, name, 4, True)
    assert made["type"] == "text" and made["config"]


def test_a_job_that_is_cancelled_registers_nothing(cluster: Cluster, tmp_path: Path):
    cluster.profile(tmp_path)
    cluster.nemotron("mine", "make", "--batch", "lab", "++run.env.env_vars.GATE='/never'").succeeds()
    name = cluster.show()["name"]
    folder = tmp_path / "run" / "artifacts" / "words"
    until((folder / name / "by").exists, "what it makes")
    cluster.nemotron("jobs", "cancel", name).succeeds()
    assert cluster.nemotron("jobs", "wait", name).code != 0
    assert not (folder / "latest").is_symlink()


def test_a_job_of_the_release_before_is_finished_and_never_moves_the_newest_back(slurm_lab: SlurmLab, tmp_path: Path):
    """Its own side registers nothing: whoever asks does, unless another has become the newest since it ended."""
    host = LabHost(slurm_lab)
    plan = slurm_plan(tmp_path, "print('made')")
    made = tmp_path / "store" / "words" / plan.name
    other = made.with_name("other")
    for path in (made, other):
        path.mkdir(parents=True)
    put(host, plan)
    job = SlurmJobRef(submit(host, job_of(plan)).id, plan.job_dir, 1)
    seen = wait(host, job)
    assert seen.state == "succeeded" and not (made.parent / "latest").is_symlink()
    handle = {"job_dir": plan.job_dir, "name": plan.name, "id": job.id, "versions": [str(made)]}
    latest = made.parent / "latest"

    def finish() -> str:
        collect_results(host, [handle], [JobStatus("succeeded", detail=seen)])
        return latest.readlink().name

    assert finish() == plan.name
    latest.unlink()
    latest.symlink_to("other")
    assert finish() == "other", "it was registered after this job had ended"
    before = (Path(plan.job_dir) / "status" / "node-0").stat().st_mtime - 10
    os.utime(latest, (before, before), follow_symlinks=False)
    assert finish() == plan.name
    collect_results(host, [{**handle, "versions": []}], [JobStatus("succeeded", detail=seen)])


def test_an_artifact_that_has_a_name_of_its_own_place(tmp_path: Path):
    """A plan's own record of what it makes, without a cluster: where the batch shell finds it."""
    from nemo_runspec.backends.slurm.render import version_files

    plan = slurm_plan(tmp_path, "", {"container_image": "i", "mounts": ["$HOME/it's:/data"]})
    made = Artifact("model", "text", artifact="words", path=f"/data/s/words/{plan.name}")
    (file,) = version_files(dataclasses.replace(plan, produces=(made,)))
    assert file.text == f'nemotron_versions=("$HOME/it\'s/s/words/{plan.name}")\n'
    assert version_files(plan) == ()


def test_the_versions_of_a_cluster_are_listed_tagged_brought_and_read_from_here(cluster: Cluster, tmp_path: Path):
    cluster.profile(tmp_path)
    for seed in (1, 2):
        cluster.nemotron("mine", "make", "--run", "lab", f"seed={seed}").succeeds()
    store = tmp_path / "run" / "artifacts"
    listed = cluster.nemotron("artifacts", "list", "words", "-r", "lab", "--json").succeeds().json
    assert [each["reference"] for each in listed] == ["words:v2", "words:v1"]
    assert listed[0]["path"] == f"{store}/words/{listed[0]['producer']['job']}" and listed[0]["latest"]
    assert listed[0]["producer"]["profile"] == "lab" and listed[0]["producer"]["executor"] == "slurm"
    config = cluster.nemotron("artifacts", "diff", "words:1", ":2", "-r", "lab", "--json").succeeds().json["differs"]
    assert config["config seed"] == [1, 2]
    cluster.nemotron("artifacts", "tag", "words:1", "gold", "-r", "lab").succeeds()
    cluster.nemotron("artifacts", "tag", "words:1", "v7", "-r", "lab").refuses("cannot be a tag")
    out = cluster.nemotron("artifacts", "pull", "words:gold", str(tmp_path / "here"), "-r", "lab").succeeds().out
    assert out.strip() == str(tmp_path / "here") and list((tmp_path / "here").iterdir())
    cluster.nemotron("artifacts", "rm", "words:2", "--data", "-y", "-r", "lab").succeeds()
    assert (
        not Path(listed[0]["path"]).exists()
        and (store / "words" / "latest").readlink().name == listed[1]["path"].rpartition("/")[2]
    )


def test_a_cluster_registers_in_a_bucket_and_reads_from_it(cluster: Cluster, tmp_path: Path, s3_lab: S3Lab):
    section = f'root = "s3://bucket/a"\nendpoint = "{s3_lab.endpoint}"\nregion = "{s3_lab.region}"'
    cluster.profile(tmp_path, f"[artifacts]\n{section}")
    cluster.lab_keys = s3_lab.environment()
    cluster.nemotron("mine", "make", "--run", "lab").succeeds()
    made = cluster.show()["name"]
    (listed,) = cluster.nemotron("artifacts", "list", "--json").succeeds().json
    assert listed["reference"] == "words:v1" and listed["producer"]["job"] == made
    assert s3_lab.get(f"s3://bucket/a/words/{made}/by") == made.encode()
    shutil.rmtree(tmp_path / "run" / "artifacts")
    done = cluster.nemotron("mine", "read", "--run", "lab", "run.data=words:1").succeeds()
    assert f"made by {made}" in done.out
    assert cluster.show()["inputs"]["data"].endswith(f"/words/{made}")


def test_a_job_of_two_nodes_registers_with_wandb_once(cluster: Cluster, tmp_path: Path, monkeypatch):
    """The store has it once too: what node 0 has registered, the batch script finds done."""
    found = wandb_python(monkeypatch)
    lab = WandbLab(cluster.lab.outside)
    try:
        cluster.profile(
            tmp_path,
            f"startup_commands = ['export NEMOTRON_WANDB_PYTHON={found}']",
            "nodes = 2",
            f'[artifacts]\nbackend = "wandb"\n[wandb]\nentity = "team"\nproject = "p"\nbase_url = "{lab.origin}"',
        )
        cluster.lab_keys.update(WANDB_API_KEY=KEY, WANDB_BASE_URL=lab.origin)
        words = (cluster.project.folder / "recipes/mine/make/make.py").read_text()
        script = words.replace("mkdir(parents=True)", "mkdir(parents=True, exist_ok=True)")
        cluster.project.write("recipes/mine/make/make.py", script)
        cluster.nemotron("mine", "make", "--run", "lab").succeeds()
        job = cluster.show()
        [version] = lab.artifacts.versions("team/p/words")
        path = f"{tmp_path}/run/artifacts/words/{job['name']}"
        assert (version.run, version.metadata["path"], version.metadata["version"]) == (job["name"], path, 1)
        assert job["wandb"]["artifacts"] == "team/p/words:v0"
        assert [each.name for each in Path(path).parent.glob("v*")] == ["v1"]
    finally:
        lab.close()

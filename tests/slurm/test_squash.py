"""Squash files: names that cannot collide, whole or not there, made once by two, and a job like any other."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labs.podman import Podman, needs_podman
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from labs.slurm.standins import STANDINS
from support import Outcome, Project
from waiting import line_of, until

from nemo_runspec.backends.slurm.render import render_sbatch
from nemo_runspec.backends.slurm.squash import parse_image, squash_recipe
from nemo_runspec.errors import UserError
from nemo_runspec.images import is_image_file
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.codec import plan_from_json, plan_to_json
from nemo_runspec.planning.planned import Planned
from nemo_runspec.planning.request import plan_request
from nemo_runspec.plans.model import Plan
from nemo_runspec.runner import squash
from nemo_runspec.runner.client import Caller
from nemo_runspec.runner.run import run_plan
from nemo_runspec.runner.squash import squashed
from nemotron.cli.console import caller

IMAGE = "nvcr.io/nvidia/nemo:25.09"
URI = "docker://nvcr.io#nvidia/nemo:25.09"
DIGEST = "sha256:" + "0123456789abcdef" * 4


# Names


@pytest.mark.parametrize(
    ("text", "canonical", "uri"),
    [
        (IMAGE, IMAGE, URI),
        (URI, IMAGE, URI),
        ("nvcr.io#nvidia/nemo:25.09", IMAGE, URI),
        ("docker://nvcr.io/nvidia/nemo:25.09", IMAGE, URI),
        ("NVCR.io/nvidia/nemo:25.09", IMAGE, URI),
        ("ubuntu", "docker.io/library/ubuntu:latest", "docker://library/ubuntu:latest"),
        ("docker.io/library/ubuntu:latest", "docker.io/library/ubuntu:latest", "docker://library/ubuntu:latest"),
        ("bitnami/spark:3.5", "docker.io/bitnami/spark:3.5", "docker://bitnami/spark:3.5"),
        ("localhost:5000/a/b:1", "localhost:5000/a/b:1", "docker://localhost:5000#a/b:1"),
        (f"nvcr.io/nvidia/nemo@{DIGEST}", f"nvcr.io/nvidia/nemo@{DIGEST}", f"docker://nvcr.io#nvidia/nemo:{DIGEST}"),
        (f"nvcr.io/nvidia/nemo:1@{DIGEST}", f"nvcr.io/nvidia/nemo@{DIGEST}", f"docker://nvcr.io#nvidia/nemo:{DIGEST}"),
        (f"docker://nvcr.io#nvidia/nemo:{DIGEST}", f"nvcr.io/nvidia/nemo@{DIGEST}", f"docker://nvcr.io#nvidia/nemo:{DIGEST}"),
    ],
)  # fmt: skip
def test_every_spelling_is_one_image(text, canonical, uri):
    image = parse_image(text)
    assert (str(image), image.uri) == (canonical, uri)
    assert image.file_name == parse_image(canonical).file_name


@pytest.mark.parametrize(
    "text",
    ["", "docker://", "nvcr.io/", "a b", "a:b:c", "a@sha256:12", "nvcr.io/A:1", "dockerd://a", "podman://a b", "a;b",
     "docker-archive://relative.tar", "oci-archive:///a b", "docker-archive://", "podman://",
     "me@nvcr.io#nvidia/nemo:1", "--output=/x", "nvcr.io/nvidia/nemo:25.09\nx"],
)  # fmt: skip
def test_what_is_no_reference(text):
    with pytest.raises(UserError):
        parse_image(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("docker-archive:///lustre/me/it.tar", "it"),
        ("oci-archive:///lustre/me/omni3-sft.oci.tar", "omni3-sft.oci"),
        ("podman://localhost/nemotron/omni3-sft:latest", "omni3-sft-latest"),
    ],
)
def test_an_image_of_no_registry(text, name):
    image = parse_image(text)
    assert image.uri == text
    assert re.fullmatch(rf"{name}-[0-9a-f]{{10}}\.sqsh", image.file_name)
    assert not is_image_file(text)


@pytest.mark.parametrize("path", ["/lustre/a.sqsh", "~/a.sqsh", "$HOME/a", "a.sqsh", "./b"])
def test_files_are_files(path):
    assert is_image_file(path)
    assert not is_image_file(IMAGE)


_PART = st.from_regex(r"[a-z0-9]{1,4}([._-][a-z0-9]{1,3})?", fullmatch=True)
_NAME = st.builds(
    "{}/{}:{}".format,
    st.sampled_from(["nvcr.io", "nvcr-io.a", "localhost:5000", "localhost-5000.a"]),
    st.lists(_PART, min_size=1, max_size=3).map("/".join),
    st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,5}", fullmatch=True),
)


@given(_NAME, _NAME)
def test_two_images_are_two_files(one, other):
    first, second = parse_image(one).file_name, parse_image(other).file_name
    assert (first == second) == (one == other)
    assert "/" not in first


@pytest.mark.parametrize(("one", "other"), [("a/b:1", "a-b:1"), ("x.io/a/b:1", "x.io/a:b-1"), ("a:1" * 1, "a:1-1")])
def test_names_that_look_alike(one, other):
    assert parse_image(one).file_name != parse_image(other).file_name
    long = "/".join(["part"] * 60)
    assert len(parse_image(f"{long}:1").file_name) < 200
    assert parse_image(f"{long}:1").file_name != parse_image(f"{long}:2").file_name


# The script, with a stand-in for enroot


class Bench:
    """A cache, a registry with one image, and the job's script to run on them."""

    def __init__(self, top: Path) -> None:
        self.registry = top / "registry"
        self.registry.mkdir()
        (self.registry / "nvcr.io+nvidia+nemo+25.09").touch()
        self.cache = top / "cache" / "containers"
        self.file = self.cache / "nemo.sqsh"
        self.calls = top / "calls.jsonl"
        self.hold = top / "hold"
        self.commands = top / "bin"
        self.strike = top / "strike"
        self.commands.mkdir()
        # A signal that comes to every process of the job, once `strike` is there.
        lines = ("#!/bin/bash", f"[ ! -e {self.strike} ] || kill -TERM $$", 'exec /bin/rm "$@"', "")
        (self.commands / "rm").write_text("\n".join(lines))
        (self.commands / "rm").chmod(0o755)

    def environment(self) -> dict[str, str]:
        return {
            "STANDIN_REGISTRY": str(self.registry),
            "STANDIN_CALLS": str(self.calls),
            "STANDIN_HOLD": str(self.hold),
            "PATH": f"{self.commands}:{STANDINS}:{os.environ['PATH']}",
        }

    def start(self, *words: str, job: str = "1", uri: str = URI) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(squash_recipe().script), uri, str(self.file), *words],
            env={**os.environ, **self.environment(), "SLURM_JOB_ID": job},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, *words: str, uri: str = URI) -> tuple[int, str]:
        process = self.start(*words, uri=uri)
        said, _ = process.communicate(timeout=120)
        return process.returncode, said

    def imports(self) -> list[list[str]]:
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [json.loads(line)["argv"] for line in lines]

    def files(self) -> list[str]:
        if not self.cache.exists():
            return []
        return sorted(file.name for file in self.cache.iterdir() if not file.name.endswith(".lock"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_made_once_and_again_when_forced(bench):
    code, said = bench.run()
    assert (code, bench.files()) == (0, ["nemo.sqsh"]), said
    assert bench.imports() == [["import", "--output", f"{bench.cache}/.nemo.sqsh.1.part", URI]]
    content = bench.file.read_bytes()
    assert bench.run()[0] == 0
    assert (bench.file.read_bytes(), len(bench.imports())) == (content, 1), "what is there is used"
    assert bench.run("--force")[0] == 0
    assert bench.file.read_bytes() != content
    assert bench.files() == ["nemo.sqsh"]


def test_an_image_that_is_not_there(bench):
    code, said = bench.run(uri="docker://nvcr.io#nvidia/none:1")
    assert code == 1
    assert "404 Not Found" in said
    assert "error: enroot import docker://nvcr.io#nvidia/none:1 has ended with exit code 1" in said
    assert bench.files() == []


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_two_at_the_same_time_make_it_once(bench, force):
    bench.hold.touch()
    first = bench.start(*force, job="1")
    until(bench.files, "what the first import writes")
    second = bench.start(*force, job="2")
    assert second.stdout is not None
    assert line_of(second.stdout) == "another job makes nemo.sqsh now; waiting for it\n"
    assert bench.files() == [".nemo.sqsh.1.part"], "nobody sees a half"
    bench.hold.unlink()
    for process in (first, second):
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert (bench.files(), len(bench.imports())) == (["nemo.sqsh"], 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_one_that_is_ended_leaves_nothing_for_the_next(bench, number):
    bench.hold.touch()
    process = bench.start()
    until(bench.files, "what the import writes")
    bench.strike.touch()
    process.send_signal(number)
    process.wait(120)  # a process that was killed is not gone yet
    bench.strike.unlink()
    assert number == signal.SIGKILL or bench.files() == []
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    bench.hold.unlink()
    process.communicate(timeout=120)  # the pipe ends with the last process
    assert not bench.file.exists()
    code, said = bench.run()
    assert (code, bench.files()) == (0, ["nemo.sqsh"]), said


@needs_podman
@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_an_archive_is_loaded_first(bench, tmp_path, kind):
    """With Debian's podman, as `save=oci` of a build leaves one; nothing of it stays on the node."""
    podman = Podman(tmp_path / "podman")
    archive = podman.base(tmp_path / "it.tar")
    if kind == "oci-archive":
        archive = tmp_path / "it.oci.tar"
        podman.run("tag", "base:1", "nemotron/omni3-sft:latest")
        podman.run("save", "--format", kind, "--output", str(archive), "nemotron/omni3-sft:latest")
    (bench.commands / "enroot").symlink_to(STANDINS / "enroot")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, **bench.environment(), "TMPDIR": str(scratch)}
    environment["PATH"] = f"{bench.commands}:{os.environ['PATH']}"
    words = ["bash", str(squash_recipe().script), f"{kind}://{archive}", str(bench.file)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    [made] = json.loads(bench.file.read_bytes().removeprefix(b"hsqs"))
    name = "localhost/nemotron/omni3-sft:latest" if kind == "oci-archive" else "localhost/base:1"
    assert name in made["RepoTags"]
    assert bench.imports()[-1][-1] == f"podman://{name}"
    assert list(scratch.iterdir()) == []


def test_a_node_without_enroot(bench, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "uname").symlink_to("/usr/bin/uname")
    done = subprocess.run(
        ["/bin/bash", str(squash_recipe().script), URI, str(bench.file)],
        env={"PATH": str(tools)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 127
    assert "enroot is not on" in done.stderr
    assert "build_partition" in done.stderr


# The command

PROFILE = """\
[lab]
executor = "slurm"
partition = "batch"
build_partition = "cpu"
build_time = "00:05:00"
nodes = 2
gpus_per_node = 8
gres = "gpu:8"
container_image = "nvcr.io/nvidia/nemo:25.09"
startup_commands = ["exit 9"]
remote_job_dir = "{top}/run"
build_cache_dir = "{top}/cache"
"""


@pytest.fixture
def profile(project: Project, tmp_path: Path) -> str:
    project.write("env.toml", PROFILE.format(top=tmp_path))
    return "lab"


def test_the_dry_run_shows_the_job(project, nemotron, profile, tmp_path):
    out = nemotron("kit", "slurm", "squash", profile, IMAGE, "--dry-run", "--full").succeeds().out
    name = parse_image(IMAGE).file_name
    assert f"'docker://nvcr.io#nvidia/nemo:25.09'\"'\"' {tmp_path}/cache/containers/{name}" in out
    for line in ("--partition=cpu", "--time=00:05:00", "--nodes=1", "--ntasks-per-node=1"):
        assert f"#SBATCH {line}\n" in out
    for word in ("#SBATCH --gpus", "#SBATCH --gres", "--container-image", "exit 9"):
        assert word not in out, word


def test_refusals(project, nemotron, profile):
    nemotron("kit", "slurm", "squash", profile, "a b").refuses("is no reference of a container image", "fix:")
    nemotron("kit", "slurm", "squash", "gone", IMAGE).refuses("gone")
    project.write("env.toml", '[box]\nexecutor = "docker"\ncontainer_image = "x"\n')
    nemotron("kit", "slurm", "squash", "box", IMAGE).refuses("squash files are for Slurm", "executor 'docker'")


def planned(profile: str, *overrides: str) -> Plan:
    return build_plan(plan_request("nano3/pretrain", config="tiny", profile=profile, overrides=overrides)).plan


def never(*_: object, **__: object) -> int:
    raise AssertionError("nothing is run")


def test_a_recipe_gets_the_file_of_its_image(project, profile, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(squash, "run_request", never)
    before = planned(profile, "run.env.partition=interactive", f"run.env.build_cache_dir={tmp_path}/other")
    after = squashed(before, caller(), dry_run=True)
    path = f"{tmp_path}/other/containers/{parse_image(IMAGE).file_name}"
    assert after.target.container_image == path
    assert plan_from_json(plan_to_json(after), "plan") == after
    assert f"--container-image {path} " in render_sbatch(after)
    assert replace(after, run=before.run, target=before.target, sources=before.sources) == before
    assert f"first: nemotron kit slurm squash lab {IMAGE} --force-squash" in capsys.readouterr().err


def test_a_recipe_is_not_started_where_its_image_cannot_be_made(project, profile, monkeypatch):
    jobs = []

    def run(request: object, planned: Planned, caller: Caller) -> int:
        jobs.append(planned.plan)
        return 7

    monkeypatch.setattr(squash, "run_request", run)

    with pytest.raises(UserError, match="exit code 7; nano3/pretrain was not started") as caught:
        squashed(planned(profile), caller())
    assert caught.value.exit_code == 7
    [job] = jobs
    assert job.launch.args[0::2] == (URI, "--force")
    assert (job.target.container_image, job.target.partition) == (None, "cpu")


def test_a_recipe_whose_image_is_a_file_or_none(project, profile, monkeypatch):
    monkeypatch.setattr(squash, "run_request", never)
    plan = planned(profile, "run.env.container_image=/lustre/a.sqsh")
    assert squashed(plan, caller()) is plan
    with pytest.raises(UserError, match="needs a container_image"):
        squashed(planned(profile, "run.env.container_image=''"), caller())


def test_a_file_is_left_as_it_is(project, nemotron, profile):
    outcome = nemotron("kit", "slurm", "squash", profile, "/lustre/x.sqsh").succeeds()
    assert outcome.out == "/lustre/x.sqsh\n"


@needs_slurm
def test_a_real_job(project, nemotron_process: Callable[..., Outcome], profile, slurm_lab_plain: SlurmLab, tmp_path):
    bench = Bench(tmp_path)
    given = {**slurm_lab_plain.environment(), **bench.environment()}
    outcome = nemotron_process("kit", "slurm", "squash", profile, IMAGE, **given).succeeds()
    file = tmp_path / "cache" / "containers" / parse_image(IMAGE).file_name
    assert file.read_bytes().startswith(b"hsqs")
    assert f'use it: container_image = "{file}"' in outcome.out
    assert f"importing {URI}" in outcome.out, "the job's log is shown as it comes"
    [job] = nemotron_process("jobs", "list", "--json", **given).succeeds().json
    assert (job["recipe"], job["state"]) == ("squash", "succeeded")
    nemotron_process("kit", "slurm", "squash", profile, IMAGE, **given).succeeds()
    assert len(nemotron_process("jobs", "list", "--json", **given).json) == 1, "it is there: no job"
    outcome = nemotron_process("kit", "slurm", "squash", profile, "nvcr.io/nvidia/none:1", "--force", **given)
    assert outcome.code == 1
    assert "404 Not Found" in outcome.out + outcome.err


@needs_slurm
def test_a_recipe_runs_in_the_file_of_its_image(
    project, profile, slurm_lab_plain: SlurmLab, tmp_path, monkeypatch, capfd
):
    slurm_lab_plain.image("nvcr.io/nvidia/nemo:25.10", {"/etc/lab-release": "out of the squash file\n"})
    bench = Bench(tmp_path)
    bench.registry = slurm_lab_plain.base / "registry"
    for name, value in {**slurm_lab_plain.environment(), **bench.environment()}.items():
        monkeypatch.setenv(name, value)
    script = project.write("look.py", "print(open('/etc/lab-release').read())\n")
    overrides = ["run.env.container_image=nvcr.io/nvidia/nemo:25.10", "run.env.startup_commands=[]"]
    overrides += ["run.env.gpus_per_node=0", "run.env.gres=null", "run.env.nodes=1"]
    made = build_plan(plan_request(str(script), profile=profile, overrides=overrides))
    plan = squashed(made.plan, caller())
    assert run_plan(replace(made, plan=plan), caller()) == 0
    assert "out of the squash file" in capfd.readouterr().out
    assert len(bench.imports()) == 1

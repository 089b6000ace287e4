"""Container builds on Slurm: what a profile lends them, the logins they get, and a build that really runs as a job."""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from labs.podman import Podman, needs_podman
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from labs.slurm.standins import standin
from support import Outcome, Project

from nemo_runspec.backends.slurm.build import RegistryEntry, make_auth, read_logins
from nemo_runspec.config.overrides import quoted

TOKEN = "nvapi-very-secret-0123456789"
OTHER = "glpat-somebody-elses"
CREDENTIALS = f"""\
# NVIDIA
machine gitlab.example.com login me password {OTHER}
machine nvcr.io login $oauthtoken password {TOKEN}
machine authn.nvidia.com login $oauthtoken password {TOKEN}
machine GHCR.io
  login me   # the rest of a line
  password "two words"
machine gcr.io login oauth2accesstoken password $(gcloud auth print-access-token)
default login anonymous password none
"""


# Logins


def test_entries_of_enroots_credentials():
    assert read_logins(CREDENTIALS) == [
        RegistryEntry("gitlab.example.com", "me", OTHER),
        RegistryEntry("nvcr.io", "$oauthtoken", TOKEN),
        RegistryEntry("authn.nvidia.com", "$oauthtoken", TOKEN),
        RegistryEntry("GHCR.io", "me", "two words"),
        RegistryEntry("gcr.io", "oauth2accesstoken", "$(gcloud auth print-access-token)"),
    ]
    assert TOKEN not in repr(read_logins(CREDENTIALS))


@pytest.mark.parametrize(
    ("allowed", "registries", "left_out"),
    [
        (("nvcr.io",), ("nvcr.io",), ()),
        (("nvcr.io", "ghcr.io"), ("nvcr.io", "ghcr.io"), ()),
        (("nvcr.io", "gcr.io"), ("nvcr.io",), ("gcr.io",)),
        (("quay.io",), (), ()),
    ],
)
def test_only_registries_that_are_allowed(allowed, registries, left_out):
    found = make_auth(CREDENTIALS, allowed)
    auths = json.loads(found.auth)["auths"]
    assert (tuple(auths), found.registries, found.left_out) == (registries, registries, left_out)
    assert TOKEN not in repr(found)
    if "nvcr.io" in auths:
        assert base64.b64decode(auths["nvcr.io"]["auth"]).decode() == f"$oauthtoken:{TOKEN}"


@pytest.mark.parametrize("text", ["", "machine", "machine nvcr.io login", "nonsense\n\0", "machine nvcr.io login x"])
def test_a_damaged_file_has_no_logins(text):
    assert json.loads(make_auth(text, ["nvcr.io"]).auth) == {"auths": {}}


def test_docker_hub_has_another_name_in_enroot():
    found = make_auth("machine auth.docker.io login me password x", ["docker.io"])
    assert list(json.loads(found.auth)["auths"]) == ["docker.io"]


# The plan

PROFILE = """\
[lab]
executor = "slurm"
account = "acme"
partition = "batch"
run_partition = "interactive"
build_partition = "cpu"
build_time = "00:10:00"
time = "3-00"
nodes = 4
ntasks_per_node = 8
gpus_per_node = 8
gres = "gpu:8"
constraint = "h100"
signal = "B:USR1@300"
packager = "git"
container_image = "nvcr.io/nvidia/nemo:25.09"
startup_commands = ["exit 9"]
run_command = "exit 8"
srun_args = ["--mpi=pmix"]
remote_job_dir = "{top}/run"
build_cache_dir = "{top}/cache"
build_registries = ["ghcr.io"]
[lab.env_vars]
HTTPS_PROXY = "http://proxy:3128"
STANDIN_CALLS = "/nemotron-cache/calls.jsonl"
STANDIN_PRIVATE = "nvcr.io"
"""
BUILD = ("omni3", "build", "sft", "--run", "lab")


@pytest.fixture
def profile(project: Project, tmp_path: Path) -> Path:
    """A profile made for training. The folder that the cluster's directories lie in."""
    project.write("env.toml", PROFILE.format(top=tmp_path))
    return tmp_path


def plan_of(outcome: Outcome) -> dict:
    return outcome.succeeds().json["plan"]


def test_a_build_takes_what_concerns_it(project, nemotron, profile):
    shown = nemotron(*BUILD, "--dry-run", "--json").succeeds().json
    plan = shown["plan"]
    assert plan["resources"] == {"nodes": 1, "gpus_per_node": 0, "nproc_per_node": 1, "time": "00:10:00"}
    target = plan["target"]
    assert (target["partition"], target["account"]) == ("cpu", "acme")
    assert target["container_image"].startswith("quay.io#podman/stable:v")
    assert target["srun_args"] == ["--container-remap-root", "--container-writable"]
    assert [target[key] for key in ("gres", "constraint", "signal")] == [None, None, None]
    assert plan["package"]["kind"] == "none"
    assert plan["launch"]["setup"] == []
    assert {"HTTPS_PROXY", "STANDIN_CALLS"} <= {variable["name"] for variable in plan["env"]}
    mounts = target["mounts"]
    assert f"{profile}/cache:/nemotron-cache" in mounts
    assert f"{profile}/cache/.auth/auth.json:/root/.config/containers/auth.json:ro" in mounts
    assert target["build_registries"] == ["nvcr.io", "ghcr.io"]
    [sbatch] = [file["text"] for file in shown["rendering"]["files"] if "sbatch" in file["name"]]
    assert "--gres" not in sbatch
    assert "#SBATCH --nodes=1\n" in sbatch


def test_a_training_job_of_the_profile_is_as_before(project, nemotron, profile):
    text = project.env_file.read_text().replace('run_command = "exit 8"\n', "").replace('packager = "git"\n', "")
    project.write("env.toml", text)
    plan = plan_of(nemotron("nano3", "pretrain", "-c", "tiny", "--run", "lab", "--dry-run", "--json"))
    assert (plan["resources"]["nodes"], plan["target"]["gres"]) == (4, "gpu:8")
    assert plan["target"]["build_cache_dir"] is None


def test_what_is_said_on_the_command_line_counts(project, nemotron, profile):
    given = (quoted("run.env.container_image", "mine#podman:1"), "run.env.gres=tmp:100", "run.env.build_time=30")
    target = plan_of(nemotron(*BUILD, *given, "--dry-run", "--json"))["target"]
    assert (target["container_image"], target["gres"], target["time"]) == ("mine#podman:1", "tmp:100", "30")


@pytest.mark.parametrize(
    ("tunnel", "named", "shown"),
    [
        ("ssh", "~/cache", "@HOME@/cache"),
        ("ssh", "", "@HOME@/.nemotron/run/cache"),
        ("ssh", "/lustre/cache/", "/lustre/cache"),
        ("local", "~/cache", "{home}/cache"),
    ],
)
def test_where_the_cache_lies(project, nemotron, tunnel, named, shown):
    line = f'build_cache_dir = "{named}"\n' if named else ""
    project.write(
        "env.toml", f'[c]\nexecutor = "slurm"\ntunnel = "{tunnel}"\n{line}' + 'host = "login"\n' * (tunnel == "ssh")
    )
    target = plan_of(nemotron("omni3", "build", "rl", "--run", "c", "--dry-run", "--json"))["target"]
    assert target["build_cache_dir"] == shown.format(home=project.home)
    assert f"{target['build_cache_dir']}:/nemotron-cache" in target["mounts"]


@pytest.mark.parametrize("value", ["it's", 'a "b" $c `d`', "--help", "ünï", "a\\nb", "a\nb", "x=y", "", " "])
def test_arguments_arrive_as_they_are(project, nemotron, profile, value):
    shown = nemotron(*BUILD, quoted("build_args.AV", value), "--dry-run", "--json").succeeds().json
    words = shown["plan"]["launch"]["args"]
    assert words[words.index("--build-arg") + 3] == f"AV={value}", words
    [script] = [file["text"] for file in shown["rendering"]["files"] if file["name"].startswith("scripts/")]
    start = script.index("  eval 'bash ")
    assert shlex.split(shlex.split(script[start : script.index("\n}\n", start)])[1])[2:] == words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["image=Big"], "a build's image cannot be 'Big'"),
        (["save=zip"], "sqsh, oci or both"),
        (["+imagine=1"], "a build's config has no 'imagine'"),
        (["+build_args.a-b=1"], "must be the name of an ARG"),
        (["run.env.nodes=2"], "built by one process on one node"),
        (["run.env.build_cache_dir=cache"], "build_cache_dir must be absolute"),
        (["run.env.build_registries=['https://x']"], "is no registry's host name"),
    ],
)
def test_refusals(project, nemotron, profile, words, said):
    nemotron(*BUILD, *words, "--dry-run").refuses(said)


def test_other_executors_refuse(project, nemotron):
    for name, executor in (("box", "docker"), ("lepton", "lepton"), ("runai", "dgxcloud"), ("laptop", "local")):
        nemotron("omni3", "build", "sft", "--run", name).refuses(f"executor '{executor}' does not do", "nothing was")
    nemotron("omni3", "build", "sft").refuses("no profile is named", "nemotron docker build omni3/build/sft")
    assert not project.state.exists()


def test_the_general_form(project, nemotron, profile):
    special = plan_of(nemotron(*BUILD, "--dry-run", "--json"))
    general = plan_of(nemotron("kit", "slurm", "build", "omni3", "sft", "--run", "lab", "--dry-run", "--json"))
    assert special["launch"] == general["launch"]
    nemotron("kit", "slurm", "build", "omni3", "stf", "--run", "lab").refuses("omni3 rl, omni3 sft")
    nemotron("kit", "slurm", "build", "nano3", "pretrain", "--run", "lab").refuses("nothing to build")


# A build as a job


@pytest.fixture
def lab(slurm_lab_plain: SlurmLab, project: Project, profile: Path) -> SlurmLab:
    """A lab whose podman image holds the stand-ins, without accounts."""
    if not (slurm_lab_plain.base / "registry" / "quay.io+podman+stable+v5.3").exists():
        tools = {f"/usr/local/bin/{tool}": standin(tool) for tool in ("podman", "enroot")}
        slurm_lab_plain.image("quay.io#podman/stable:v5.3", tools)
    project.write("env.toml", project.env_file.read_text().replace('account = "acme"\n', ""))
    return slurm_lab_plain


@pytest.fixture
def home(lab: SlurmLab, project: Project) -> Iterator[Path]:
    """The home of a user with credentials on a login node that is reached over SSH. The profile lives below it."""
    place = lab.base / "home" / "root"
    credentials = place / ".config" / "enroot" / ".credentials"
    credentials.parent.mkdir(parents=True)
    credentials.write_text(CREDENTIALS)
    lines = [
        line for line in project.env_file.read_text().splitlines() if not line.startswith(("remote_job", "build_c"))
    ]
    own = 'tunnel = "ssh"\nhost = "login-of-lab"\nremote_job_dir = "~/run"\nbuild_cache_dir = "~/cache"'
    project.write("env.toml", "\n".join(lines).replace("[lab]", f"[lab]\n{own}"))
    yield place
    for folder in (".config", "run", "cache"):
        shutil.rmtree(place / folder, ignore_errors=True)


def ssh_to(lab: SlurmLab, project: Project) -> dict[str, str]:
    """What a process must see for `login-of-lab` to be the lab: ssh does not look at `$HOME`."""
    access, folder = lab.ssh, project.home / "bin"
    folder.mkdir()
    words = shlex.join(
        ["/usr/bin/ssh", *access.options(), "-o", f"HostName={access.host}", "-o", f"User={access.user}"]
    )
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    (folder / "ssh").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def texts_below(*folders: Path) -> str:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return "\n".join(file.read_bytes().decode("utf-8", "replace") for file in files)


@needs_slurm
def test_a_build_really_runs(project, nemotron_process: Callable[..., Outcome], lab, home):
    value = 'it is $HOME and "more"'
    words = (*BUILD, f"build_args.LIBROSA='{value}'", "save=both")
    outcome = nemotron_process(*words, **ssh_to(lab, project)).succeeds()
    assert "warning" not in outcome.err, "what the submission makes itself is not missing"
    images = home / "cache" / "containers"
    assert sorted(file.name for file in images.iterdir()) == ["omni3-sft.oci.tar", "omni3-sft.sqsh"]
    assert f"image: {images}/omni3-sft.sqsh (" in outcome.out, "the path is the cluster's"
    assert f'use it: container_image = "{images}/omni3-sft.sqsh"' in outcome.out
    [made] = json.loads((images / "omni3-sft.sqsh").read_bytes().removeprefix(b"hsqs"))
    assert made["base"] == "nvcr.io/nvidia/nemo:26.08"
    assert made["arguments"]["LIBROSA"] == value
    assert made["logins"] == ["ghcr.io", "nvcr.io"], "and no other"
    with tarfile.open(images / "omni3-sft.oci.tar") as tar:
        assert "oci-layout" in tar.getnames()
    calls = [json.loads(line) for line in (home / "cache" / "calls.jsonl").read_text().splitlines()]
    assert {call["uid"] for call in calls} == {0}
    auth = home / "cache" / ".auth" / "auth.json"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (auth, auth.parent)] == [0o600, 0o700]
    written = texts_below(home / "run", project.state, images) + outcome.out + outcome.err
    for secret in (TOKEN, base64.b64encode(f"$oauthtoken:{TOKEN}".encode()).decode(), OTHER):
        assert secret not in written
    assert set(json.loads(auth.read_text())["auths"]) == {"nvcr.io", "ghcr.io"}


@needs_slurm
@needs_podman
def test_podman_builds_in_a_job(project, nemotron_process, profile, lab, tmp_path):
    """Debian's podman in the container that `build_image` names, as the root that Pyxis makes of the job's user."""
    if not (lab.base / "registry" / "lab+podman+real").exists():
        lab.image("lab#podman:real", {"/usr/local/bin/enroot": standin("enroot")})
    project.write("env.toml", project.env_file.read_text().replace("[lab]", '[lab]\nbuild_image = "lab#podman:real"'))
    (profile / "cache").mkdir()
    podman = Podman(tmp_path / "podman")
    podman.base(profile / "cache" / "base.tar")
    words = ("build_args.BASE='docker-archive:/nemotron-cache/base.tar'", "+run.env.env_vars.STORAGE_DRIVER=vfs")
    nemotron_process(*BUILD, *words, "save=oci", **lab.environment()).succeeds()
    name, calls = podman.calls_in(profile / "cache" / "containers" / "omni3-sft.oci.tar")
    assert name == "localhost/nemotron/omni3-sft:latest"
    assert calls[-1] == "python -c import av, librosa, soundfile"


def test_the_image_that_builds_run_in(project, nemotron, profile):
    text = project.env_file.read_text()
    project.write("env.toml", text.replace("[lab]", '[lab]\nbuild_image = "mine#podman:5"'))
    assert plan_of(nemotron(*BUILD, "--dry-run", "--json"))["target"]["container_image"] == "mine#podman:5"
    given = quoted("run.env.container_image", "other#podman:6")
    assert plan_of(nemotron(*BUILD, given, "--dry-run", "--json"))["target"]["container_image"] == "other#podman:6"
    squash = (
        nemotron("kit", "slurm", "squash", "lab", "nvcr.io/nvidia/nemo:25.09", "--dry-run", "--full").succeeds().out
    )
    chosen = squash.partition("chosen for slurm")[2]
    assert chosen and "mine#podman:5" not in chosen.partition("config")[0]
    text = text.replace('run_command = "exit 8"\n', "").replace('packager = "git"\n', "")
    project.write("env.toml", text.replace("[lab]", '[lab]\nbuild_image = "mine#podman:5"'))
    plan = plan_of(nemotron("nano3", "pretrain", "-c", "tiny", "--run", "lab", "--dry-run", "--json"))
    assert plan["target"]["container_image"] == "nvcr.io/nvidia/nemo:25.09"


@needs_slurm
def test_a_build_that_fails_leaves_nothing(project, nemotron_process, profile, lab):
    outcome = nemotron_process(*BUILD, **lab.environment())
    assert outcome.code == 125, (outcome.out, outcome.err)
    assert "unauthorized" in outcome.out
    assert "logins for the build: none" in outcome.err
    assert list((profile / "cache" / "containers").iterdir()) == []

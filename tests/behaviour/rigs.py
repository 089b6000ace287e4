"""The backends that the behaviours are tried on. A new backend is one more `Rig` here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import lab_docker
import pytest
from labs.lepton.lab import LeptonLab
from labs.pods import Pods, descendants, hears, needs_mounts
from labs.runai.server import RunaiLab
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from support import Project

_ASKS = (
    "Ctrl-C asks whether the job is to go on alone or to be cancelled (it goes on where nobody can be asked); "
    "tested with a terminal in tests/remote"
)

_POD_MOUNT = "/mnt/behaviours"
_POD_RUN = f"{_POD_MOUNT}/run"

CANARY = "c4nary-9f8e7d6c5b4a"
"""The value of the secret that behaviours are tried with: some platforms must keep it beforehand."""

_TEXT = "its log is text in JSON: bytes that are no UTF-8 come as `\ufffd`; the log on the mount has them"

_NO_SHELL = "its API lets nobody into a job; its dashboard has a terminal for each replica"

_RUNAI = "run:ai's own command-line tool does it, which the lab does not have; its words are tested in tests/dgxcloud"

_ONE_NODE = "a job of this machine has one node"

_ALONE = dict.fromkeys(
    (
        "failing_setup_of_one_node",
        "failing_node",
        "ray_node_lost",
        "ray_node_lost_and_tolerated",
        "ray_node_missing",
    ),
    _ONE_NODE,
)

_ENDS_WITH_IT = "it ends with its client, as any job of this machine; tested in tests/local"

_TOLD = ("TERM", "INT", "USR1", "HUP")

_ON_ITS_WAY_S = 0.01
"""Seconds that a signal takes to process 1 of a container."""

_TRACKED = (
    "Slurm itself ends what a job leaves, where it tracks processes by control groups (`ProctrackType=proctrack/cgroup`"
    "), which the lab's machine cannot"
)


@dataclass(frozen=True)
class Setting:
    """What a rig needs in a project of its own.

    Args:
        profile: lines of a profile in TOML. `environment`: what nemotron's process sees besides.
        view: the platform's own description of a job, given its name: where a secret must not stand.
        leftovers: what of a job, given its name and folder, is still on the platform.
        safes: files of a job, given its folder, that hold its secrets while it is not over, for its owner alone.
        folders: where its jobs' files lie, besides the project's own.
        job_dir: what a job calls its directory (`NEMOTRON_JOB_DIR`), as it is seen from here, given its folder.
        left_alone: whether a job, given its folder, is to be ended after a test.
        signals: how a job, given its name and folder, is told a signal with the platform's own means, or its `end`;
            each says whether there was anything to tell it to.
        seen: how a job sees a folder of this machine, given that: keys of its profile, and where it sees it.
        bucket: words of a command line by which a job reaches a bucket on this machine's loopback and has its two keys,
            given these; by default the keys travel.
    """

    profile: str
    environment: Mapping[str, str] = field(default_factory=dict)
    view: Callable[[str], str] = lambda name: ""
    leftovers: Callable[[str, Path], list[str]] = lambda name, folder: processes_of(folder)
    safes: Callable[[Path], list[Path]] = lambda folder: []
    folders: Sequence[Path] = ()
    job_dir: Callable[[Path], Path] = lambda folder: folder
    left_alone: Callable[[Path], bool] = lambda folder: not (folder / "status" / "node-0").exists()
    signals: Mapping[str, Callable[[str, Path], bool]] = field(default_factory=dict)
    bucket: Callable[[Mapping[str, str]], Sequence[str]] = lambda keys: ()
    seen: Callable[[Path], tuple[dict[str, Any], str]] = lambda folder: ({}, str(folder))


@dataclass(frozen=True)
class Rig:
    """One backend under test.

    Args:
        prepare: the setting for a project; starts what is needed, through pytest's fixtures.
        lab: what to do to get it where it needs a lab part; None where it runs anywhere.
        unsupported: a behaviour's name → why this backend cannot have it.
        needs_launcher: states in which even a detached job still needs the process that has started it.
        nodes: of every job that does not say otherwise. `several`: of one whose nodes the behaviour is about.
    """

    name: str
    prepare: Callable[[pytest.FixtureRequest, Project], Setting]
    lab: str | None = None
    unsupported: Mapping[str, str] = field(default_factory=dict)
    needs_launcher: Sequence[str] = ()
    nodes: int = 1
    several: int = 1


def processes_of(folder: Path) -> list[str]:
    """The live processes of this machine that name a job's folder in their command line or environment."""
    mark, found = os.fsencode(folder), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if (mark in command or mark in environment) and process.name != str(os.getpid()):
            found.append(f"{process.name}: {command.decode(errors='replace')}")
    return found


def content(file: Path) -> bytes:
    """What is in a file; nothing in one that was taken away meanwhile."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _local(request: pytest.FixtureRequest, project: Project) -> Setting:
    return Setting('executor = "local"', signals=signals_by(_tell_script))


def signals_by(tell: Callable[[str, Path, str], bool]) -> dict[str, Callable[[str, Path], bool]]:
    """Ways to tell a job each signal, given one for a job's name and folder and a signal's name."""
    return {word: lambda name, folder, word=word: tell(name, folder, word) for word in _TOLD}


def _tell_script(name: str, folder: Path, word: str) -> bool:
    """`kill PID` of a local job's script."""
    process = json.loads((folder / "record.json").read_text(encoding="utf-8")).get("process")
    try:
        os.kill(process["pid"], getattr(signal, f"SIG{word}"))
    except (ProcessLookupError, TypeError):
        return False
    return True


def _docker(request: pytest.FixtureRequest, project: Project) -> Setting:
    engine: lab_docker.Engine = request.getfixturevalue("docker_engine")

    def view(name: str) -> str:
        client = engine.client()
        shown = [client.inspect_container(container["Id"]) for container in _containers(engine, name)]
        client.close()
        assert shown, f"{name} has no container"
        return json.dumps(shown)

    def leftovers(name: str, folder: Path) -> list[str]:
        networks = [name for name in engine.networks() if not engine.containers()]
        return processes_of(folder) + [str(c["Names"]) for c in _containers(engine, name)] + networks

    def tell(name: str, folder: Path, word: str) -> bool:
        """`docker kill --signal`, which only a shell that has begun can keep for the job: `docker-init` has no word."""
        from docker.errors import APIError

        client = engine.client()
        try:
            init = client.inspect_container(name)["State"]["Pid"]
            heard = (
                any(hears(pid, getattr(signal, f"SIG{word}")) for pid in list(descendants(init))[1:]) if init else False
            )
            client.kill(name, f"SIG{word}")
        except APIError:
            return False
        finally:
            client.close()
        return heard

    profile = f'executor = "docker"\ncontainer_image = "{lab_docker.BASE}"'
    return Setting(
        profile, {"DOCKER_HOST": engine.host}, view, leftovers, signals=signals_by(tell),
        bucket=lambda keys: ("run.env.network=host",),
        seen=lambda folder: ({"mounts": [f"{folder}:/opt/seen:ro"]}, "/opt/seen"),
    )  # fmt: skip


def _containers(engine: lab_docker.Engine, job: str) -> list[dict[str, Any]]:
    return [container for container in engine.containers() if f"/{job}" in container["Names"]]


def _slurm(request: pytest.FixtureRequest, project: Project) -> Setting:
    """From a login node: over SSH the same jobs come to the same cluster, only later."""
    lab: SlurmLab = request.getfixturevalue("slurm_lab")

    def view(name: str) -> str:
        """Its description and files, and what slurmctld and the nodes have written down of it and its environment."""
        folder = _remote_folder(project.state / "jobs" / name)
        files = [path for path in folder.iterdir() if path.suffix in (".sh", ".out")]
        kept = [*lab.base.glob("state/hash.*/job.*/*"), *lab.base.glob("nodes/*/spool/job*/*")]
        assert {"environment", "script", "slurm_script"} <= {path.name for path in kept}, kept
        told = lab.run("scontrol", "--all", "show", "job", "--details").stdout
        read = [*files, *kept, *(lab.base / "log").iterdir()]
        return "\n".join([told, *(content(path).decode(errors="replace") for path in read)])

    def leftovers(name: str, folder: Path) -> list[str]:
        remote = _remote_folder(folder)
        queued = lab.run("squeue", "--noheader", f"--name={_job_name(folder)}", "--format=%i %T").stdout.splitlines()
        return processes_of(folder) + processes_of(remote) + queued + [str(path) for path in safes(folder)]

    def safes(folder: Path) -> list[Path]:
        return [path for path in [_remote_folder(folder) / "secrets.env"] if path.exists()]

    run = lab.base / "jobs"
    profile = f'executor = "slurm"\naccount = "acme"\npartition = "batch"\ntime = "00:10:00"\nremote_job_dir = "{run}"'
    environment = lab.environment()
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    signals = {word: lambda name, folder, word=word: tell(folder, "--batch", f"--signal={word}") for word in _TOLD}
    signals["end"] = lambda name, folder: tell(folder)

    def tell(folder: Path, *words: str) -> bool:
        """`scancel`, which says nothing of a job that waits or is over."""
        return lab.run("scancel", *words, str(handle_of(folder)["id"]), check=False).returncode == 0

    return Setting(
        profile, environment, view, leftovers, safes, [run], _remote_folder, left_alone=lambda folder: False,
        signals=signals,
    )  # fmt: skip


def _lepton(request: pytest.FixtureRequest, project: Project) -> Setting:
    """Jobs as pods of a workspace's volume; code too large for the job's description goes by that volume."""
    lab: LeptonLab = request.getfixturevalue("lepton_lab")
    volume = lab.volumes["lustre"]
    profile = f"""\
executor = "lepton"
container_image = "ubuntu:24.04"
node_group = "h100-pool"
resource_shape = "cpu.small"
nemo_run_dir = "{_POD_RUN}"
run_dir_here = "{volume}/run"
mounts = [{{ path = "/", mount_path = "{_POD_MOUNT}", from = "node-nfs:lustre" }}]"""

    def view(name: str) -> str:
        """All that its API tells, which is what every member of the workspace can read."""
        jobs = [job.id for job in lab.jobs]
        assert jobs, f"{name} is not there"
        kinds = ("", "/replicas", "/events", "/failure-analysis")
        paths = ["/jobs", *(f"/jobs/{id}{kind}" for id in jobs for kind in kinds), *(f"/logs?job={id}" for id in jobs)]
        return "\n".join(_read(f"{lab.url}{path}", lab.token) for path in (*paths, "/usersecrets", "/imagepullsecrets"))

    request.addfinalizer(lab.reset)
    request.addfinalizer(lab.tidy)

    def end(name: str, folder: Path) -> bool:
        """As its page's button does."""
        id = handle_of(folder)["id"]
        asked = Request(f"{lab.url}/jobs/{id}", b'{"spec": {"stopped": true}}', _headers(lab.token), method="PATCH")
        return _asked(asked)

    return _pods(profile, lab.environment(), volume, view, lab.pods, end)


def _dgxcloud(request: pytest.FixtureRequest, project: Project) -> Setting:
    """Jobs as workloads, secrets as credentials that run:ai keeps; logs come from the Kubernetes API."""
    lab: RunaiLab = request.getfixturevalue("runai_lab")
    volume = lab.claims["data"]
    lab.credential("canary", {"value": CANARY})
    profile = f"""\
executor = "dgxcloud"
base_url = "{lab.base_url}"
kube_apiserver_url = "{lab.kube_url}"
client_id = "{lab.client_id}"
client_secret = "${{oc.env:RUNAI_CLIENT_SECRET}}"
project_name = "{lab.project}"
container_image = "ubuntu:24.04"
pvc_nemo_run_dir = "{_POD_RUN}"
run_dir_here = "{volume}/run"
pvcs = [{{ claimName = "data", path = "{_POD_MOUNT}" }}]
secret_vars = {{ SECRET_CANARY = "canary/value" }}"""

    def view(name: str) -> str:
        """All that the APIs tell of workloads, pods and credentials."""
        given = {"grantType": "client_credentials", "clientId": lab.client_id, "clientSecret": lab.client_secret}
        token = json.loads(_read(f"{lab.base_url}/token", "", given))["accessToken"]
        jobs = [(job.kind, job.id) for job in lab.jobs]
        assert jobs, f"{name} is not there"
        ways = ("", "/events", "/history", "/pods")
        urls = [f"{lab.base_url}/workloads/{id}{way}" for _, id in jobs for way in ways]
        urls += [f"{lab.base_url}/workloads/{kind}/{id}" for kind, id in jobs]
        urls += [f"{lab.base_url}/asset/credentials", f"{lab.kube_url}/api/v1/namespaces/runai-{lab.project}/pods"]
        return "\n".join(_read(url, token) for url in urls)

    request.addfinalizer(lab.tidy)

    def end(name: str, folder: Path) -> bool:
        """As its page's button does."""
        job = lab.workload(name)
        given = {"grantType": "client_credentials", "clientId": lab.client_id, "clientSecret": lab.client_secret}
        token = json.loads(_read(f"{lab.base_url}/token", "", given))["accessToken"]
        url = f"{lab.base_url}/workloads/{job.kind}/{job.id}/suspend"
        return _asked(Request(url, b"", _headers(token), method="POST"))

    def bucket(keys: Mapping[str, str]) -> list[str]:
        """Kept by run:ai: what a workload is given otherwise, all who see it can read."""
        lab.credential("bucket", keys)
        return [f"++run.env.secret_vars.{name}=bucket/{name}" for name in keys]

    made = _pods(profile, {"RUNAI_CLIENT_SECRET": lab.client_secret}, volume, view, lab.pods, end)
    return replace(made, bucket=bucket)


def _asked(request: Request) -> bool:
    """Whether there was a job to ask that of: one that is cancelled is removed."""
    try:
        with urlopen(request, timeout=60):
            return True
    except HTTPError as error:
        if error.code != 404:
            raise
        return False


def _read(url: str, token: str, body: object = None) -> str:
    """What an API answers, or how it refuses."""
    data = None if body is None else json.dumps(body).encode()
    asked = Request(url, data, _headers(token))
    try:
        with urlopen(asked, timeout=60) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        return f"{url}: {error.code}"


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def _pods(
    profile: str,
    environment: Mapping[str, str],
    volume: Path,
    view: Callable[[str], str],
    pods: Pods,
    end: Callable[[str, Path], bool],
) -> Setting:
    """What pods have in common: their processes name the job's directory as they see it."""

    def tell(name: str, folder: Path, word: str) -> bool:
        """`kubectl exec POD -- kill -s SIGNAL 1`, which the kernel drops while process 1 does nothing about it."""
        number = getattr(signal, f"SIG{word}")
        found = [pod for pod in pods.running if any(name in text for text in (*pod.command, *pod.env.values()))]
        heard = [pod for pod in found if pod.hears(number)]
        for pod in found:
            pod.signal(number)
        time.sleep(_ON_ITS_WAY_S)
        return bool(found) and all(pod in heard and (pod.hears(number) or pod.state != "running") for pod in found)

    def leftovers(name: str, folder: Path) -> list[str]:
        return processes_of(folder) + processes_of(Path(f"{_POD_RUN}/jobs/{name}"))

    def seen(folder: Path) -> tuple[dict[str, Any], str]:
        """A copy of it in the volume, whose files are the same ones."""
        if not (copy := volume / folder.name).exists():
            shutil.copytree(folder, copy, symlinks=True, copy_function=linked)
        return {}, f"{_POD_MOUNT}/{folder.name}"

    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    folders = [volume / "run"]
    folders[0].mkdir()
    return Setting(
        profile, {**environment, "PATH": path}, view, leftovers, folders=folders,
        job_dir=lambda folder: volume / "run/jobs" / folder.name, left_alone=lambda _: False,
        signals={**signals_by(tell), "end": end}, seen=seen,
    )  # fmt: skip


def linked(source: str, target: str) -> None:
    """A file once more under another name; a copy of it where that lies on another disk."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _remote_folder(folder: Path) -> Path:
    """Where a job's files are on its cluster."""
    return Path(handle_of(folder)["job_dir"])


def _job_name(folder: Path) -> str:
    return str(handle_of(folder)["name"])


def handle_of(folder: Path) -> dict[str, Any]:
    """How its platform finds a job, given its folder."""
    return dict(json.loads((folder / "record.json").read_text(encoding="utf-8"))["handle"])


RIGS = (
    Rig("local", _local, unsupported={**_ALONE, "ray_client_killed": _ENDS_WITH_IT}, needs_launcher=("planned",)),
    Rig(
        "docker",
        _docker,
        lab=lab_docker.needs_docker.kwargs["how"],
        unsupported=_ALONE,
        needs_launcher=("planned",),
    ),
    Rig(
        "slurm",
        _slurm,
        lab=needs_slurm.kwargs["how"],
        unsupported={"interrupt": _ASKS, "leftovers_of_a_job": _TRACKED},
        needs_launcher=("planned", "submitting"),
        several=2,
    ),
    Rig(
        "lepton",
        _lepton,
        lab=needs_mounts.kwargs["how"],
        unsupported={"interrupt": _ASKS, "odd_bytes": _TEXT, "shell_in_a_job": _NO_SHELL},
        needs_launcher=("planned", "submitting"),
        several=2,
    ),
    Rig(
        "dgxcloud",
        _dgxcloud,
        lab=needs_mounts.kwargs["how"],
        unsupported={"interrupt": _ASKS, "shell_in_a_job": _RUNAI},
        needs_launcher=("planned", "submitting"),
        several=2,
    ),
)

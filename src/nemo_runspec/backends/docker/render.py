"""Renders a Docker job: the job script, and the exact body of the request that makes its container. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from nemo_runspec.backends.base import RenderedFile, Rendering
from nemo_runspec.backends.checks import JOB_DIR, MOUNTED
from nemo_runspec.backends.docker.arguments import body_of, merge_arguments
from nemo_runspec.backends.docker.fields import DockerTarget
from nemo_runspec.backends.docker.health import health_body
from nemo_runspec.backends.docker.sizes import size_in_bytes
from nemo_runspec.backends.nemorun import same_arguments
from nemo_runspec.json_text import json_text
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.programs import programs_of
from nemo_runspec.script.render import job_file, render_job_script

LAYOUT = JobLayout(MOUNTED)
"""Where the job's files lie in its container."""

LABEL_JOB = "nemotron/job"
LABEL_JOB_DIR = "nemotron/job-dir"

_ENTRY = ("bash", "-c", f". {LAYOUT.job_script} 2>&1")
"""No second shell, which would be ended by a signal until its first line is read.

One stream for output and errors: the engine reads two at different times, and their lines would change places."""

DIFFERENCES: Mapping[str, str] = {
    "Entrypoint": "NeMo-Run leaves the image's own, which may not run its command; the job script takes its place",
    "Cmd": "NeMo-Run's is an unquoted `bash -c` line with `tee`: arguments change, and a status file says how it ended",
    "Env": "the job script exports the variables; a user that the image does not know needs HOME, USER and LOGNAME",
    "User": "NeMo-Run runs as the image's user, most often root, who then owns the outputs",
    "WorkingDir": "without a code package there is no /nemo_run/code; Docker would make it, owned by root",
    "Labels": "beside NeMo-Run's own, those by which nemotron finds its container",
    "Volumes": "docker-py names the targets once more, as anonymous volumes that are never removed",
    "NetworkingConfig": "docker-py names the network once more, in a form that the engine does not read",
    "HostConfig.AutoRemove": "with it, exit code and out-of-memory kills are gone before anybody can ask for them",
    "HostConfig.Init": "as process 1 bash misses a TERM before its traps stand, and cannot be killed from inside",
}
"""Where our request is not what NeMo-Run 0.11.1 hands to docker-py (`DockerContainer.run`), and why."""


def render(plan: Plan) -> Rendering:
    """The job script and the request, as `start` sends it.

    Raises:
        UserError: a value that no job script can hold.
    """
    script = job_file("job.sh", render_job_script(plan, LAYOUT))
    text = json_text(request_body(plan)) + "\n"
    title = f"POST /containers/create?{urlencode(request_query(plan))}"
    request = RenderedFile(title, "container.json", text, "json")
    command = ("docker", "start", "--attach", plan.name)
    return Rendering((script, request), command, programs=programs_of(plan), sent=request.name)


def request_query(plan: Plan) -> dict[str, str]:
    """What stands in the request's address."""
    platform = target_of(plan, DockerTarget).additional_kwargs.get("platform")
    return {"name": plan.name, **({"platform": str(platform)} if platform else {})}


def request_body(plan: Plan) -> dict[str, Any]:
    """The body of `POST /containers/create` (Docker Engine API 1.40 or later)."""
    ours = run_arguments(plan)
    given = target_of(plan, DockerTarget).additional_kwargs
    return body_of(merge_arguments(ours, given)) if given else plain_body(ours)


_OTHERWISE = ("container_image", "num_gpus", "additional_kwargs")
"""Arguments of NeMo-Run's executor that are other ones of docker-py's, or are joined with ours afterwards."""


def run_arguments(plan: Plan) -> dict[str, Any]:
    """The container as arguments of docker-py's `containers.run`, as NeMo-Run has them but for `DIFFERENCES`."""
    target = target_of(plan, DockerTarget)
    packaged = plan.package.kind != "none"
    same = {name: value for name, value in same_arguments(target).items() if name not in _OTHERWISE}
    arguments = {
        **same,
        "image": target.container_image,
        "entrypoint": list(_ENTRY),
        "command": [],
        "hostname": "" if target.network.startswith("container:") else plan.name[-32:].lstrip("-"),
        "user": target.user,
        "environment": _environment(target),
        "working_dir": LAYOUT.code if packaged else LAYOUT.root,
        "labels": _labels(plan),
        "volumes": volumes_of(plan),
        "init": True,
        "ulimits": [_ulimit(text) for text in target.ulimits],
        "device_requests": _device_requests(target),
    }
    return {key: value for key, value in arguments.items() if value or key == "command"}


def plain_body(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What docker-py makes of `run_arguments`, without docker-py; a test holds the two equal."""
    body = {_BODY[key]: arguments[key] for key in _BODY if key in arguments}
    if "environment" in arguments:
        body["Env"] = [f"{name}={value}" for name, value in arguments["environment"].items()]
    if "healthcheck" in arguments:
        body["Healthcheck"] = health_body(arguments["healthcheck"])
    host = {_HOST[key]: arguments[key] for key in _HOST if key in arguments}
    if "shm_size" in arguments:
        host["ShmSize"] = size_in_bytes(arguments["shm_size"])
    return {**body, "HostConfig": host}


_BODY: Mapping[str, str] = {
    "image": "Image",
    "entrypoint": "Entrypoint",
    "command": "Cmd",
    "hostname": "Hostname",
    "user": "User",
    "working_dir": "WorkingDir",
    "labels": "Labels",
}
_HOST: Mapping[str, str] = {
    "volumes": "Binds",
    "network": "NetworkMode",
    "init": "Init",
    "runtime": "Runtime",
    "privileged": "Privileged",
    "ipc_mode": "IpcMode",
    "ulimits": "Ulimits",
    "device_requests": "DeviceRequests",
}


def volumes_of(plan: Plan) -> list[str]:
    """The mounts, NeMo-Run's name for the job's directory filled in, and that directory itself last, as there."""
    named = [volume.replace(JOB_DIR, plan.job_dir, 1) for volume in target_of(plan, DockerTarget).volumes]
    return [*named, f"{plan.job_dir}:{MOUNTED}"]


def _environment(target: DockerTarget) -> dict[str, str]:
    if not target.home:
        return {}
    return {"HOME": target.home, "USER": target.login, "LOGNAME": target.login}


def _labels(plan: Plan) -> dict[str, str]:
    return {
        "nemo-run/experiment-id": plan.name,
        "nemo-run/name": plan.name,
        "nemo-run/id": plan.name,
        LABEL_JOB: plan.name,
        LABEL_JOB_DIR: plan.job_dir,
    }


def _ulimit(text: str) -> dict[str, Any]:
    """`name:soft[:hard]`; without a hard limit it is the soft one, as in NeMo-Run."""
    name, soft, *hard = text.split(":")
    return {"Name": name, "Soft": int(soft), "Hard": int(hard[0] if hard else soft)}


def _device_requests(target: DockerTarget) -> list[dict[str, Any]]:
    if not target.num_gpus:
        return []
    gpus = {"Count": target.num_gpus, "Capabilities": [["compute", "utility"]]}
    return [{"Driver": "", "DeviceIDs": [], "Options": {}, **gpus}]

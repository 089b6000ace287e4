"""The programs of a pod: the one it starts with, and `pod.sh`, which hands over to the supervisor (`jobside/pod/`)."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from nemo_runspec.artifacts.store import versions_of
from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import RenderedFile
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.layout import job_layout, run_dir
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.planning.kept import storage_of
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.storage import READ_ONLY
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.quoting import join, json_page, quote
from nemo_runspec.script.render import KEEPS, job_file, render_job_script
from nemo_runspec.script.reserved import WAITS

POD_SCRIPT, DATA, DATA_PROGRAM = "pod.sh", "data.json", "data.pyz"

ATTEMPT_VARIABLE = "NEMOTRON_POD_ATTEMPT"
"""Set in a payload to how often the job had been submitted before; absent for the first time."""


_SHORT = {
    "failed": "f", "file": "l", "job": "b", "jobs": "d", "kind": "k", "late": "u", "nodes": "m", "pool": "o",
    "sha": "h", "stall": "y", "way": "j",
}  # fmt: skip
"""Variables of `boot.sh` → their names on the way: what a platform takes as a command is limited."""


@lru_cache
def boot_program(platform: str) -> str:
    """The program a container starts with: `bash -c PROGRAM nemotron WORDS…`, or `eval` of it with the words as
    variables `NEMOTRON_UPLOAD_0`, ….

    Under 4,000 characters, and without what Kubernetes rewrites in commands and variables (`$(NAME)` and `$$`).

    Args:
        platform: see `node_program`.
    """
    names = index_variables(platform)
    text = _minified().replace("@index@", _first_of(names))
    return text.replace("@names@", ", no ".join(names))


@lru_cache
def _minified() -> str:
    lines = (line.strip() for line in text_lines(_beside("boot.sh")))
    text = "\n".join(line for line in lines if line and not line.startswith("#"))
    for name, short in _SHORT.items():
        text = re.sub(rf"(?<=\$){name}\b|(?<=\$\{{){name}\b|(?<![^\s(]){name}(?==)", short, text)
    return text


def node_program(kind: str) -> str:
    """The module by which pods of an executor find out which node each is.

    Raises:
        UserError: its backend has none.
    """
    found = get_backend(kind).node_program
    if found is None:
        raise UserError(f"executor '{kind}' does not say how its pods find out which node each is")
    return found


@lru_cache
def index_variables(platform: str) -> tuple[str, ...]:
    """The variables that say which node a pod is, the first of them that is set: `INDEX` of such a module."""
    return tuple(importlib.import_module(platform).INDEX)


def _first_of(names: Sequence[str]) -> str:
    """The value of the first of some variables that is set, as bash says it; nothing where none is."""
    *others, last = names
    return "".join(f"${{{name}:-" for name in others) + f"${{{last}-}}" + "}" * len(others)


def pod_files(plan: Plan, platform: str) -> tuple[RenderedFile, ...]:
    """The texts of a job that its pods get: `job.sh`, `pod.sh`, and `data.json` where there is data on S3.

    Args:
        platform: see `node_program`.
    """
    files = (
        job_file("job.sh", render_job_script(plan, job_layout(plan))),
        job_file(POD_SCRIPT, render_pod_script(plan, platform), "pod script"),
    )
    data = _data(plan)
    return files if data is None else (*files, RenderedFile("data on S3", DATA, data, "json"))


def render_pod_script(plan: Plan, platform: str) -> str:
    """The script that a pod's first program starts: a page of this job's own values.

    It goes on in the supervisor (`jobside/pod/`), which is process 1 of its container from then on.

    Args:
        platform: see `node_program`.
    """
    target = target_of(plan, CloudTarget)
    sections = (
        _head(plan),
        ("# --- this job, as its pods are told", *_told(plan, platform), *_exports(plan, platform)),
        ("# --- the profile's own commands", f"nemotron_prepare={quote(_NEWLINE.join(target.pre_launch_commands))}"),
        ("# --- what a pod does is its supervisor's", *_START),
    )
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


_NEWLINE = "\n"
_START = (
    """nemotron_role=pod nemotron_hidden='' nemotron_words=("prepare=$nemotron_prepare")""",
    '. "$nemotron_root/start.sh"',
)


def declared_outputs(plan: Plan) -> dict[str, str]:
    """Name → path, of what the recipe makes."""
    return {artifact.name: artifact.path for artifact in plan.produces if artifact.path}


def pod_values(plan: Plan, platform: str) -> dict[str, Any]:
    """What the supervisor of every pod is told (`jobside.pod.values.PodJob`).

    Args:
        platform: see `node_program`.
    """
    target = target_of(plan, CloudTarget)
    where = {"cloud_region": target.s3_region, "endpoint_url": target.s3_endpoint}
    return {
        "nodes": plan.resources.nodes,
        "platform": platform,
        "data": [action for action, paths in (("get", target.inputs), ("put", target.outputs)) if paths],
        "outputs": declared_outputs(plan),
        "cloud_metadata": dict.fromkeys(target.cloud_metadata, where),
    }


def _head(plan: Plan) -> Iterator[str]:
    yield "#!/usr/bin/env bash"
    yield f"# nemotron pod of {plan.name}: {plan.resources.nodes} on {plan.executor}"
    yield KEEPS  # the kernel drops a signal that process 1 has no trap for
    yield "unset CDPATH"
    yield f"nemotron_root={quote(job_layout(plan).root)}"


def _told(plan: Plan, platform: str) -> Iterator[str]:
    yield f"nemotron_values={quote(json_page(pod_values(plan, platform)))}"
    yield f"nemotron_versions=({join(versions_of(plan))})"


def _exports(plan: Plan, platform: str) -> Iterator[str]:
    """The job script sets the job's variables only for the job; these are for the pod too."""
    yield from (f"export {variable.name}={quote(variable.value)}" for variable in plan.env if variable.name in WAITS)
    retries = target_of(plan, CloudTarget).retries
    index, gpus = _first_of(index_variables(platform)), plan.resources.gpus_per_node
    yield f"nemotron_index={index}; export NEMOTRON_ATTEMPTS={retries + 1} NUM_GPU_PER_NODE={gpus}"


def _data(plan: Plan) -> str | None:
    """What `data.pyz` fetches and copies away, as JSON; None where there is nothing."""
    target = target_of(plan, CloudTarget)
    if not target.inputs and not target.outputs:
        return None
    known = {
        "job": plan.name,
        "inputs": target.inputs,
        "outputs": list(target.outputs),
        "output_url": f"{target.output_url.rstrip('/')}/{plan.name}" if target.output_url else "",
        "endpoint": target.s3_endpoint,
        "region": target.s3_region,
        "staged": _staged(plan),
        "cache": f"{run_dir(plan).rstrip('/')}/s3" if target.shared else None,
        # The pod finds out which outputs lie on no mount: their paths may be links, and custom_spec may add mounts.
        "kept": f"{run_dir(plan).rstrip('/')}/outputs/{plan.name}" if target.shared and target.outputs else None,
    }
    return json.dumps(known, indent=2) + "\n"


def _staged(plan: Plan) -> list[str]:
    """Where storage that outlives the pods is mounted in them: inputs may lie there already."""
    storage = storage_of(plan)
    return [mount.target for mount in storage.mounts if mount.lost in ("", READ_ONLY)] if storage else []


@lru_cache
def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()

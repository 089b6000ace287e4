"""What runs in a pod: the program it starts with, and `pod.sh`, which runs the job script and says how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from nemo_runspec.artifacts.store import versions_of
from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import RenderedFile
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.layout import job_layout, run_dir
from nemo_runspec.planning.kept import storage_of
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.storage import READ_ONLY
from nemo_runspec.plans.target import target_of
from nemo_runspec.s3_names import KEYS
from nemo_runspec.script.quoting import join, quote
from nemo_runspec.script.render import downsample_program, render_job_script, shared_functions
from nemo_runspec.script.reserved import WAITS

POD_SCRIPT, DATA, DATA_PROGRAM = "pod.sh", "data.json", "data.pyz"

ATTEMPT_VARIABLE = "NEMOTRON_POD_ATTEMPT"
"""Set in a payload to how often the job had been submitted before; absent for the first time."""


@lru_cache
def boot_program() -> str:
    """The program a container starts with: `bash -c PROGRAM nemotron WORDS…`, or `eval` of it with the words as
    variables `NEMOTRON_CARGO_0`, ….

    Under 4,000 characters, and without what Kubernetes rewrites in commands and variables (`$(NAME)` and `$$`).
    """
    lines = (line.strip() for line in _beside("boot.sh").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def pod_files(plan: Plan, *, kind: str) -> tuple[RenderedFile, ...]:
    """The texts of a job that its pods get: `job.sh`, `pod.sh`, and `data.json` where there is data on S3.

    Args:
        kind: the executor, such as `lepton`: its backend's `node.sh` knows by which variables a pod finds out which
            node it is.
    """
    script = render_pod_script(plan, kind=kind, outputs=declared_outputs(plan), versions=versions_of(plan))
    files = (
        RenderedFile("job script", "job.sh", render_job_script(plan, job_layout(plan))),
        RenderedFile("pod script", POD_SCRIPT, script),
    )
    data = _data(plan)
    return files if data is None else (*files, RenderedFile("data on S3", DATA, data, "json"))


def render_pod_script(plan: Plan, *, kind: str, outputs: Mapping[str, str], versions: Sequence[str]) -> str:
    """The script that is process 1 of every pod.

    Args:
        kind: as in `pod_files`.
        outputs: name → path, of what the job makes. `versions`: folders that become the newest of their artifact.
    """
    sections = (
        _head(plan, kind),
        _constants(plan, outputs, versions),
        ("# --- the profile's own commands", *_prepare(target_of(plan, CloudTarget))),
        ("# --- which node this is", _node_script(kind)),
        ("# --- functions", shared_functions(), "", _beside("functions.sh")),
        ("# --- the other nodes", _beside("others.sh")),
        ("# --- the metrics at the end", f"nemotron_pod_downsample={quote(downsample_program())}"),
        ("# --- this pod", "nemotron_pod_main"),
    )
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def declared_outputs(plan: Plan) -> dict[str, str]:
    """Name → path, of what the recipe makes."""
    return {artifact.name: artifact.path for artifact in plan.produces if artifact.path}


def _head(plan: Plan, kind: str) -> Iterator[str]:
    yield "#!/usr/bin/env bash"
    yield f"# nemotron pod of {plan.name}: {plan.resources.nodes} on {kind}"
    # The kernel drops a signal that process 1 has no trap for; nemotron_pod_begin acts on one that has come by then.
    yield "nemotron_pod_told=''"
    yield from (f"trap 'nemotron_pod_told={name}' {name}" for name in ("TERM", "INT"))
    yield "unset CDPATH"


def _constants(plan: Plan, outputs: Mapping[str, str], versions: Sequence[str]) -> Iterator[str]:
    target = target_of(plan, CloudTarget)
    yield f"nemotron_pod_dir={quote(job_layout(plan).root)}"
    yield f"nemotron_pod_count={plan.resources.nodes}"
    yield f"nemotron_pod_data={'1' if target.inputs else quote('')}"
    yield f"nemotron_pod_copies={'1' if target.outputs else quote('')}"
    yield f"nemotron_pod_outputs=({join(word for pair in outputs.items() for word in pair)})"
    yield f"nemotron_pod_versions=({join(versions)})"
    # The job script sets the job's variables only for the job; these are for pod.sh itself.
    yield from (f"export {variable.name}={quote(variable.value)}" for variable in plan.env if variable.name in WAITS)
    yield from _metadata(target)
    yield f"export NEMOTRON_ATTEMPTS={target.retries + 1} NUM_GPU_PER_NODE={plan.resources.gpus_per_node}"


def _metadata(target: CloudTarget) -> Iterator[str]:
    """`CLOUD_METADATA`, as NVIDIA's TAO SDK makes it; the keys are put in where the job runs, and stand in no file."""
    if not target.cloud_metadata:
        return
    where = {"cloud_region": target.s3_region, "endpoint_url": target.s3_endpoint}
    keys = {"access_key": "@ACCESS_KEY@", "secret_key": "@SECRET_KEY@"}
    text = quote(json.dumps({"aws": {bucket: {**where, **keys} for bucket in target.cloud_metadata}}))
    for name, amazons in KEYS.items():
        yield f"nemotron_pod_key=${{{name}:-${{{amazons}-}}}}"
        yield r"nemotron_pod_key=${nemotron_pod_key//\\/\\\\}"
        yield r"nemotron_pod_key=${nemotron_pod_key//\"/\\\"}"
        text = text.replace(f"@{name}@", f"""'"$nemotron_pod_{name.lower()}"'""")
        yield f"nemotron_pod_{name.lower()}=$nemotron_pod_key"
    yield f"export CLOUD_METADATA={text}"


def _prepare(target: CloudTarget) -> Iterator[str]:
    yield "nemotron_pod_prepare() {"
    if target.pre_launch_commands:
        yield f"  exec bash -eo pipefail -c {quote(chr(10).join(target.pre_launch_commands))}"
    else:
        yield "  :"
    yield "}"


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
def _node_script(kind: str) -> str:
    """`node.sh` of a backend, which stands beside the module that makes its targets."""
    module = import_module(get_backend(kind).target.partition(":")[0])
    return Path(str(module.__file__)).with_name("node.sh").read_text(encoding="utf-8").strip()


@lru_cache
def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()

"""The life of a pod: what the profile wants done first, inputs, the job script, the other nodes, outputs, the end."""

import json
import os
import traceback
from importlib import import_module

from nemo_runspec.jobside import registration
from nemo_runspec.jobside.barriers import Failure
from nemo_runspec.jobside.exit_status import Ended
from nemo_runspec.jobside.pod.data import move
from nemo_runspec.jobside.pod.ending import end_line, result_lines
from nemo_runspec.jobside.pod.others import Others
from nemo_runspec.jobside.pod.pod import ALONE, GROUP, SCRIPT, PodRun
from nemo_runspec.jobside.pod.values import PodJob
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from types import ModuleType
    from typing import Dict, List, Sequence


def run_pod(values: str, words: "Sequence[str]") -> int:
    """Runs this pod's part of a job; its exit code.

    Args:
        values, words: as for `PodJob`.
    """
    job = PodJob(values, words)
    platform = import_module(job.platform)
    pod = PodRun(job, job.index(platform.INDEX))
    try:
        pod.begin()
        ended = _run(pod, platform)
    except Exception as error:  # noqa: BLE001  (a defect of ours must not look like an end without a word)
        _tell_defect()
        ended = Ended(1, reason="nemotron's supervisor failed: %s" % error)
        pod.barriers.fail(1, "node %d failed: %s" % (pod.index, ended.reason), pod.index)
    return _finish(pod, ended)


def _run(pod: PodRun, platform: "ModuleType") -> Ended:
    try:
        _prepare(pod, platform)
    except Failure as failure:
        return _failed_before(pod, failure)
    ended = _command(pod)
    others = Others(pod)
    for step in (others.wait_for_commands, lambda code: _put(pod, code), others.wait_for_ends):
        found = step(ended.exit_code)
        if not ended.exit_code and found.exit_code:
            ended = found
    if pod.index == 0 and not ended.exit_code:
        # What a job that has succeeded on all nodes has made becomes the newest version of its artifact.
        ended = registration.published(ended, pod.job.versions, registration.JobPlace(pod.job.root, pod.environment))
        if ended.exit_code:
            say("%s (exit code %d)" % (ended.reason, ended.exit_code))
    return ended


def _prepare(pod: PodRun, platform: "ModuleType") -> None:
    """All that comes before the job script. Raises `Failure`."""
    place = platform.place(pod)
    pod.environment.update({
        "NEMOTRON_POD_INDEX": str(pod.index),
        "NEMOTRON_POD_COUNT": str(pod.job.nodes),
        "NEMOTRON_POD_MASTER": place.master,
        "NEMOTRON_POD_PORT": place.port,
        "NEMOTRON_POD_WORKERS": place.workers,
        "NEMOTRON_POD_ATTEMPT": pod.job.attempt,
        **_cloud_metadata(pod.job, pod.environment),
    })  # fmt: skip
    code = pod.run(["bash", "-eo", "pipefail", "-c", pod.job.prepare or ":"], GROUP)
    pod.heed_failures()
    if code:
        raise Failure("a command of pre_launch_commands failed", code, "pre_launch")
    if "get" in pod.job.moves:
        code, why = move(pod, "get", GROUP)
        pod.heed_failures()
        if code:
            raise Failure("inputs: " + (why or "they could not be fetched"), 1, "inputs")


def _failed_before(pod: PodRun, failure: Failure) -> Ended:
    """Ends this node before its job script, and tells the others, which would wait for it."""
    ended = Ended(failure.exit_code, reason=failure.reason, code=failure.code, blames=failure.blames)
    if pod.told:
        ended = Ended(pod.stopped, reason="the job was told to stop (SIG%s) before it had started" % pod.told)
    say("%s (exit code %d)" % (ended.reason, ended.exit_code))
    if ended.blames is None:
        pod.barriers.fail(ended.exit_code, "node %d failed: %s" % (pod.index, ended.reason), pod.index)
    return ended


def _command(pod: PodRun) -> Ended:
    """Runs the job script, which writes down how it ended."""
    pod.phase = "command"
    code = pod.run(["bash", pod.job.root + "/job.sh"], SCRIPT)
    record = pod.status.read(pod.marker)
    if "exit_code" in record:
        pod.phase = str(record.get("phase", pod.phase))
        # Where they are two, it was killed after it had said its end.
        code = int(record["exit_code"]) if pod.told else code
        reason, reason_code = str(record.get("reason", "")), str(record.get("reason_code", ""))
        return Ended(code, reason=reason, code=reason_code, blames=record.get("blames"))
    if not code:
        return Ended(0)
    reason = "the job was told to stop (SIG%s)" % pod.told
    if not pod.told:
        reason = "the job script ended without a word (status %d)" % code
    pod.barriers.fail(code, "node %d failed: %s" % (pod.index, reason), pod.index)
    return Ended(code, reason=reason)


def _put(pod: PodRun, code: int) -> Ended:
    """Copies outputs, also when the job was told to stop, before or meanwhile, for as long as the platform lets it."""
    if "put" not in pod.job.moves:
        return Ended(0)
    failed, why = move(pod, "put", ALONE, ["--status", str(code)])
    if not failed:
        return Ended(0)
    return Ended(1, reason="outputs: " + (why or "they could not be copied"), code="outputs")


def _finish(pod: PodRun, ended: Ended) -> int:
    pod.end_log()
    lines: "List[str]" = []
    try:
        lines = list(result_lines(pod)) if pod.index == 0 else []
    except Exception:  # noqa: BLE001  (the results cannot be told, how the job has ended can)
        _tell_defect()
    for line in lines:
        pod.log.line(line)
    pod.end(ended.exit_code, [end_line(pod, ended.exit_code, ended.reason, ended.code, ended.blames)])
    return ended.exit_code


def _cloud_metadata(job: PodJob, environment: "Dict[str, str]") -> "Dict[str, str]":
    """`CLOUD_METADATA`, as NVIDIA's TAO SDK makes it; the keys are put in here, and stand in no file."""
    if not job.metadata:
        return {}
    from nemo_runspec.s3_names import pair_in

    names = pair_in(environment)
    keys = dict(zip(("access_key", "secret_key"), (environment[name] for name in names)))  # noqa: B905  (Python 3.10)
    return {"CLOUD_METADATA": json.dumps({"aws": {name: {**where, **keys} for name, where in job.metadata.items()}})}


def _tell_defect() -> None:
    os.write(2, traceback.format_exc().encode("utf-8", "replace"))

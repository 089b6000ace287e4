"""Entry points of the supervisor: a node of a job, one of its ranks, or a pod around it."""

import os

MYPY = False
if MYPY:
    from typing import List

    from nemo_runspec.jobside.job import JobTask


def main(words: "List[str]") -> int:
    """`ROLE SCRIPT VALUES [KEY=VALUE...]`, as start.sh calls it; its exit code.

    Args:
        words: the role, `node`, `rank`, `ray`, `pod`, `forward`, `register`, `ray-node` or `relay`; the path of the
            script, for `forward` and `register` the job's directory, for `relay` a port; what it is to tell W&B, what
            `ray-node` is told, the file for `relay`; see `JobTask`, or `PodJob`, for the rest.
    """
    _fill_closed()
    role, script, values = words[:3]
    if role == "pod":
        from nemo_runspec.jobside.pod.main import run_pod

        return run_pod(values, words[3:])
    if role == "forward":
        from nemo_runspec.jobside.forward import forward

        return forward(script, values)
    if role == "register":
        from nemo_runspec.jobside.registration import register_later

        return register_later(script)
    if role == "ray-node":
        from nemo_runspec.jobside.ray_observer import observe

        return observe(values)
    if role == "relay":
        from nemo_runspec.jobside.relay import relay

        return relay(int(script), values)
    from nemo_runspec.jobside.job import JobTask

    job = JobTask(values, words[3:])
    if role == "rank":
        from nemo_runspec.jobside.rank import supervise

        return supervise(job, script)
    if role == "ray":
        from nemo_runspec.jobside.ray import keep

        return keep(job, script)
    return _run_node(job, script)


def _fill_closed() -> None:
    """Standard files that are closed here: their numbers would be those of the next files that are opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # what is written there fails, and is counted


def _run_node(job: "JobTask", script: str) -> int:
    from nemo_runspec.jobside.barriers import Failure
    from nemo_runspec.jobside.exit_status import Ended
    from nemo_runspec.jobside.node import NodeRun

    node = NodeRun(job, script)
    try:
        node.begin()
        ended = node.run()
        from nemo_runspec.jobside.finish import judge  # while the command ran there was no need for it

        ended = judge(node, ended)
        if job.checks:
            from nemo_runspec.jobside.verify import check_outputs

            ended = check_outputs(node, ended)
    except Failure as failure:
        node.end_shell()
        ended = Ended(failure.exit_code, None, None, failure.reason, failure.code, failure.blames)
    except Exception as error:  # noqa: BLE001  (a defect of ours must not look like an end without a word)
        import traceback

        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        node.end_shell()
        ended = Ended(1, reason="nemotron's supervisor failed: %s" % error)
    from nemo_runspec.jobside.finish import finish

    return finish(node, ended)

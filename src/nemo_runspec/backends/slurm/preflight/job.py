"""What compute nodes tell: whether they share remote_job_dir with the login node, see mounts, image and python."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nemo_runspec.backends.slurm.batch import NEEDS_PYTHON
from nemo_runspec.backends.slurm.cluster.answer import Answer, run_script, whole
from nemo_runspec.backends.slurm.cluster.refusals import explained
from nemo_runspec.backends.slurm.preflight.login import has_slurm
from nemo_runspec.backends.slurm.preflight.login_node import LoginRequest
from nemo_runspec.check import Check, Question, failed, ok, skipped, warning
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Host

_WAIT = 60
"""Seconds that nodes may take to become free."""

_LIMIT = _WAIT + 60
_NODES = 2
_KEPT = frozenset({
    "account", "partition", "qos", "gpus-per-node", "gres", "constraint", "exclude", "reservation", "mem",
    "mem-per-cpu", "mem-per-gpu", "cpus-per-task", "cpus-per-gpu", "network", "licenses", "wckey",
})  # fmt: skip
"""Options of the profile's own job that this one has too: they decide which nodes it gets."""

_SHARED = "set remote_job_dir to a directory on a file system that all nodes mount, such as one below /lustre or /home"


def job_checks(question: Question, request: LoginRequest, answer: Answer, host: Host) -> Iterator[Check]:
    """One more round trip with `question.job`, and none without."""
    if not question.job:
        yield skipped("shared", "only a job on compute nodes can tell", f"nemotron doctor {question.profile} --job")
        yield from python_hint(question, request, answer)
        return
    if not has_slurm(answer):
        yield skipped("shared", "not checked: Slurm does not answer")
        return
    try:
        on_nodes = run_script(host, _script(question, request), timeout=_LIMIT + 60.0)
    except UserError as error:
        yield warning("shared", f"not known: {error.what}", error.remedy or "")
        return
    yield from read(question, request, on_nodes, answer)


def read(question: Question, request: LoginRequest, answer: Answer, before: Answer) -> Iterator[Check]:
    """Checks of the nodes' answer. `before`: the login node's, for what exists where Slurm refuses the job."""
    rows = [row[1:] for row in answer["job"].rows if row[0] == "node" and len(row) == 9]
    if not rows:
        yield _no_job(answer["job"].reason, before)
        return
    names = ", ".join(sorted(row[0] for row in rows))
    back = answer.column("files", 0)
    blind = sorted(row[0] for row in rows if "no" in row[1:3] or row[0] not in back)
    if blind:
        yield failed("shared", f"remote_job_dir is not the same directory on {', '.join(blind)}", _SHARED)
    else:
        yield ok("shared", f"{names} and the login node see the same remote_job_dir")
    if request.mounts or (request.image and request.image.path):
        yield from _paths(rows)
    if request.image is not None:
        yield from _enroot(rows)
    else:
        yield python_on_nodes(question, rows)
    yield _supervisor(question, rows)
    yield from _gpus(question, rows)


def _no_job(message: str, before: Answer) -> Check:
    if "nodes are busy" in message or not message:
        return skipped("shared", f"no nodes were free within {_WAIT} s", "try again when some are: sinfo")
    error = explained(message.replace("srun: error: ", "").replace("Unable to allocate resources: ", ""), before)
    return failed("shared", f"no job could be had: {error.what}", error.remedy or "")


def _paths(rows: list[list[str]]) -> Iterator[Check]:
    paths = {path for row in rows for path in row[5].split()}
    missing = {path: sorted(row[0] for row in rows if path in row[5].split()) for path in paths}
    for path, names in sorted(missing.items()):
        mend = "correct mounts or container_image, or ask the site why the node lacks it"
        yield failed("on nodes", f"{path} is not there on {', '.join(names)}", mend)
    if not missing:
        yield ok("on nodes", "mounts and image file are there")


def _enroot(rows: list[list[str]]) -> Iterator[Check]:
    """Pyxis starts it on the node; its PATH may be another one than a job's."""
    without = sorted(row[0] for row in rows if not row[3])
    if without:
        mend = "if containers do not start, ask the site for it"
        yield warning("enroot", f"not on PATH on {', '.join(without)}", mend)
    else:
        yield ok("enroot", "on all of them")


def _supervisor(question: Question, rows: list[list[str]]) -> Check:
    """Whether batch scripts have the python3 that they go on in, beside any container."""
    without = ", ".join(sorted(row[0] for row in rows if not row[6]))
    wanted = ", ".join(name for name in NEEDS_PYTHON if question.env.get(name))
    mend = "ask the site for a python3 (3.6 or later) on its nodes"
    if without and wanted:
        return failed("python3", f"none on {without}: with {wanted} in the profile, a job ends there", mend)
    if without:
        return warning("python3", f"none on {without}: {', '.join(NEEDS_PYTHON)} cannot be had there", mend)
    return ok("python3", "on all of them, for batch scripts")


def _gpus(question: Question, rows: list[list[str]]) -> Iterator[Check]:
    wanted = int(question.env.get("gpus_per_node") or 0)
    counts = [(row[0], whole(row[4])) for row in rows]
    few = [f"{node} ({count})" for node, count in counts if count is not None and count < wanted]
    if wanted and few:
        mend = "ask the site to look at them; until then exclude them in the profile"
        yield failed("GPUs", f"nvidia-smi sees fewer than {wanted} on {', '.join(few)}", mend)


def _script(question: Question, request: LoginRequest) -> str:
    nodes = min(_NODES, int(question.env.get("nodes") or 1))
    lines = [
        line.removeprefix("#SBATCH ") for line in request.drafts[0].script.splitlines() if line.startswith("#SBATCH ")
    ]
    kept = [line for line in lines if line.removeprefix("--").partition("=")[0] in _KEPT]
    own = ("--job-name=nemotron-doctor", "--time=5", f"--nodes={nodes}", "--ntasks-per-node=1", "--quiet")
    before = () if request.image else ("set +eu", *commands(question))
    return request.script(
        "job.sh",
        f"given=({' '.join((*kept, *map(shlex.quote, own)))} --immediate={_WAIT})",  # kept ones are quoted already
        f"limit={_LIMIT}",
        f"commands=({shlex.join(before)})",
        f"patience={PYTHON_SECONDS}",
    )


PYTHON_SECONDS = 30
"""What a profile's commands may take on a node until python is looked for."""

LATE = "late"
"""What a node says in place of python's path where they took longer."""

_MEND = 'startup_commands = ["export PATH=/where/it/is/bin:$PATH"] in the profile, or a container_image'


def python_hint(question: Question, request: LoginRequest, answer: Answer) -> Iterator[Check]:
    """What the login node's own `PATH` lets one expect: often it is the compute nodes' too."""
    found = answer.path_of("python")
    if request.image is not None:
        return
    if commands(question):
        how = f"nemotron doctor {question.profile} --job"
        yield skipped("python", "the profile's own commands may bring it; only a job can tell", how)
    elif found:
        yield ok("python", f"{found} on the login node's PATH; jobs need one on compute nodes")
    else:
        yield warning("python", "no python on the login node's PATH; jobs need one on compute nodes", _MEND)


def python_on_nodes(question: Question, rows: list[list[str]]) -> Check:
    """What the nodes found, after the profile's commands. A recipe may still bring a container of its own.

    Args:
        rows: each node's name first, and last python's path, `LATE`, or '' for none.
    """
    late = sorted(row[0] for row in rows if row[-1] == LATE)
    without = sorted(row[0] for row in rows if not row[-1])
    after = " after startup_commands" if commands(question) else ""
    if without:
        text = f"none on {', '.join(without)}{after}: without a container, a job ends there with exit code 127"
        return warning("python", text, _MEND)
    if late:
        text = f"not known: startup_commands took more than {PYTHON_SECONDS} s on {', '.join(late)}"
        return warning("python", text, "see that they install nothing anew for each job")
    return ok("python", f"{', '.join(dict.fromkeys(row[-1] for row in rows))}{after}")


def commands(question: Question) -> tuple[str, ...]:
    """What may change `PATH` before a job's command, in the order in which a job has it."""
    env = question.env
    path = (env.get("env_vars") or {}).get("PATH")
    own = (env.get("setup_lines"), f"export PATH={shlex.quote(str(path))}" if path else "")
    return tuple(str(line) for line in (*own, *(env.get("startup_commands") or ())) if line)

"""The whole examination of a Slurm profile, and what is looked at before every submission; each asks once.

With `--job` compute nodes are asked too: whether they share remote_job_dir with the login node, see mounts, image and
python.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nemo_runspec.backends import machine
from nemo_runspec.backends.slurm.client import host_in
from nemo_runspec.backends.slurm.cluster import Answer, run_script, whole
from nemo_runspec.backends.slurm.cluster.submit import explained
from nemo_runspec.backends.slurm.diagnose import NO_CONTAINER
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.preflight import TIMEOUT, LoginRequest, draft, login, login_request, shape, sources
from nemo_runspec.backends.slurm.preflight.login import UNKNOWN_PYXIS, has_slurm, no_slurm, not_reached, reached
from nemo_runspec.backends.slurm.preflight.shape import refused, waits_for
from nemo_runspec.backends.slurm.render import NEEDS_PYTHON
from nemo_runspec.check import Check, CheckRequest, failed, of_error, ok, skipped, warning
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.profiles.common import nodes_of
from nemo_runspec.transport.base import Broken, Host
from nemo_runspec.transport.registry import image_of

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


def job_checks(question: CheckRequest, request: LoginRequest, answer: Answer, host: Host) -> Iterator[Check]:
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


def read(question: CheckRequest, request: LoginRequest, answer: Answer, before: Answer) -> Iterator[Check]:
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
        yield from _paths_on_nodes(rows)
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


def _paths_on_nodes(rows: list[list[str]]) -> Iterator[Check]:
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


def _supervisor(question: CheckRequest, rows: list[list[str]]) -> Check:
    """Checks whether batch scripts have the python3 that they go on in, beside any container."""
    without = ", ".join(sorted(row[0] for row in rows if not row[6]))
    wanted = ", ".join(name for name in NEEDS_PYTHON if question.env.get(name))
    mend = "ask the site for a python3 (3.6 or later) on its nodes"
    if without and wanted:
        return failed("python3", f"none on {without}: with {wanted} in the profile, a job ends there", mend)
    if without:
        return warning("python3", f"none on {without}: {', '.join(NEEDS_PYTHON)} cannot be had there", mend)
    return ok("python3", "on all of them, for batch scripts")


def _gpus(question: CheckRequest, rows: list[list[str]]) -> Iterator[Check]:
    wanted = int(question.env.get("gpus_per_node") or 0)
    counts = [(row[0], whole(row[4])) for row in rows]
    few = [f"{node} ({count})" for node, count in counts if count is not None and count < wanted]
    if wanted and few:
        mend = "ask the site to look at them; until then exclude them in the profile"
        yield failed("GPUs", f"nvidia-smi sees fewer than {wanted} on {', '.join(few)}", mend)


def _script(question: CheckRequest, request: LoginRequest) -> str:
    nodes = min(_NODES, nodes_of(question.env))
    lines = [
        line.removeprefix("#SBATCH ") for line in text_lines(request.drafts[0].script) if line.startswith("#SBATCH ")
    ]
    kept = [line for line in lines if line.removeprefix("--").partition("=")[0] in _KEPT]
    own = ("--job-name=nemotron-doctor", "--time=5", f"--nodes={nodes}", "--ntasks-per-node=1", "--quiet")
    before = () if request.image else ("set +eu", *commands(question))
    return request.script(
        "ask_nodes",
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


def python_hint(question: CheckRequest, request: LoginRequest, answer: Answer) -> Iterator[Check]:
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


def python_on_nodes(question: CheckRequest, rows: list[list[str]]) -> Check:
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


def commands(question: CheckRequest) -> tuple[str, ...]:
    """What may change `PATH` before a job's command, in the order in which a job has it."""
    env = question.env
    path = (env.get("env_vars") or {}).get("PATH")
    own = (env.get("setup_lines"), f"export PATH={shlex.quote(str(path))}" if path else "")
    return tuple(str(line) for line in (*own, *(env.get("startup_commands") or ())) if line)


_ORDER = (login.checks, shape.shape_checks, shape.billing, login.image_checks, login.place_checks)


class NoAnswer(UserError):
    """What came back is not the answer of a login node."""


def run_checks(question: CheckRequest) -> Iterator[Check]:
    """Every check, each as soon as it is known. One round trip, one more with `question.job`."""
    env = question.env
    yield from _here(question)
    request, ssh = login_request(env), env.get("tunnel") == "ssh"
    try:
        host = host_in(env)
        answer = ask(host, request)
    except (Broken, NoAnswer) as error:
        yield from reached(host, ssh=ssh)
        yield of_error("answer", error)
        yield skipped("the rest", "not checked: the login node did not answer")
        return
    except UserError as error:
        yield from not_reached(error)
        yield skipped("the rest", "not checked: the login node cannot be asked")
        return
    yield from reached(host, ssh=ssh)
    for checks in _ORDER:
        yield from checks(question, request, answer)
    yield from job_checks(question, request, answer, host)


def ask(host: Host, request: LoginRequest) -> Answer:
    """The login node's answer. One round trip.

    Raises:
        NoAnswer: one that is none. UserError, Unreachable: as `Host.run`.
    """
    answer = run_script(host, request.script(), timeout=TIMEOUT)
    if "host" not in answer:
        raise NoAnswer(
            f"{host.name} does not answer as a login node does: {answer.said or 'it says nothing'}",
            remedy="log in by hand and see whether bash works there",
        )
    return answer


def _here(question: CheckRequest) -> Iterator[Check]:
    """What is needed on this side: ssh, and git where it packs the code."""
    if question.env.get("tunnel") == "ssh":
        yield machine.program(machine.SSH)
    packager = question.env.get("packager")
    if packager in (None, "git", "hybrid"):
        yield machine.program(machine.GIT, needed=packager is not None)


_TIMEOUT = 60.0


def fast_checks(host: Host, plan: Plan) -> list[Check]:
    """What is wrong with a submission, as far as the login node can tell; empty where nothing is. One round trip.

    `failed`: Slurm would refuse it, or sbatch is not there; `Check.error` is the refusal to raise. `warning`: it may
    work nevertheless, such as a mount that only compute nodes see.

    Raises:
        Unreachable: as `Host.run`.
    """
    request = _request_of_plan(plan)
    answer = run_script(host, request.script("examine_quickly"), timeout=_TIMEOUT)
    if "tools" not in answer:
        return []
    if not answer.path_of("sbatch"):
        return [no_slurm(["sbatch"], answer)]
    return [*_options(answer, request), *_containers(answer), *_paths(answer, request)]


def _request_of_plan(plan: Plan) -> LoginRequest:
    """What there is to ask about a plan. The submission makes its own directory and a build's cache, mounted too."""
    target = target_of(plan, SlurmTarget)
    own = target.remote_job_dir
    image = image_of(target.container_image) if target.container_image else None
    made = tuple(filter(None, (own, target.store, target.build_cache_dir, f"{target.build_cache_dir}/.auth/auth.json")))
    mounted = [source for source in sources(target.mounts) if source not in made] if image else []
    return LoginRequest(own, (draft(plan, plan.mode),), tuple(mounted), image)


def _options(answer: Answer, request: LoginRequest) -> list[Check]:
    wanted = request.drafts[0]
    section = answer[f"draft;{wanted.role}"]
    if section.code == 0 or section.is_busy:
        return []
    if away := waits_for(section, wanted, answer):
        # Seen in 22.05: sbatch takes such a job where it is only that nodes are down, and it waits for them.
        return [warning("shape", f"not with the nodes that are up now ({away} are not): {section.reason}")]
    error = refused(section, wanted, answer)
    return [failed("shape", f"Slurm refuses the job: {error.what}", error.remedy or "", error.key)]


def _containers(answer: Answer) -> list[Check]:
    """The login node's srun is asked, whose options are those of all of the cluster's."""
    if "pyxis" not in answer or answer["pyxis"].code == 0:
        return []
    if answer["pyxis"].code == 1:
        seen = "the job has a container image, and srun has no --container-image: this cluster has no Pyxis"
        return [failed("containers", seen, NO_CONTAINER)]
    return [warning("containers", f"the job has a container image, and {UNKNOWN_PYXIS}", NO_CONTAINER)]


def _paths(answer: Answer, request: LoginRequest) -> list[Check]:
    mend = "create it, or correct mounts"
    paths = [(f"mount;{number}", "mounts", source, mend) for number, source in enumerate(request.mounts)]
    if request.image is not None and request.image.path:
        mend = "correct container_image; nemotron kit slurm squash makes such a file"
        paths.append(("image", "image", request.image.path, mend))
    return [
        warning(name, f"{path} is not there, seen from the login node", mend)
        for section, name, path, mend in paths
        if section in answer and answer[section].code == 1
    ]

"""The whole examination of a Slurm profile, and what is looked at before every submission; each asks once."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_runspec.backends import machine
from nemo_runspec.backends.slurm.causes import NO_CONTAINER
from nemo_runspec.backends.slurm.client import host_of
from nemo_runspec.backends.slurm.cluster.answer import Answer, run_script
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.preflight import login, shape
from nemo_runspec.backends.slurm.preflight.job import job_checks
from nemo_runspec.backends.slurm.preflight.login import UNKNOWN_PYXIS, no_slurm, not_reached, reached
from nemo_runspec.backends.slurm.preflight.login_node import TIMEOUT, LoginRequest, draft, login_request, sources
from nemo_runspec.backends.slurm.preflight.shape import refused, waits_for
from nemo_runspec.check import Check, Question, failed, of_error, skipped, warning
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.transport.base import Broken, Host
from nemo_runspec.transport.registry import image_of

_ORDER = (login.checks, shape.shape_checks, shape.billing, login.image_checks, login.place_checks)


class NoAnswer(UserError):
    """What came back is not the answer of a login node."""


def examine(question: Question) -> Iterator[Check]:
    """Every check, each as soon as it is known. One round trip, one more with `question.job`."""
    env = question.env
    yield from _here(question)
    request, ssh = login_request(env), env.get("tunnel") == "ssh"
    try:
        host = host_of(env)
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


def _here(question: Question) -> Iterator[Check]:
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
    answer = run_script(host, request.script("fast.sh"), timeout=_TIMEOUT)
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

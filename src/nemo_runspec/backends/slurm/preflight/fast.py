"""What is looked at before every submission: only what is cheap, in one round trip, and before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping

from nemo_runspec.backends.slurm.cluster.answer import PRELUDE, Section, read_sections
from nemo_runspec.backends.slurm.preflight.asking import Answer, Asked, sources
from nemo_runspec.backends.slurm.preflight.draft import draft
from nemo_runspec.backends.slurm.preflight.login import no_slurm
from nemo_runspec.backends.slurm.preflight.registry import image_of
from nemo_runspec.backends.slurm.preflight.shape import KILLED, is_busy, refused, waits_for
from nemo_runspec.doctor.check import Check, failed, warning
from nemo_runspec.planning.model import Plan
from nemo_runspec.transport.base import Host

_TIMEOUT = 60.0


def fast_checks(host: Host, plan: Plan) -> list[Check]:
    """What is wrong with a submission, as far as the login node can tell; empty where nothing is. One round trip.

    `failed`: Slurm would refuse it, or sbatch is not there; `Check.error` is the refusal to raise. `warning`: it may
    work nevertheless, such as a mount that only compute nodes see.

    Raises:
        Unreachable: as `Host.run`.
    """
    done = host.run(f"{PRELUDE}\n{fast_script(plan)}", timeout=_TIMEOUT)
    return fast_problems(plan, {section.name: section for section in read_sections(done.text)})


def fast_script(plan: Plan) -> str:
    """The same as text for another errand's script, after its `PRELUDE`. It prints sections and reads no input.

    It runs in a shell of its own, so that none of its names stays.
    """
    return f"(\n{asked_of_plan(plan).text('fast.sh')}\n)\n"


def fast_problems(plan: Plan, sections: Mapping[str, Section]) -> list[Check]:
    """What the sections of `fast_script` mean, others among them."""
    asked, answer = asked_of_plan(plan), Answer(sections)
    if "tools" not in answer:
        return []
    if not answer.path_of("sbatch"):
        return [no_slurm(["sbatch"], answer)]
    return [*_options(answer, asked), *_paths(answer, asked)]


def asked_of_plan(plan: Plan) -> Asked:
    """What there is to ask about a plan. The submission makes its own directory and a build's cache, mounted too."""
    target = plan.target
    own = target.remote_job_dir
    image = image_of(target.container_image) if target.container_image else None
    made = tuple(filter(None, (own, target.store, target.build_cache_dir, f"{target.build_cache_dir}/.auth/auth.json")))
    mounted = [source for source in sources(target.mounts) if source not in made] if image else []
    return Asked(own, (draft(plan, plan.mode),), tuple(mounted), image)


def _options(answer: Answer, asked: Asked) -> list[Check]:
    wanted = asked.drafts[0]
    section = answer[f"draft;{wanted.role}"]
    if section.code == 0 or section.code in KILLED or is_busy(section.reason):
        return []
    if away := waits_for(section, wanted, answer):
        # Seen in 22.05: sbatch takes such a job where it is only that nodes are down, and it waits for them.
        return [warning("shape", f"not with the nodes that are up now ({away} are not): {section.reason}")]
    error = refused(section, wanted, answer)
    return [failed("shape", f"Slurm refuses the job: {error.what}", error.remedy or "", error.key)]


def _paths(answer: Answer, asked: Asked) -> list[Check]:
    found = []
    for number, source in enumerate(asked.mounts):
        if answer[f"mount;{number}"].code == 1 and f"mount;{number}" in answer:
            found.append(
                warning("mounts", f"{source} is not there, seen from the login node", "create it, or correct mounts")
            )
    if asked.image is not None and asked.image.path and answer["image"].code == 1 and "image" in answer:
        seen = f"{asked.image.path} is not there, seen from the login node"
        found.append(warning("image", seen, "correct container_image; nemotron kit slurm squash makes such a file"))
    return found

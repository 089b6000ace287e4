"""Facts of a plan, on the page and in full: what it is, what is missing, what travels, what it may cost."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from nemo_runspec.artifacts.store import newest_inputs
from nemo_runspec.artifacts.wandb import unpinned
from nemo_runspec.backends import get_backend
from nemo_runspec.packaging.messages import left_behind, problem_lines, sent_uncommitted
from nemo_runspec.planning import kept
from nemo_runspec.planning.limits import Cost, cost_of
from nemo_runspec.plans.model import Artifact, AutoMount, Package, Plan
from nemo_runspec.source import display_path
from nemo_runspec.text import clean, count, size
from nemotron.cli.dry_run.rows import folded
from nemotron.cli.text import paint


def title(plan: Plan) -> list[str]:
    """Which recipe, where, and the job's name."""
    config = f", config {plan.config_name}" if plan.config_name else ""
    where = f"profile {plan.profile}{_of_file(plan)}" if plan.profile else "this machine"
    return [
        paint(f"{plan.recipe.path}{config} on {where} ({plan.executor}, {plan.mode})", "bold"),
        f"job {plan.name} in {plan.job_dir}",
        *_labels(plan),
    ]


def _labels(plan: Plan) -> Iterator[str]:
    if plan.labels.tags:
        yield f"tags {', '.join(plan.labels.tags)}"
    if plan.labels.note:
        yield f"note {clean(plan.labels.note)}"


def problems(plan: Plan, width: int | None = None) -> list[str]:
    """What is wrong or missing, a line each; what must be mended before a submission first."""
    said = left_behind(plan.package)
    open_lines = (*plan.unfilled, *problem_lines(plan.package), *kept.problem_lines(plan), *_missing_inputs(plan))
    lines = [f"before submission: {line}" for line in open_lines]
    lines += [line for line in plan.warnings if line not in said]
    shown = [paint(part, "yellow") for line in lines for part in folded(clean(line), width)]
    return [paint("wrong or missing", "bold"), *shown] if lines else []


def written_to(artifact: Artifact) -> str:
    """Where an output goes."""
    return artifact.path or ("below the output directory" if artifact.required else "not asked for")


def artifact_note(plan: Plan, artifact: Artifact) -> str:
    """Whether an input is there, and what is done about one that is not. Nothing is asked of another machine here."""
    backend = get_backend(plan.executor)
    if artifact in unpinned(plan):
        return "asked of W&B when it is submitted"
    maker = artifact.recipe if artifact.make else None
    which = "the newest version when it starts; " if artifact.name in newest_inputs(plan) else ""
    if artifact.path is None and not artifact.required:
        return "may be left out"
    if artifact.ready is not None:
        made = f"missing: {maker} would run first" if maker else "missing"
        return f"{which}there" if artifact.ready else made
    if maker is None or not backend.remote:
        return f"{which}looked for when it is submitted, where that can be asked"
    wait = "this job waits for it (--dependency=afterok:ID)" if backend.after else "this job is submitted after it"
    return f"{which}looked for when it is submitted; if it is missing, {maker} runs first, and {wait}"


def build(plan: Plan) -> list[str]:
    """What a build of a container image does, and where the image will lie."""
    from nemo_runspec.planning.container_build import steps_of

    steps = steps_of(plan)
    if steps is None:
        return []
    return [
        paint("build", "bold"),
        *(f"  {clean(shlex.join(words))}" for words in steps.commands),
        *(f"  image: {clean(image)}" for image in steps.images),
    ]


def travel(plan: Plan, width: int | None = None) -> list[str]:
    """What is sent besides texts: the recipe, the code, repositories."""
    bundle, package = plan.bundle, plan.package
    sent = f"{count(len(bundle.files), 'file')}, {size(bundle.bytes)}, sha256 {bundle.digest[:12]}"
    code = "none: no repository is packaged" if package.kind == "none" else f"{_code(package)}  ({_root(package)})"
    lines = [f"bundle   {sent}  ({plan.launch.script})", f"code     {code}"]
    lines += [f"mount    {m.target}: {m.url} at {m.commit or m.ref}, {_cloned(m)}" for m in plan.auto_mounts]
    said = dict.fromkeys((*sent_uncommitted(package), *left_behind(package)))
    return [
        paint("what travels", "bold"),
        *(part for line in lines for part in folded(line, width)),
        *(paint(part, "yellow") for line in said for part in folded(clean(line), width)),
    ]


def cost(plan: Plan, width: int | None = None) -> list[str]:
    """The shape of the job, and its GPU-hours at most."""
    resources, most = plan.resources, cost_of(plan)
    gpus = "GPUs unknown" if most.gpus is None else f"{count(most.gpus, 'GPU')} in all"
    processes = "1 process" if resources.nproc_per_node == 1 else f"{resources.nproc_per_node} processes"
    shape = f"{count(resources.nodes, 'node')}, {gpus}, {processes} per node"
    runs = f", {most.runs} runs" if most.runs > 1 else ""
    limit = f", {resources.time}" if resources.time else ""
    first, *rest = folded(f"{shape}{runs}{limit}: {at_most([most])}", width)
    return [f"{paint('cost', 'bold')}{first}", *rest]


def at_most(costs: Sequence[Cost]) -> str:
    """What plans may use together, in words."""
    known = [each.gpu_hours for each in costs if each.gpu_hours is not None]
    if len(known) == len(costs):
        return f"at most {sum(known):,.1f} GPU-hours"
    return "GPU-hours unknown" if any(each.gpus is None for each in costs) else "no limit"


def nothing(plan: Plan, saved_to: str | None = None) -> str:
    """What a dry run has done: nothing. `saved_to`: the file that the plan is written to."""
    verb = "submitted" if get_backend(plan.executor).remote else "run"
    written = f"the plan goes to {clean(saved_to)}," if saved_to else "nothing was written"
    return paint(f"Dry run: {written} and nothing was {verb}.", "green")


def _of_file(plan: Plan) -> str:
    """Where the profile stands, unless it is in this folder: rows name it by its file's name alone."""
    shown = display_path(Path(plan.env_file)) if plan.env_file else ""
    return f" of {clean(shown)}" if "/" in shown else ""


def _missing_inputs(plan: Plan) -> Iterator[str]:
    for artifact in plan.consumes:
        if artifact.ready is False and artifact.required and not artifact.make:
            yield f"input '{artifact.name}' is missing: {artifact.path}"


def _root(package: Package) -> str:
    shown = display_path(Path(package.root or "."))
    return "this folder" if shown == "." else clean(shown)


def _cloned(mount: AutoMount) -> str:
    return f"sent into {mount.there} of the job's directory" if mount.there else f"cloned into {mount.path}"


def _code(package: Package) -> str:
    """What the package is made of, how much it is, and its digest."""
    if package.problems and not package.files:
        return f"{package.kind}, not known yet: see before submission"
    base = f" commit {package.commit[:12]}" if package.kind == "git" and package.commit else ""
    changed = " and changes" if package.included else ""
    digest = f"{package.digest_kind} {package.digest[:12]}" if package.digest else "digest when it is packed"
    return f"{package.kind}{base}{changed}, {count(package.files, 'file')}, {size(package.bytes)}, {digest}"

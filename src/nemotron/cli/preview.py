"""The dry run: the plan with the source of every value, what would travel, what it may cost, and the exact scripts."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nemo_runspec.artifacts.store import newest_inputs
from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import Rendering
from nemo_runspec.packaging.messages import left_behind, problem_lines, sent_uncommitted
from nemo_runspec.planning import kept
from nemo_runspec.planning.codec import plan_to_dict
from nemo_runspec.planning.limits import cost_of, gpu_hours
from nemo_runspec.plans.model import Artifact, AutoMount, Package, Plan
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import Layer, Source
from nemo_runspec.text import clean, count, size
from nemotron.cli.text import paint, table

if TYPE_CHECKING:
    from nemo_runspec.sweeps.remote import Batch
    from nemo_runspec.sweeps.search import Search

_WIDE = 34
_ARRAYS = 3
"""Job arrays of a sweep whose batch scripts are shown."""
_NOT_CHOICES = frozenset({"warnings", "unfilled"})
_EMPTY: tuple[Any, ...] = (None, "", False, 0, (), [], {})


def print_preview(plan: Plan, *, as_json: bool, resolved: Rendering | None = None, saved_to: str | None = None) -> None:
    """Prints one plan and what it would send. Nothing else happens.

    Args:
        saved_to: the file that the caller writes the plan to.
        resolved: what would be sent, as far as its platform has been asked for what only it knows.
    """
    rendering = resolved or get_backend(plan.executor).make_rendering(plan)
    if as_json:
        print(json.dumps(_as_json(plan, rendering), indent=2, ensure_ascii=False))
        return
    sections = [
        _title(plan),
        _run(plan),
        _chosen(plan),
        _config(plan),
        _environment(plan),
        _artifacts(plan),
        _build(plan),
    ]
    sections += [_travel(plan), _cost(plan), _warnings(plan), _scripts(plan, rendering)]
    sections.append([_nothing(plan, saved_to)])
    print("\n\n".join("\n".join(lines) for lines in sections if lines))


def print_sweep(plans: list[Plan], *, as_json: bool) -> None:
    """Prints the plans of a sweep, one line each; as JSON all of them whole, with their scripts."""
    arrays = _arrays(plans)
    if as_json:
        together = {i: file for batch, files in arrays for i, file in zip(batch.members, files, strict=True)}
        whole = [
            _as_json(plan, together.get(i) or get_backend(plan.executor).make_rendering(plan))
            for i, plan in enumerate(plans)
        ]
        print(json.dumps(whole, indent=2, ensure_ascii=False))
        return
    print(paint(f"{count(len(plans), 'run')}", "bold"))
    print("\n".join(table([str(i), plan.name, clean("  ".join(plan.overrides))] for i, plan in enumerate(plans))))
    total = [gpu_hours(plan) for plan in plans]
    if all(cost is not None for cost in total):
        print(f"\nat most {sum(c or 0.0 for c in total):,.1f} GPU-hours together")
    for batch, files in arrays[:_ARRAYS]:
        runs = f"{count(len(batch.members), 'run')}, the first of them {plans[batch.members[0]].name}"
        script = next(file for file in files[0].files if file.name in files[0].command[-1])
        print(paint(f"\n--- one job array of {runs}: {script.name} ---", "cyan"))
        print(_coloured(script.text.rstrip("\n"), plans[batch.members[0]]))
    if len(arrays) > _ARRAYS:
        print(f"\nand {count(len(arrays) - _ARRAYS, 'more job array')}")
    print(f"\nThe first run, whole: leave -m out and give its overrides. {_nothing(plans[0])}")


def _arrays(plans: list[Plan]) -> list[tuple[Batch, Sequence[Rendering]]]:
    """The runs that a platform takes together, with what would be sent for each."""
    if not get_backend(plans[0].executor).remote:
        return []
    from nemo_runspec.sweeps.model import new_group
    from nemo_runspec.sweeps.remote import renderings_of

    return renderings_of(new_group(plans[0].recipe.path), plans)


def print_search(search: Search, example: Plan, *, as_json: bool) -> None:
    """Prints what a sweeper of Hydra's would be asked, and one plan of those it may lead to."""
    if as_json:
        rendering = get_backend(example.executor).make_rendering(example)
        asked = {"sweeper": search.name, "settings": search.settings, "space": search.space}
        print(json.dumps({**asked, "example": _as_json(example, rendering)}, indent=2, ensure_ascii=False))
        return
    runs = count(search.trials, "run") if search.trials is not None else "Runs"
    print(paint(f"{runs} of {example.recipe.path}, chosen by {search.name}", "bold"))
    print("It chooses the values of a run when those before it have ended, so that only their range is known now:")
    print("\n".join(table((key, clean(value)) for key, value in search.space.items())))
    fixed = ", ".join(clean(text) for text in example.overrides[: len(search.fixed)])
    print(f"the same in all runs: {fixed or 'nothing'}")
    settings = {key: value for key, value in search.settings.items() if value is not None and key != "params"}
    print(paint("settings", "bold"))
    print("\n".join(table((key, _setting(value)) for key, value in settings.items())))
    print(f"\nOne run, whole: leave -m and hydra… out and give values: {clean(shlex.join(example.overrides))}")
    print(_nothing(example))


def _setting(value: Any) -> str:
    """A sweeper's setting; of what is made from a class, such as Optuna's sampler, the class."""
    made_from = value.get("_target_") if isinstance(value, dict) else None
    return clean(str(made_from)) if made_from else _text(value)


def _as_json(plan: Plan, rendering: Rendering | None) -> dict[str, Any]:
    return {
        "plan": plan_to_dict(plan),
        "gpu_hours": gpu_hours(plan),
        "rendering": asdict(rendering) if rendering else None,
    }


def _title(plan: Plan) -> list[str]:
    config = f", config {plan.config_name}" if plan.config_name else ""
    where = f"profile {plan.profile}" if plan.profile else "this machine"
    return [
        paint(f"{plan.recipe.path}{config} on {where} ({plan.executor}, {plan.mode})", "bold"),
        f"job {plan.name} in {plan.job_dir}",
    ]


def _run(plan: Plan) -> list[str]:
    rows = [(k, v, s) for k, v, s in _values(plan.run, "run.", plan.sources) if not _unset(v, s)]
    return [paint("run", "bold"), *_aligned((k.removeprefix("run."), v, s) for k, v, s in rows)]


def _chosen(plan: Plan) -> list[str]:
    """What the backend made of the run section: the partition for this mode, the image, the mounts."""
    found = {k: v for k, v in asdict(plan.target).items() if k not in _NOT_CHOICES and v not in _EMPTY}
    return (
        [paint(f"chosen for {plan.executor}", "bold"), *_aligned((k, v, "") for k, v in found.items())] if found else []
    )


def _config(plan: Plan) -> list[str]:
    if not plan.config:
        return []
    return [paint("config", "bold"), *_aligned(_values(plan.config, "", plan.sources))]


def _environment(plan: Plan) -> list[str]:
    rows = [(v.name, v.value, v.source) for v in plan.env]
    rows += [(s.name, "(secret)", f"{s.origin}: {s.detail}" if s.detail else s.origin) for s in plan.secrets]
    return [paint("environment", "bold"), *_aligned(rows)]


def _artifacts(plan: Plan) -> list[str]:
    newest = newest_inputs(plan)
    rows = [(f"reads {a.name}", a.path or "not named", _input_state(plan, a, a.name in newest)) for a in plan.consumes]
    rows += [(f"writes {a.name}", a.path or "below the output directory", a.type) for a in plan.produces]
    return [paint("inputs and outputs", "bold"), *_aligned(rows)] if rows else []


def _build(plan: Plan) -> list[str]:
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


def _input_state(plan: Plan, artifact: Artifact, newest: bool) -> str:
    """Whether an input is there, and what is done about one that is not. Nothing is asked of another machine here."""
    backend = get_backend(plan.executor)
    maker = artifact.recipe if artifact.make else None
    which = "the newest version when it starts; " if newest else ""
    if artifact.ready is not None:
        made = f"missing: {maker} would run first" if maker else "missing"
        return f"{which}there" if artifact.ready else made
    if maker is None or not backend.remote:
        return f"{which}looked for when it is submitted, where that can be asked"
    wait = "this job waits for it (--dependency=afterok:ID)" if backend.after else "this job is submitted after it"
    return f"{which}looked for when it is submitted; if it is missing, {maker} runs first, and {wait}"


def _travel(plan: Plan) -> list[str]:
    bundle, package = plan.bundle, plan.package
    lines = [paint("what travels", "bold")]
    lines.append(
        f"  bundle   {count(len(bundle.files), 'file')}, {size(bundle.bytes)}, sha256 {bundle.digest[:12]}"
        f"  ({plan.launch.script})"
    )
    if package.kind == "none":
        lines.append("  code     none: no repository is packaged")
    else:
        lines.append(f"  code     {_code(package)}  ({package.root})")
    said = dict.fromkeys((*sent_uncommitted(package), *left_behind(package)))
    lines += [paint(f"  {clean(line)}", "yellow") for line in said]
    lines += [f"  mount    {m.target}: {m.url} at {m.commit or m.ref}, {_cloned(m)}" for m in plan.auto_mounts]
    return lines


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


def _cost(plan: Plan) -> list[str]:
    resources, cost = plan.resources, cost_of(plan)
    gpus = "GPUs unknown" if cost.gpus is None else count(cost.gpus, "GPU")
    shape = f"{count(resources.nodes, 'node')}, {gpus} in all, {resources.nproc_per_node} processes per node"
    runs = f", {cost.runs} runs" if cost.runs > 1 else ""
    limit = f", {resources.time}" if resources.time else ""
    total = "no limit" if cost.gpu_hours is None else f"at most {cost.gpu_hours:,.1f} GPU-hours"
    return [paint("cost", "bold"), f"  {shape}{runs}{limit}: {total}"]


def _warnings(plan: Plan) -> list[str]:
    said = left_behind(plan.package)
    lines = [line for line in plan.warnings if line not in said]
    open_lines = (*plan.unfilled, *problem_lines(plan.package), *kept.problem_lines(plan))
    lines += [f"before submission: {line}" for line in open_lines]
    return [paint("warnings", "bold"), *(paint(f"  {clean(line)}", "yellow") for line in lines)] if lines else []


def _scripts(plan: Plan, rendering: Rendering | None) -> list[str]:
    if rendering is None:
        return [
            f"The exact payload for '{plan.executor}' is not shown: its renderer is not built in this release.",
        ]
    lines: list[str] = []
    for file in rendering.files:
        lines += [paint(f"--- {file.title}: {file.name} ---", "cyan"), _coloured(file.text.rstrip("\n"), plan), ""]
    lines.append(paint("--- started with ---", "cyan"))
    lines.append(shlex.join(rendering.command))
    if rendering.holes:
        lines += ["", "known only on the platform:", *(f"  {hole}" for hole in rendering.holes)]
    return lines


def _nothing(plan: Plan, saved_to: str | None = None) -> str:
    verb = "submitted" if get_backend(plan.executor).remote else "run"
    written = f"the plan goes to {clean(saved_to)}," if saved_to else "nothing was written"
    return paint(f"Dry run: {written} and nothing was {verb}.", "green")


def _values(
    tree: Mapping[str, Any], prefix: str, sources: Mapping[str, Source]
) -> list[tuple[str, Any, Source | None]]:
    return [(path, value, sources.get(path)) for path, value in flatten(tree, prefix).items()]


def _unset(value: Any, source: Source | None) -> bool:
    return value in _EMPTY and (source is None or source.layer in (Layer.DEFAULT, Layer.AUTO))


def _aligned(rows: Iterable[tuple[str, Any, Source | str | None]]) -> list[str]:
    texts = [(k, _text(v), s.label() if isinstance(s, Source) else s or "") for k, v, s in rows]
    keys = max((len(k) for k, _, _ in texts), default=0)
    values = max((len(v) for _, v, _ in texts if len(v) <= _WIDE), default=0)
    return [f"  {k.ljust(keys)} = {v.ljust(values)}  {paint(s, 'dim')}".rstrip() for k, v, s in texts]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return clean(value) if value and value == value.strip() else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def _coloured(script: str, plan: Plan) -> str:
    from nemotron.cli.text import colour_wanted

    if not colour_wanted(sys.stdout):
        return script
    from nemotron.cli.highlight import highlight_bash

    return highlight_bash(script)

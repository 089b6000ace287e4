"""The dry run: the plan with the source of every value, what would travel, what it may cost, and the exact scripts."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import Rendering
from nemo_runspec.planning.codec import plan_to_dict
from nemo_runspec.planning.limits import cost_of, gpu_hours
from nemo_runspec.planning.model import Plan
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import Layer, Source
from nemotron.cli.text import clean, count, paint, size, table

_NAMES_SHOWN = 8
_WIDE = 34
_NOT_CHOICES = frozenset({"warnings", "unfilled"})
_EMPTY: tuple[Any, ...] = (None, "", False, 0, (), [], {})


def print_preview(plan: Plan, *, as_json: bool) -> None:
    """Prints one plan and what it would send. Nothing else happens."""
    rendering = get_backend(plan.executor).make_rendering(plan)
    if as_json:
        print(json.dumps(_as_json(plan, rendering), indent=2, ensure_ascii=False))
        return
    sections = [_title(plan), _run(plan), _chosen(plan), _config(plan), _environment(plan), _artifacts(plan)]
    sections += [_travel(plan), _cost(plan), _warnings(plan), _scripts(plan, rendering)]
    print("\n\n".join("\n".join(lines) for lines in sections if lines))


def print_sweep(plans: list[Plan], *, as_json: bool) -> None:
    """Prints the plans of a sweep, one line each; as JSON all of them whole, with their scripts."""
    if as_json:
        whole = [_as_json(plan, get_backend(plan.executor).make_rendering(plan)) for plan in plans]
        print(json.dumps(whole, indent=2, ensure_ascii=False))
        return
    print(paint(f"{count(len(plans), 'run')}", "bold"))
    print("\n".join(table([str(i), plan.name, clean("  ".join(plan.overrides))] for i, plan in enumerate(plans))))
    total = [gpu_hours(plan) for plan in plans]
    if all(cost is not None for cost in total):
        print(f"\nat most {sum(c or 0.0 for c in total):,.1f} GPU-hours together")
    print(f"\nThe first run, whole: leave -m out and give its overrides. {_nothing(plans[0])}")


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
    words = {True: "there", False: "missing", None: "read on the job's machine"}
    rows = []
    for artifact in plan.consumes:
        state = words[artifact.ready]
        if artifact.ready is False and artifact.make:
            state = f"missing: {artifact.recipe} would run first"
        rows.append((f"reads {artifact.name}", artifact.path or "not named", state))
    rows += [(f"writes {a.name}", a.path or "below the output directory", a.type) for a in plan.produces]
    return [paint("inputs and outputs", "bold"), *_aligned(rows)] if rows else []


def _travel(plan: Plan) -> list[str]:
    bundle, package = plan.bundle, plan.package
    lines = [paint("what travels", "bold")]
    lines.append(
        f"  bundle   {count(len(bundle.files), 'file')}, {size(bundle.bytes)}, sha256 {bundle.digest[:12]}"
        f"  ({plan.launch.script})"
    )
    if package.kind == "none":
        lines.append("  code     none: no repository is packaged")
        return lines
    if package.kind != "git":
        digest = f"sha256 {package.digest[:12]}" if package.digest else "digest when it is packed"
        contents = f"{count(package.files, 'file')}, {size(package.bytes)}, {digest}"
        lines.append(f"  code     {package.kind}, {contents}  ({package.root})")
        return lines + _stays("uncommitted", package.uncommitted) + _stays("untracked", package.untracked)
    commit = (package.commit or "")[:12]
    lines.append(
        f"  code     git commit {commit}, {count(package.files, 'file')}, {size(package.bytes)},"
        f" tree {package.digest[:12]}  ({package.root})"
    )
    lines += _stays("uncommitted", package.uncommitted) + _stays("untracked", package.untracked)
    return lines


def _stays(kind: str, names: tuple[str, ...]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(clean(name) for name in names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return [paint(f"  NOT sent: {count(len(names), f'{kind} file')}: {shown}{more}", "yellow")]


def _cost(plan: Plan) -> list[str]:
    resources, cost = plan.resources, cost_of(plan)
    gpus = "GPUs unknown" if cost.gpus is None else count(cost.gpus, "GPU")
    shape = f"{count(resources.nodes, 'node')}, {gpus} in all, {resources.nproc_per_node} processes per node"
    runs = f", {cost.runs} runs" if cost.runs > 1 else ""
    limit = f", {resources.time}" if resources.time else ""
    total = "no limit" if cost.gpu_hours is None else f"at most {cost.gpu_hours:,.1f} GPU-hours"
    return [paint("cost", "bold"), f"  {shape}{runs}{limit}: {total}"]


def _warnings(plan: Plan) -> list[str]:
    lines = [*plan.warnings, *(f"before submission: {line}" for line in plan.unfilled)]
    return [paint("warnings", "bold"), *(paint(f"  {clean(line)}", "yellow") for line in lines)] if lines else []


def _scripts(plan: Plan, rendering: Rendering | None) -> list[str]:
    if rendering is None:
        return [
            f"The exact payload for '{plan.executor}' is not shown: its renderer is not built in this release.",
            _nothing(plan),
        ]
    lines: list[str] = []
    for file in rendering.files:
        lines += [paint(f"--- {file.title}: {file.name} ---", "cyan"), _coloured(file.text.rstrip("\n"), plan), ""]
    lines.append(paint("--- started with ---", "cyan"))
    lines.append(shlex.join(rendering.command))
    if rendering.holes:
        lines += ["", "known only on the platform:", *(f"  {hole}" for hole in rendering.holes)]
    return [*lines, "", _nothing(plan)]


def _nothing(plan: Plan) -> str:
    verb = "submitted" if get_backend(plan.executor).remote else "run"
    return paint(f"Dry run: nothing was written and nothing was {verb}.", "green")


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

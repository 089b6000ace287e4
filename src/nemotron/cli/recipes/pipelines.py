"""`nemotron pipe` once its words are read: shown, or run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.catalog import Recipe, check_obeyed
from nemo_runspec.errors import UserError
from nemo_runspec.pipelines.earlier import earlier_runs
from nemo_runspec.pipelines.file import WrittenPipeline, WrittenStage, read_pipeline
from nemo_runspec.pipelines.lead import is_platform_ordered, run_pipeline
from nemo_runspec.pipelines.plans import PipelineRequest, PlannedStage, new_run_name, plan_stages, sent_plan
from nemo_runspec.pipelines.wiring import make_pipeline, until
from nemo_runspec.planning.config_choice import choose_yaml
from nemo_runspec.planning.given import given_variables
from nemo_runspec.planning.limits import cost_of
from nemo_runspec.plans.wandb import in_group
from nemo_runspec.text import clean, count
from nemotron.cli.arguments import is_override
from nemotron.cli.dry_run.facts import at_most
from nemotron.cli.options import Invocation
from nemotron.cli.text import paint, table


def pipe(words: Sequence[str], invocation: Invocation, start: str | None, end: str | None) -> int:
    """Runs or shows the pipeline of a file or of steps; the exit code.

    Args:
        words: a file or steps, then overrides.
        start: the step from which on all is run again.
        end: the last one.

    Raises:
        UserError: a mistake; nothing was run then.
    """
    return run_written(_written(words, invocation), invocation, start, end)


def pipe_recipe(recipe: Recipe, invocation: Invocation, start: str | None, end: str | None) -> int:
    """The same for a recipe of kind `pipe`, one of whose configs is the pipeline.

    Raises:
        UserError: as `pipe`; the recipe has no such config.
    """
    check_obeyed(recipe)
    choice = choose_yaml(recipe, invocation.config)
    if choice is None:
        raise UserError(f"{recipe.path} has no configs: which steps?", where=str(recipe.config_dir))
    written = read_pipeline(str(choice.file))
    return run_written(replace(written, typed=invocation.overrides), invocation, start, end)


def run_written(written: WrittenPipeline, invocation: Invocation, start: str | None, end: str | None) -> int:
    """Runs or shows what was asked for; as `pipe`."""
    request = PipelineRequest(
        until(make_pipeline(written, invocation.profile), end),
        mode=invocation.mode,
        labels=invocation.labels,
        variables=given_variables(invocation.env, invocation.env_file),
        start=start,
        over_ceiling=invocation.yes,
    )
    if invocation.dry_run:
        return _preview(request, invocation)
    from nemotron.cli.as_json import run_sweep

    return run_sweep(lambda caller: run_pipeline(request, caller), as_json=invocation.json)


def _written(words: Sequence[str], invocation: Invocation) -> WrittenPipeline:
    """The pipeline as it was asked for."""
    names = [word for word in words if not is_override(word)]
    given = [word for word in words if is_override(word)]
    is_file = len(names) == 1 and names[0].endswith((".yaml", ".yml"))
    written = read_pipeline(names[0]) if is_file else _of_steps(names)
    if invocation.config:
        written = replace(written, config=invocation.config)
    return replace(written, typed=tuple(given))


def _of_steps(names: Sequence[str]) -> WrittenPipeline:
    if not names:
        raise UserError("which steps?", remedy="nemotron pipe STEP STEP …; they are listed by: nemotron steps list")
    pairs = [name.partition("@")[::2] for name in names]
    nameless = next((name for name, (step, _) in zip(names, pairs, strict=True) if not step.strip("/")), None)
    if nameless is not None:
        raise UserError(f"'{nameless}' names no step: which step?", remedy="STEP, or STEP@CONFIG")
    stages = tuple(WrittenStage(step, config=config or None) for step, config in pairs)
    return WrittenPipeline("-".join(_short(step) for step, _ in pairs), stages)


def _short(step: str) -> str:
    return step.strip("/").replace("/", "-").replace("_", "-")


def _preview(request: PipelineRequest, invocation: Invocation) -> int:
    stages = _as_sent(request, plan_stages(request, earlier_runs(request.pipeline.name, ask=False), ask=False))
    if invocation.json:
        print(json.dumps(_as_json(request, stages), indent=2, ensure_ascii=False))
        return 0
    print("\n".join(_lines(request, stages)))
    if invocation.full:
        from nemotron.cli.dry_run.show import show_plan
        from nemotron.cli.views import View

        for stage in stages:
            print(f"\n{paint(stage.stage.id, 'bold')}")
            show_plan(stage.planned.plan, View.FULL)
    return 0


def _as_sent(request: PipelineRequest, stages: Sequence[PlannedStage]) -> list[PlannedStage]:
    """The stages as members of a run: with its name, and with those that their platform starts them after."""
    to_run = {place: stage for place, stage in enumerate(stages) if stage.reused is None}
    group, ordered = new_run_name(request), _is_ordered([*to_run.values()] or stages)
    ids = {place: f"<{stage.stage.id}>" for place, stage in to_run.items()} if ordered else {}
    plans = [sent_plan(stage, ids) if stage.reused is None else stage.planned.plan for stage in stages]
    return [
        replace(stage, planned=replace(stage.planned, plan=in_group(plan, group)))
        for stage, plan in zip(stages, plans, strict=True)
    ]


def _lines(request: PipelineRequest, stages: Sequence[PlannedStage]) -> list[str]:
    to_run = [stage for stage in stages if stage.reused is None]
    lines = [paint(f"{request.pipeline.name}: {count(len(stages), 'step')}, {len(to_run)} to run", "bold")]
    for number, stage in enumerate(stages):
        plan = stage.planned.plan
        shape = f"{plan.resources.nodes} × {plan.resources.gpus_per_node} GPUs"
        where = f"{plan.profile or 'this machine'} ({plan.executor})"
        config = f"-c {plan.config_name}" if plan.config_name else ""
        lines += ["", paint(f"{number}  {stage.stage.id}", "bold") + f"  {config}"]
        rows = [("runs", f"no: {stage.why}" if stage.reused else f"yes: {stage.why}"), ("where", f"{where}, {shape}")]
        rows += [("reads", text) for text in _reads(stage, stages)]
        rows += [("makes", f"{a.name}: {a.path or 'nothing that is kept'}") for a in plan.produces]
        rows += [("warning", clean(line)) for line in plan.warnings]
        rows += [("missing", clean(line)) for line in plan.unfilled]
        lines += table(rows, indent="   ")
    if not to_run:
        return [*lines, "", "nothing would be done"]
    how = "by the platform: this machine may be switched off" if _is_ordered(to_run) else "by a process of this machine"
    lines += ["", f"one after another, {how}", f"together: {at_most([cost_of(s.planned.plan) for s in to_run])}"]
    return [*lines, "each whole: --full; nothing was submitted"]


def _is_ordered(stages: Sequence[PlannedStage]) -> bool:
    return is_platform_ordered([stage.planned.plan for stage in stages])


def _reads(stage: PlannedStage, stages: Sequence[PlannedStage]) -> list[str]:
    makers = {handover.input: handover for handover in stage.handovers}
    found = []
    for artifact in stage.planned.plan.consumes:
        handover = makers.get(artifact.name)
        if handover:
            found.append(f"{artifact.name}: {stages[handover.maker].stage.id}.{handover.output}")
        elif artifact.path:
            found.append(f"{artifact.name}: {artifact.path}")
        elif artifact.required:
            found.append(f"{artifact.name}: none is named")
    return found


def _as_json(request: PipelineRequest, stages: Sequence[PlannedStage]) -> dict[str, Any]:
    from nemotron.cli.dry_run.show import as_json

    return {
        "pipeline": request.pipeline.name,
        "steps": [
            {
                "step": stage.stage.id,
                "reused": stage.reused.job if stage.reused else None,
                "why": stage.why,
                "inputs": {h.input: f"{stages[h.maker].stage.id}.{h.output}" for h in stage.handovers},
                **as_json(plan, get_backend(plan.executor).make_rendering(plan)),
            }
            for stage, plan in ((stage, stage.planned.plan) for stage in stages)
        ],
    }

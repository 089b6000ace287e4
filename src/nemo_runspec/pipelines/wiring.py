"""Stages joined: each input to the nearest stage before it that makes what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from nemo_runspec.artifacts.graph import Graph, step_of
from nemo_runspec.artifacts.types import Types
from nemo_runspec.catalog import find_recipe, find_recipes, has_recipe
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.pipelines.file import WrittenPipeline, WrittenStage
from nemo_runspec.pipelines.model import Handover, Pipeline, Stage
from nemo_runspec.runspec import ArtifactSpec
from nemo_runspec.runspec_keys import PIPE
from nemo_runspec.source import COMMAND_LINE
from nemo_runspec.steps import find_step, step_id


def make_pipeline(written: WrittenPipeline, profile: str | None = None) -> Pipeline:
    """The pipeline that was asked for.

    Args:
        profile: of the command line; stronger than the file's own for all, weaker than a single step's.

    Raises:
        UserError: an unknown step, a name given twice, an input that nobody makes, a step that has nothing to do with
            the others.
    """
    stages: list[Stage] = []
    for each in written.stages:
        stages.append(_stage(each, written, profile, [stage.id for stage in stages]))
    stages = _with_typed(stages, written.typed)
    types = Types.load()
    handovers = [_handovers(stage, stages[:index], types) for index, stage in enumerate(stages)]
    read = {handover.maker for each in handovers for handover in each}
    for index, stage in enumerate(stages):
        if index and not handovers[index] and index not in read:
            raise _stranger(stage, stages[index - 1])
    return Pipeline(written.name, tuple(stages), tuple(handovers))


def until(pipeline: Pipeline, end: str | None) -> Pipeline:
    """The pipeline up to a stage, itself included; None for all of it.

    Raises:
        UserError: it names no stage, or several.
    """
    if end is None:
        return pipeline
    last = stage_at(end, [stage.id for stage in pipeline.stages], f"--to {end}:") + 1
    return replace(pipeline, stages=pipeline.stages[:last], handovers=pipeline.handovers[:last])


def _stage(written: WrittenStage, pipeline: WrittenPipeline, profile: str | None, taken: Sequence[str]) -> Stage:
    try:
        if not written.step.strip(" /."):
            raise UserError(f"'{written.step}' names no step", remedy="all of them: nemotron steps list")
        recipe = find_recipe(written.step) if has_recipe(written.step) else find_step(written.step)
        if recipe.spec.kind == PIPE:
            raise UserError(f"{recipe.path} is a pipe itself", remedy="name the steps that it has")
    except UserError as error:
        raise error.at(written.where) from None
    ident = written.id or _free(step_id(recipe), taken)
    if ident in taken:
        raise UserError(f"two steps are called '{ident}'", where=written.where, remedy="id: another name")
    return Stage(
        id=ident,
        recipe=recipe,
        config=written.config or pipeline.config,
        profile=written.profile or profile or pipeline.profile,
        overrides=(*pipeline.overrides, *written.overrides),
        own=written.overrides,
        places={**pipeline.places, **written.places},
        inputs=dict(written.inputs),
        where=written.where,
    )


def _with_typed(stages: Sequence[Stage], typed: Sequence[str]) -> list[Stage]:
    """The stages with the overrides of the command line, which come after a file's: for all, then for one."""
    placed = [_placed(text, [stage.id for stage in stages]) for text in typed]
    for_all = tuple(text for place, text in placed if place is None)
    made = []
    for number, stage in enumerate(stages):
        own = tuple(text for place, text in placed if place == number)
        made.append(replace(stage, overrides=(*stage.overrides, *for_all, *own), own=(*stage.own, *own)))
    return made


def _placed(text: str, idents: Sequence[str]) -> tuple[int | None, str]:
    """The place of the step that an override is for, and the override; None for all of them."""
    step, colon, _ = text.partition("=")[0].rpartition(":")
    if not colon:
        return None, text
    return stage_at(step, idents, f"'{step}' is", COMMAND_LINE), text[len(step) + 1 :]


def stage_at(name: str, idents: Sequence[str], said: str, where: str | None = None) -> int:
    """The place of the stage that a name means: the whole of what it is called, or its last parts.

    Raises:
        UserError: none or several, which begins with what is `said`.
    """
    found = [ident for ident in idents if ident == name] or [each for each in idents if each.endswith(f"/{name}")]
    if len(found) != 1:
        remedy = did_you_mean(name, idents) or f"its steps: {', '.join(idents)}"
        what = f"{said} {'more than one' if found else 'no'} step of this pipeline"
        raise UserError(what, where=where, remedy=remedy)
    return idents.index(found[0])


def _free(ident: str, taken: Sequence[str]) -> str:
    """A step that runs again is called `sft/automodel-2`."""
    number = 1
    while (name := ident if number == 1 else f"{ident}-{number}") in taken:
        number += 1
    return name


def _handovers(stage: Stage, before: Sequence[Stage], types: Types) -> tuple[Handover, ...]:
    consumes = {item.name: item for item in stage.recipe.spec.consumes}
    unknown = next((name for name in stage.inputs if name not in consumes), None)
    if unknown is not None:
        remedy = did_you_mean(unknown, consumes) or f"its inputs: {', '.join(consumes) or 'none'}"
        raise UserError(f"{stage.id} has no input '{unknown}'", where=stage.where, remedy=remedy)
    found = []
    for item in consumes.values():
        named = stage.inputs.get(item.name)
        if named and (said := _said(stage, item)):
            raise UserError(f"{stage.id} takes '{item.name}' from '{named}', and {said} says where it is",
                            where=stage.where, remedy="leave one of them out")  # fmt: skip
        handover = _written(stage, item, named, before, types) if named else _nearest(stage, item, before, types)
        found += [handover] if handover else []
    return tuple(found)


def _nearest(stage: Stage, item: ArtifactSpec, before: Sequence[Stage], types: Types) -> Handover | None:
    """What the nearest earlier stage makes that fits; None where the user has said where the input is."""
    if _said(stage, item):
        return None
    for maker in reversed(range(len(before))):
        output = _output(before[maker], item, types)
        if output:
            return Handover(item.name, maker, output)
    return None


def _said(stage: Stage, item: ArtifactSpec) -> str | None:
    """The override, of this stage alone, that says where an input is."""
    begins = (f"run.{item.name}=", f"run.{item.name}.")
    return next((text for text in stage.own if text.lstrip("+").startswith(begins)), None)


def _output(maker: Stage, item: ArtifactSpec, types: Types) -> str | None:
    """The output that fits best: the input's own type before one that is of it, a required one before an optional."""
    fitting = [made for made in maker.recipe.spec.produces if types.accepts(item.type, made.type)]
    fitting.sort(key=lambda made: (made.type != item.type, not made.required))
    return fitting[0].name if fitting else None


def _written(stage: Stage, item: ArtifactSpec, named: str, before: Sequence[Stage], types: Types) -> Handover:
    """What a file says an input is taken from: `STAGE.OUTPUT`, or `STAGE` alone."""
    known = {each.id: index for index, each in enumerate(before)}
    ident, output = (named, "") if named in known else named.rpartition(".")[::2]
    if ident not in known:
        remedy = did_you_mean(ident or named, known) or f"steps before it: {', '.join(known) or 'none'}"
        raise UserError(f"{stage.id} takes '{item.name}' from '{named}', which is no step before it",
                        where=stage.where, remedy=remedy)  # fmt: skip
    maker = before[known[ident]]
    made = {each.name: each.type for each in maker.recipe.spec.produces}
    output = output or _output(maker, item, types) or next(iter(made), "")
    if output not in made:
        remedy = did_you_mean(output, made) or f"its outputs: {', '.join(made) or 'none'}"
        raise UserError(f"{ident} makes no '{output}'", where=stage.where, remedy=remedy)
    if not types.accepts(item.type, made[output]):
        what = f"{stage.id} takes {item.type} as '{item.name}', and {ident}.{output} is {made[output]}"
        raise UserError(what, where=stage.where, remedy=_between([made[output]], [item.type]))
    return Handover(item.name, known[ident], output)


def _stranger(stage: Stage, last: Stage) -> UserError:
    """A stage that reads nothing of those before it, and that none reads: a chain with a gap."""
    said = next((found for item in stage.recipe.spec.consumes if (found := _said(stage, item))), None)
    if said:
        return UserError(f"{stage.id} takes nothing that a step before it makes: {said} says where its input is",
                         where=stage.where, remedy="leave that out, or run the step by itself")  # fmt: skip
    made = [each.type for each in last.recipe.spec.produces]
    wanted = [each.type for each in stage.recipe.spec.consumes]
    what = f"{stage.id} takes nothing that a step before it makes"
    detail = f"{last.id} makes {', '.join(made) or 'nothing'}; {stage.id} takes {', '.join(wanted) or 'nothing'}"
    return UserError(f"{what}: {detail}", where=stage.where, remedy=_between(made, wanted))


def _between(made: Sequence[str], wanted: Sequence[str]) -> str:
    """The steps that lead from what there is to what is wanted."""
    graph = Graph((step_of(each) for each in find_recipes() if each.is_step and each.problem() is None), Types.load())
    for have, want in product(made, wanted):
        if graph.chain([have], want).chains:
            return f"see what leads there: nemotron steps plan --from {have} --to {want}"
    return "no step leads from one to the other: run it by itself"

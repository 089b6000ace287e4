"""The plans of a pipeline's stages, made in order: each reads the versions that those before it make.

A stage that an earlier run of the pipeline has made, from the same code, config and inputs, is not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nemo_runspec.backends import get_backend
from nemo_runspec.config.overrides import quoted
from nemo_runspec.errors import UserError
from nemo_runspec.pipelines.earlier import Earlier, EarlierStage
from nemo_runspec.pipelines.fingerprint import changed, fingerprint
from nemo_runspec.pipelines.model import Handover, Pipeline, Stage
from nemo_runspec.pipelines.wiring import stage_at
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.given import GivenVariable
from nemo_runspec.planning.names import new_name
from nemo_runspec.planning.planned import Planned, PlanRequest
from nemo_runspec.planning.request import plan_request
from nemo_runspec.plans.labels import Labels
from nemo_runspec.plans.model import Artifact, Plan
from nemo_runspec.records import JobRecord
from nemo_runspec.runner.inputs import ProvidedInputs
from nemo_runspec.source import Layer

Provide = Callable[[Plan], ProvidedInputs]
"""Makes what a plan reads from outside the pipeline, where its config says how."""


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """How a pipeline was asked to be run.

    Args:
        labels: of every job.
        variables: given with the call.
        start: the stage from which on everything is run again; None for the first that changed.
        over_ceiling: whether it may use more GPU-hours than a profile allows.
    """

    pipeline: Pipeline
    mode: str = "run"
    labels: Labels = field(default_factory=Labels)
    variables: tuple[GivenVariable, ...] = ()
    start: str | None = None
    over_ceiling: bool = False


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """One stage, ready to be run or left out.

    Args:
        handovers: what it takes from earlier stages.
        why: why it is run, or that it is not.
        reused: the job that has made the same before; None where it is run.
        needs: jobs that make what it reads from outside, and that its platform is told of.
    """

    stage: Stage
    planned: Planned
    handovers: tuple[Handover, ...]
    fingerprint: Mapping[str, str]
    why: str
    reused: EarlierStage | None = None
    needs: tuple[JobRecord, ...] = ()

    @property
    def job(self) -> str:
        """The job that makes what later stages read."""
        return self.reused.job if self.reused else self.planned.plan.name


def new_run_name(request: PipelineRequest) -> str:
    """What a run is called."""
    return new_name(f"pipe-{request.labels.name or request.pipeline.name}")


def plan_stages(
    request: PipelineRequest, earlier: Earlier, *, provide: Provide | None = None, ask: bool = True
) -> list[PlannedStage]:
    """The stages' plans, in order.

    Args:
        earlier: what runs of this pipeline have made before.
        provide: makes inputs from outside; None for a preview.
        ask: whether a platform may be asked if what an earlier run has made is still there.

    Raises:
        UserError: a plan that cannot be made; stages that do not see each other's artifacts; a stage that runs now.
    """
    pipeline = request.pipeline
    idents = [stage.id for stage in pipeline.stages]
    start = None if request.start is None else stage_at(request.start, idents, f"--from {request.start}:")
    found: list[PlannedStage] = []
    for index, stage in enumerate(pipeline.stages):
        try:
            found.append(_stage(request, stage, pipeline.handovers[index], found, earlier, provide, ask=ask,
                                read=pipeline.read_of(index), again=start is not None and index >= start))  # fmt: skip
        except UserError as error:
            raise _of(stage, error) from None
    return found


def sent_plan(stage: PlannedStage, ids: Mapping[int, str]) -> Plan:
    """The plan of a stage as a platform gets it that orders jobs: it is told which ones this one comes after.

    Args:
        ids: place of an earlier stage that is run → what its job is called there; a preview's stand for that.
    """
    plan = stage.planned.plan
    makers = dict.fromkeys(handover.maker for handover in stage.handovers)
    after = [*(record.id.partition(";")[0] for record in stage.needs), *(ids[each] for each in makers if each in ids)]
    if not after:
        return plan
    return replace(plan, target=get_backend(plan.executor).target_after(plan.target, plan.run["env"], after))


def _of(stage: Stage, error: UserError) -> UserError:
    """The error with the stage it is about, at the file's line where it is one of a value that stands there."""
    told = UserError(f"{stage.id}: {error.what}", where=error.where or stage.where, remedy=error.remedy, key=error.key)
    told.exit_code = error.exit_code
    return told


def _stage(
    request: PipelineRequest,
    stage: Stage,
    handovers: tuple[Handover, ...],
    before: Sequence[PlannedStage],
    earlier: Earlier,
    provide: Provide | None,
    *,
    ask: bool,
    read: frozenset[str],
    again: bool,
) -> PlannedStage:
    own = _request(request, stage, handovers, before)
    planned = build_plan(own)
    for handover in handovers:
        _require_seen(planned.plan, before[handover.maker].planned.plan, before[handover.maker].stage.id)
    handed = {handover.input: before[handover.maker].job for handover in handovers}
    marks = fingerprint(planned.plan, handed)
    is_late = any(before[handover.maker].reused is None for handover in handovers)
    _refuse_same(earlier.same(stage.id, marks), again=again)
    known, why = (None, "--from") if again else _known(stage, marks, earlier, planned.plan, read, is_late, ask=ask)
    if known is not None or provide is None:
        return PlannedStage(stage, planned, handovers, marks, why, known)
    outside = tuple(a for a in planned.plan.consumes if a.name not in handed)
    provided = provide(replace(planned.plan, consumes=outside))
    if provided.changed:
        planned = build_plan(provided.request(own))
    return PlannedStage(stage, planned, handovers, marks, why, needs=tuple(provided.needs))


def _refuse_same(same: EarlierStage | None, *, again: bool) -> None:
    """Raises `UserError` where a job makes the same now. `again`: it is to be made again where that is not known."""
    if same is None or same.over or (again and same.state == "unknown"):
        return
    raise UserError(
        f"{same.job} makes the same now ({same.state}, in {same.group})",
        remedy=f"nemotron jobs wait {same.group}; or end it: nemotron jobs cancel {same.group}",
    )


def _known(
    stage: Stage,
    marks: Mapping[str, str],
    earlier: Earlier,
    plan: Plan,
    read: frozenset[str],
    is_late: bool,
    *,
    ask: bool,
) -> tuple[EarlierStage | None, str]:
    """What an earlier run has made of the same, and in words why it is run or not."""
    same = earlier.same(stage.id, marks)
    if same is not None and same.state == "succeeded":
        lacking = sorted(read - set(same.outputs))
        if lacking:
            return None, f"{same.job} ended well and made no '{lacking[0]}'"
        gone = _gone(plan, same) if ask else []
        return (None, f"what {same.job} made is gone: {gone[0]}") if gone else (same, f"made by {same.job}")
    last = earlier.last(stage.id)
    if last is None:
        return None, "not run before"
    parts = changed(last.fingerprint, marks)
    if parts == ["inputs"] and is_late:
        return None, "what it reads is made again"
    if parts:
        return None, f"changed: {', '.join(parts)}"
    return None, f"{last.job} ended {last.state}" if last.state != "succeeded" else "not made before"


def _gone(plan: Plan, same: EarlierStage) -> list[str]:
    paths = [path for path in same.outputs.values() if path]
    backend = get_backend(plan.executor)
    if not backend.remote:
        return [path for path in paths if path.startswith("/") and not Path(path).exists()]
    found = backend.present(plan, paths) if paths else {}
    return [path for path in paths if found.get(path) is False]


def _request(
    request: PipelineRequest, stage: Stage, handovers: Sequence[Handover], before: Sequence[PlannedStage]
) -> PlanRequest:
    overrides, versions = list[str](), dict[str, str]()
    for handover in handovers:
        maker = before[handover.maker]
        artifact = _made(maker, handover.output)
        overrides += _handed(handover, artifact)
        if artifact.artifact:
            versions[handover.input] = maker.job
    given = (*stage.overrides, *overrides)
    made = plan_request(
        stage.recipe, config=stage.config, profile=stage.profile, overrides=given, mode=request.mode,
        labels=request.labels, variables=request.variables,
    )  # fmt: skip
    return replace(made, versions=versions, places=stage.places, over_ceiling=request.over_ceiling)


def _made(maker: PlannedStage, output: str) -> Artifact:
    found = next(each for each in maker.planned.plan.produces if each.name == output)
    if not found.artifact and not found.path:
        raise UserError(
            f"{maker.stage.id} keeps its output '{output}' nowhere",
            remedy=f"name it in its config: run: {{{output}: {{artifact: NAME}}}}",
        )
    return found


def _handed(handover: Handover, artifact: Artifact) -> list[str]:
    """Overrides by which a stage reads what another one makes, whatever its config says of that input."""
    key = f"++run.{handover.input}"
    if artifact.artifact:
        return [
            f"{key}.path=null",
            f"{key}.make=null",
            f"{key}.version=null",
            quoted(f"{key}.artifact", artifact.artifact),
        ]
    return [f"{key}.make=null", quoted(f"{key}.path", str(artifact.path))]


def _require_seen(plan: Plan, maker: Plan, name: str) -> None:
    """Raises `UserError` where a stage would look for another one's artifacts in another place."""
    here, there = plan.run["artifacts"]["root"], maker.run["artifacts"]["root"]
    is_here = not get_backend(plan.executor).remote and not get_backend(maker.executor).remote
    is_named = _names_root(plan) and _names_root(maker)
    if here == there and (is_here or is_named or plan.executor == maker.executor):
        return
    also = ", which may be another folder: a default is not shared" if here == there else ""
    raise UserError(
        f"it looks for artifacts in {here} ({_place(plan)}), and {name} leaves them in {there} ({_place(maker)}){also}",
        remedy="name one folder that both see, in both profiles: run.artifacts.root=/shared/artifacts",
    )


def _names_root(plan: Plan) -> bool:
    source = plan.sources.get("run.artifacts.root")
    return source is not None and source.layer not in (Layer.DEFAULT, Layer.AUTO)


def _place(plan: Plan) -> str:
    return plan.profile or "this machine"

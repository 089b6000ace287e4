"""A pipeline run: led by a process here, or submitted whole to a platform that starts a job after another one."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from nemo_runspec import paths
from nemo_runspec.backends import get_backend
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.interrupts import Interrupts
from nemo_runspec.pipelines.earlier import earlier_runs, planned_alone
from nemo_runspec.pipelines.plans import PipelineRequest, PlannedStage, new_run_name, plan_stages, sent_plan
from nemo_runspec.planning.missing_values import refuse_unfilled
from nemo_runspec.planning.planned import Planned
from nemo_runspec.plans.model import Plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.process import this_process
from nemo_runspec.records.record import now
from nemo_runspec.redact import redact_argv
from nemo_runspec.remote.awaited_end import await_ends
from nemo_runspec.remote.cancel import stop_all
from nemo_runspec.remote.job import RemoteJob
from nemo_runspec.runner.run import provide_inputs
from nemo_runspec.supervise.sweep_run import run_member as run_here
from nemo_runspec.sweeps.console import SweepCaller
from nemo_runspec.sweeps.detached import detached_sweep
from nemo_runspec.sweeps.elsewhere import AttachedSweep, cancel_interrupted, say_next_commands
from nemo_runspec.sweeps.life import Recorded, SweepLifecycle
from nemo_runspec.sweeps.model import PIPELINE, Member, Options, Sweep
from nemo_runspec.sweeps.remote import run_member as run_elsewhere
from nemo_runspec.sweeps.run import RunContext, Runner
from nemo_runspec.sweeps.store import SweepStore

_Waiting = deque[tuple[Member, Planned]]


def run_pipeline(request: PipelineRequest, caller: SweepCaller) -> int:
    """Runs a pipeline; the exit code: 0 where every stage has succeeded, or once it is detached.

    Raises:
        UserError: a mistake in any stage, before anything is run; or it could not be submitted.
    """
    with planned_alone(request.pipeline.name, caller.console.say) as written_down:
        return _run(request, caller, written_down)


def _run(request: PipelineRequest, caller: SweepCaller, written_down: Callable[[], None]) -> int:
    """Args: `written_down`: called once others see this run."""
    stages = plan_stages(
        request, earlier_runs(request.pipeline.name), provide=lambda plan: provide_inputs(plan, caller)
    )
    for stage in stages:
        _check(stage)
    to_run = [stage for stage in stages if stage.reused is None]
    for stage in stages:
        _tell(stage, caller)
    if not to_run:
        caller.console.say(f"{request.pipeline.name}: nothing to be done; --from STEP runs it again from there")
        return 0
    sweep = _at_first(request, stages, caller)
    if is_platform_ordered([stage.planned.plan for stage in to_run]):
        return _Submitted(sweep, stages, request, caller, written_down).run()
    if caller.attached and request.mode != "batch":
        return _Led(sweep, stages, caller, lambda _: written_down()).run()

    def lead(recorded: Recorded) -> int:
        def both(known: Sweep) -> None:
            written_down()
            recorded(known)

        return _Led(sweep, stages, caller, both).run()

    return detached_sweep(lead, caller)


def is_platform_ordered(plans: Sequence[Plan]) -> bool:
    """True if one platform has all stages at once and starts each after those that it reads from."""
    backend = get_backend(plans[0].executor)
    if backend.after is None or len({(plan.executor, plan.run["artifacts"]["root"]) for plan in plans}) > 1:
        return False
    provider = backend.load_provider()
    return len({provider.endpoint(provider.make_handle(plan)) for plan in plans}) == 1


def _check(stage: PlannedStage) -> None:
    """Raises `UserError` where the stage cannot be run, in this release or on this machine."""
    plan = stage.planned.plan
    backend = get_backend(plan.executor)
    try:
        if backend.remote:
            backend.load_provider().check(plan)
        else:
            backend.load_worker().check(plan)
        if stage.reused is None:
            refuse_unfilled(plan)
    except UserError as error:
        told = UserError(f"{stage.stage.id}: {error.what}", where=error.where, remedy=error.remedy)
        told.exit_code = error.exit_code
        raise told from None


def _tell(stage: PlannedStage, caller: SweepCaller) -> None:
    how = "not run again" if stage.reused else "runs"
    caller.console.say(f"{stage.stage.id}: {how} ({stage.why})")


def _at_first(request: PipelineRequest, stages: Sequence[PlannedStage], caller: SweepCaller) -> Sweep:
    secrets = [value for stage in stages for value in stage.planned.secret_values.values()]
    caller.console.hide(secrets)
    labels = request.labels
    return Sweep(
        group=new_run_name(request),
        recipe=request.pipeline.name,
        created=now(),
        argv=tuple(redact_argv(caller.argv, secrets)),
        options=Options(max_parallel=len(stages)),
        members=tuple(_member(index, stage) for index, stage in enumerate(stages)),
        tags=labels.tags,
        note=redact_argv([labels.note])[0],
        kind=PIPELINE,
    )


def _member(index: int, stage: PlannedStage) -> Member:
    return Member(
        index,
        stage.job,
        str(paths.jobs_dir() / stage.job),
        {},
        step=stage.stage.id,
        fingerprint=stage.fingerprint,
        was="succeeded" if stage.reused else "",
        reused=stage.reused is not None,
    )


class _Led(SweepLifecycle):
    """A pipeline that a process here leads: each stage is started once those that it reads from have succeeded."""

    def __init__(self, sweep: Sweep, stages: Sequence[PlannedStage], caller: SweepCaller, recorded: Recorded) -> None:
        super().__init__(sweep, caller, _run_member, recorded)
        self.stages = stages

    def run(self) -> int:
        """The exit code."""
        planned = [stage.planned for stage in self.stages if stage.reused is None]
        batch = [(m, s.planned) for m, s in zip(self.sweep.members, self.stages, strict=True) if s.reused is None]
        makers = {index: tuple(h.maker for h in stage.handovers) for index, stage in enumerate(self.stages)}
        with self.session(planned, self.sweep), self.watched(planned, (), len(batch)) as context:
            runner = StageRunner(context, self.sweep.options, makers)
            ended = {member.index: member for member in runner.run(batch)}
            self.note([ended.get(member.index, member) for member in self._with_reused()])
        return self.sweep.exit_code or 0

    def _with_reused(self) -> Sequence[Member]:
        """The members; of those that were made before, with the record of that job."""
        store = JobStore()
        found = []
        for member in self.sweep.members:
            known = member
            if member.reused:
                with suppress(UserError):  # removed since
                    known = replace(member, record=store.by_name(member.name))
            found.append(known)
        return found


class StageRunner(Runner):
    """Runs stages; what reads of one that has not succeeded is never started.

    Args:
        makers: stage → those that it reads from.
    """

    def __init__(self, context: RunContext, options: Options, makers: Mapping[int, Sequence[int]]) -> None:
        super().__init__(context, options)
        self._makers = makers
        self._states: dict[int, str] = {}

    def next_of(self, waiting: _Waiting) -> tuple[Member, Planned] | None:
        """As of every runner. A stage that can never start is taken out."""
        open_ones = {member.index for member, _ in waiting}
        for item in list(waiting):
            makers = [maker for maker in self._makers[item[0].index] if maker in open_ones or maker in self._states]
            states = [self._states.get(maker, "") for maker in makers]
            if all(state == "succeeded" for state in states):
                waiting.remove(item)
                self._states[item[0].index] = "running"
                return item
            if any(state not in ("", "running", "succeeded") for state in states):
                waiting.remove(item)
                self._states[item[0].index] = "not run"
        return None

    def ended(self, member: Member) -> None:
        """Lets those start that read from it."""
        self._states[member.index] = "succeeded" if member.state == "succeeded" else "not succeeded"


def _run_member(planned: Planned, *, argv: Sequence[str], group: str, interrupts: Interrupts, say: Say) -> JobRecord:
    """Runs one stage to its end where its profile says."""
    run = run_elsewhere if get_backend(planned.plan.executor).remote else run_here
    return run(planned, argv=argv, group=group, interrupts=interrupts, say=say)


class _Submitted:
    """A pipeline whose platform has all of it: this machine may be switched off."""

    def __init__(
        self,
        sweep: Sweep,
        stages: Sequence[PlannedStage],
        request: PipelineRequest,
        caller: SweepCaller,
        written_down: Callable[[], None],
    ) -> None:
        plan = next(stage.planned.plan for stage in stages if stage.reused is None)
        self.caller, self.console, self.stages, self.written_down = caller, caller.console, stages, written_down
        self.detached = request.mode == "batch" or not caller.attached
        self.store = SweepStore()
        self.sweep = replace(
            sweep, launcher=this_process(), host=os.uname().nodename, profile=plan.profile, executor=plan.executor,
            unattended=True,
        )  # fmt: skip
        self.records: dict[int, JobRecord] = {}

    def run(self) -> int:
        """The exit code."""
        self.store.write(self.sweep)
        self.written_down()
        try:
            self._submit()
        except KeyboardInterrupt:
            return self._interrupted()
        except UserError:
            if self.records:
                self.console.say(f"{self.sweep.group}: a step could not be submitted; those before it are ended")
            self._end_submitted("the pipeline, as a step could not be submitted")
            raise
        finally:
            self._leave_alone()
        if self.detached:
            await_ends(self.records.values())
            self.console.answer(self.sweep.group)
            say_next_commands(self.console, self.sweep.group)
            return 0
        members = [replace(m, record=self.records[m.index]) for m in self.sweep.members if m.index in self.records]
        return AttachedSweep(self.console, self.sweep, members).run()

    def _submit(self) -> None:
        for index, stage in enumerate(self.stages):
            if stage.reused is None:
                self.records[index] = self._submitted(stage)
        ids = ", ".join(f"{record.id} ({self.stages[index].stage.id})" for index, record in self.records.items())
        self.console.say(f"{self.sweep.group}: submitted as {ids}")

    def _submitted(self, stage: PlannedStage) -> JobRecord:
        """The stage with its platform told which jobs it comes after."""
        makers = dict.fromkeys(handover.maker for handover in stage.handovers)
        needs = [*stage.needs, *(self.records[maker] for maker in makers if maker in self.records)]
        plan = sent_plan(stage, {place: record.id.partition(";")[0] for place, record in self.records.items()})
        for line in plan.warnings:
            self.console.say(f"warning: {stage.stage.id}: {line}")
        planned = replace(stage.planned, plan=plan)
        names = [record.name for record in needs]
        job = RemoteJob(planned.submission(self.caller.argv, group=self.sweep.group, needs=names), self.console.say)
        job.record_job()
        return job.submit()

    def _interrupted(self) -> int:
        """Ctrl-C: what is known to be submitted is ended; the step whose answer is missing is looked for first."""
        known = [record.name for record in self.records.values()]
        self._end_submitted("Ctrl-C")
        names = [stage.planned.plan.name for stage in self.stages if stage.reused is None]
        return cancel_interrupted(self.console, self.sweep.group, [name for name in names if name not in known])

    def _end_submitted(self, by: str) -> None:
        """Ends the steps that were submitted: nothing would use what they make."""
        submitted = [record for record in self.records.values() if not record.over]
        try:
            stop_all(submitted, by, hard=True)
        except UserError as problem:
            self.console.say(f"{self.sweep.group}: not ended: {problem.what}; nemotron jobs cancel {self.sweep.group}")

    def _leave_alone(self) -> None:
        """Hands the pipeline over: from here on its state is derived from its stages' jobs, not from this process."""
        self.sweep = replace(self.sweep, launcher=None)
        self.store.write(self.sweep)

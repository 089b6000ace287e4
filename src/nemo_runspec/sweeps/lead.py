"""A sweep led to its end: its runs planned, run some at a time, and compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from nemo_runspec.backends import DEFAULT_EXECUTOR, get_backend
from nemo_runspec.config.overrides import is_hydra_override
from nemo_runspec.errors import UserError
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.config_choice import choose_yaml
from nemo_runspec.planning.planned import Planned, PlanRequest
from nemo_runspec.planning.sweep import combinations, plan_each
from nemo_runspec.redact import redact_argv
from nemo_runspec.sweeps.console import SweepCaller
from nemo_runspec.sweeps.life import Recorded, SweepLifecycle, is_platform_managed
from nemo_runspec.sweeps.model import Member, Sweep, member_of, new_sweep, options_of
from nemo_runspec.sweeps.plugin import Stopped, TrialResult, run_search
from nemo_runspec.sweeps.run import RunMember, Runner
from nemo_runspec.sweeps.search import BASIC, Search, compose_search
from nemo_runspec.sweeps.search_space import check_space
from nemo_runspec.sweeps.status import exit_code
from nemo_runspec.sweeps.table import metric_of, varying_keys


def run_sweep(
    request: PlanRequest,
    caller: SweepCaller,
    *,
    recorded: Recorded | None = None,
    run_member: RunMember | None = None,
) -> int:
    """Runs a sweep to its end, with or without a terminal.

    Args:
        recorded: called once the sweep is written down.
        run_member: runs one plan; by default under supervision here,
            or as a job of the platform that the profile names.

    Returns: 0 where every run has succeeded, else the first failed one's exit code; 130, 143 or 129 after Ctrl-C, TERM
        or HUP.

    Raises:
        UserError: a mistake in the call, before anything is run; or an input or a sweeper that has failed.
    """
    run_member = run_member or _how_to_run(request)
    session = _Session(request, caller, run_member, recorded or (lambda _: None))
    return session.search() if asks_a_sweeper(request) else session.grid()


def asks_a_sweeper(request: PlanRequest) -> bool:
    """True if a sweeper of Hydra's chooses the values."""
    return any(is_hydra_override(text) for text in request.overrides)


def runs_unattended(request: PlanRequest) -> bool:
    """True if a platform runs the sweep once it is submitted.

    A sweeper of Hydra's needs a process to ask it, and so does a limit that the platform does not hold.
    """
    executor = request.profile.executor if request.profile else DEFAULT_EXECUTOR
    if not get_backend(executor).remote or asks_a_sweeper(request):
        return False
    return is_platform_managed(build_plan(replace(request, overrides=combinations(request)[0])).plan)


class _Session(SweepLifecycle):
    """One sweep while it runs."""

    def __init__(self, request: PlanRequest, caller: SweepCaller, run_member: RunMember, recorded: Recorded) -> None:
        super().__init__(new_sweep(request.labels, request.recipe.path), caller, run_member, recorded)
        self.request = request
        self.is_changed = False
        self.needs: tuple[str, ...] = ()

    def grid(self) -> int:
        """Every combination of values, all planned before the first is run."""
        runs = combinations(self.request)
        planned = plan_each(self.request, runs)
        if is_platform_managed(planned[0].plan):
            return self._grid_elsewhere(planned, runs)
        members = [member_of(index, each.plan) for index, each in enumerate(planned)]
        with self.session(planned, self._at_first(planned, members)):
            with self.interrupts.raised():
                self._provide_inputs(planned)
                planned = self._planned_anew(planned, runs)
            with self.watched(planned, varying_keys(self.sweep.members), len(planned)) as context:
                self._run(Runner(context, self.sweep.options), planned, 0)
        return self.sweep.exit_code or 0

    def search(self) -> int:
        """Values that a sweeper of Hydra's chooses, batch by batch."""
        search = compose(self.request, self.folder)
        request = replace(self.request, overrides=search.example())
        example = [build_plan(request)]
        with self.session(example, self._at_first(example, [], search)):
            with self.interrupts.raised():
                self._provide_inputs(example)
                if self.is_changed:
                    example = [build_plan(replace(self.request, overrides=request.overrides))]
            with self.watched(example, list(search.space), search.trials) as context, suppress(Stopped):
                self._ask(search, Runner(context, self.sweep.options))
        return self.sweep.exit_code or 0

    def _ask(self, search: Search, runner: Runner) -> None:
        """Lets the sweeper run. Where it fails after runs that have failed, the first of these says the exit code."""
        try:
            run_search(search, lambda jobs: self._batch(runner, search, jobs), self.folder / "sweeper.log")
        except UserError as error:
            error.exit_code = exit_code(self.sweep.members) or error.exit_code
            raise

    def _grid_elsewhere(self, planned: list[Planned], runs: Sequence[tuple[str, ...]]) -> int:
        from nemo_runspec.sweeps.elsewhere import run_sweep_elsewhere

        self._provide_inputs(planned)
        planned = self._planned_anew(planned, runs)
        return run_sweep_elsewhere(self.sweep, planned, self.caller, needs=self.needs)

    def _at_first(self, planned: Sequence[Planned], members: Sequence[Member], search: Search | None = None) -> Sweep:
        """The sweep as it is written down first."""
        first = planned[0]
        self.caller.console.hide(first.secret_values.values())
        return replace(
            self.sweep,
            argv=tuple(redact_argv(self.caller.argv, first.secret_values.values())),
            options=options_of(first.plan, maximize=search.maximize if search else False),
            members=tuple(members),
            sweeper=search.name if search else None,
        )

    def _run(self, runner: Runner, planned: Sequence[Planned], offset: int) -> list[Member]:
        """Runs a batch. `offset`: how many members of the sweep have ended before it."""
        batch = [(member_of(offset + index, each.plan), each) for index, each in enumerate(planned)]
        before = self.sweep.members[:offset]
        self.note([*before, *(member for member, _ in batch)])
        ended = runner.run(batch)
        self.note([*before, *ended])
        return ended

    def _batch(self, runner: Runner, search: Search, jobs: Sequence[Sequence[str]]) -> list[TrialResult]:
        """One batch of a sweeper's. Raises `Stopped` where the sweep is not to go on."""
        from nemo_runspec.runner.inputs import require_inputs

        planned = plan_each(self.request, [(*search.fixed, *job) for job in jobs])
        for each in planned:
            require_inputs(each.plan)
        ended = self._run(runner, planned, len(self.sweep.members))
        if runner.stopped:
            raise Stopped
        return [self._trial(search, member) for member in ended]

    def _trial(self, search: Search, member: Member) -> TrialResult:
        """What a sweeper is told of a member. The first metric chosen is the one that counts until the end."""
        if search.name == BASIC:
            return TrialResult()
        if member.state != "succeeded":
            return TrialResult(problem=f"{member.name}: {member.state}: {member.cause}")
        metric = metric_of(self.sweep.options, [member])
        value = member.metrics.get(metric or "")
        if metric is None or value is None:
            raise _no_metric(search, member, metric)
        self.sweep = replace(self.sweep, options=replace(self.sweep.options, metric=metric))
        return (
            TrialResult(value) if math.isfinite(value) else TrialResult(problem=f"{member.name}: {metric} is {value}")
        )

    def _provide_inputs(self, planned: Sequence[Planned]) -> None:
        """Makes what the runs read and is not there yet, once for all of them; their request then says which it is.

        Where a platform is told to start them after that, all of them wait for all of it.
        """
        from nemo_runspec.runner.run import provide_inputs

        looked: set[tuple[object, ...]] = set()
        for each in planned:
            inputs = tuple((a.artifact, a.path, a.recipe) for a in each.plan.consumes)
            if inputs in looked:
                continue
            looked.add(inputs)
            provided = provide_inputs(each.plan, self.caller)
            if provided.changed:
                self.is_changed = True
                self.request = provided.request(self.request)
                self.needs = tuple(dict.fromkeys((*self.needs, *(record.name for record in provided.needs))))
        if self.needs:
            from nemo_runspec.sweeps.remote import run_member

            self.run_member = partial(run_member, needs=self.needs)

    def _conclude(self, error: BaseException | None) -> None:
        """As every sweep's; what was submitted for one that is cancelled alone is ended with it."""
        if self.needs and self.interrupts.seen:
            self._end_makers()
        super()._conclude(error)

    def _end_makers(self) -> None:
        from nemo_runspec.records import JobStore
        from nemo_runspec.remote.cancel import end_makers

        names = [member.name for member in self.sweep.members]
        try:
            end_makers(JobStore(), self.needs, names, "the end of its sweep", self.caller.console.say)
        except UserError as error:
            self.caller.console.say(f"{self.sweep.group}: {', '.join(self.needs)}: not ended, it goes on: {error.what}")

    def _planned_anew(self, planned: list[Planned], runs: Sequence[tuple[str, ...]]) -> list[Planned]:
        """The same runs, with the inputs that were made."""
        return plan_each(self.request, runs) if self.is_changed else planned


def _how_to_run(request: PlanRequest) -> RunMember:
    if request.profile and get_backend(request.profile.executor).remote:
        from nemo_runspec.sweeps.remote import run_member as elsewhere

        return elsewhere
    from nemo_runspec.supervise.sweep_run import run_member

    return run_member


def compose(request: PlanRequest, folder: Path) -> Search:
    """The search that a sweeper of Hydra's is asked for. `folder`: for its own files."""
    search = compose_search(request.overrides, choose_yaml(request.recipe, request.config), folder)
    check_space(request.recipe, search.space)
    return search


def _no_metric(search: Search, member: Member, metric: str | None) -> UserError:
    wrote = ", ".join(sorted(member.metrics)) or "none"
    wanted = f"no metric '{metric}'" if metric else "no metric that it could be told of"
    return UserError(
        f"the sweeper '{search.name}' cannot go on: {member.name} has succeeded and has written {wanted}",
        where=str(member.metrics_file),
        remedy=f"name one with run.env.sweep_metric=NAME; it has written: {wrote}",
    )

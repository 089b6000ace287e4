"""A plan run or submitted, after the inputs it lacks: what a config declares `make = if-missing` for is made first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nemo_runspec.backends import get_backend
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.planned import Planned, PlanRequest
from nemo_runspec.plans.model import Artifact, Plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.runner.client import Caller, ready_client
from nemo_runspec.runner.inputs import (
    ProvidedInputs,
    input_request,
    missing_inputs,
    not_made,
    plan_with_inputs,
    unseen_inputs,
    with_inputs_checked,
)
from nemo_runspec.runner.references import with_versions_checked
from nemo_runspec.runner.wandb_versions import with_versions_pinned
from nemo_runspec.submission.request import RetriedJob, Submission


def run_request(request: PlanRequest, planned: Planned, caller: Caller) -> int:
    """Runs a plan just made, after the inputs it lacks; the exit code: the job's own, 0 once detached.

    Where an input had to be made first, the plan is made again, so that it names the version that now exists.

    Raises:
        UserError: it cannot be run, or an input is missing or could not be made.
    """
    planned, needs = _with_inputs(request, planned, caller)
    return run_plan(planned, caller, needs=needs)


def submit_request(request: PlanRequest, planned: Planned, caller: Caller) -> str:
    """As `run_request`, detached whatever the plan's mode is; the job's name."""
    planned, needs = _with_inputs(request, planned, caller)
    return submit_plan(planned, caller, needs=needs)


def run_plan(planned: Planned, caller: Caller, *, retried: RetriedJob | None = None, needs: Sequence[str] = ()) -> int:
    """Runs a plan that has been made or loaded; the exit code: the job's own, 0 once detached.

    Args:
        retried: the job that is run once more.
        needs: names of the jobs that it waits for.

    Raises:
        UserError: it cannot be run.
    """
    client = ready_client(planned.plan)
    return client.run(_submission(planned, caller, retried, needs), console=caller.console)


def submit_plan(
    planned: Planned, caller: Caller, *, retried: RetriedJob | None = None, needs: Sequence[str] = ()
) -> str:
    """As `run_plan`, detached whatever the plan's mode is; the job's name."""
    client = ready_client(planned.plan)
    return client.submit(_submission(planned, caller, retried, needs), console=caller.console)


def stage_plan(planned: Planned, caller: Caller) -> int:
    """Only sends a job's files to where it would run; the exit code. Nothing is submitted, so no input is made."""
    from nemo_runspec.remote.client import stage

    ready_client(planned.plan)
    return stage(_submission(planned, caller, None, ()), console=caller.console)


def provide_inputs(plan: Plan, caller: Caller) -> ProvidedInputs:
    """Makes missing inputs as jobs of their own, with the plan's own profile.

    On this machine they are made when this returns. A platform that starts a job after another one has only been told;
    on any other the job is waited for.

    Raises:
        UserError: an input is missing that nemotron does not make by itself; or making it has failed, and then with
            that job's exit code.
    """
    plan, pinned = with_versions_pinned(plan)
    plan = with_inputs_checked(with_versions_checked(plan))
    for line in unseen_inputs(plan):
        caller.console.say(line)
    missing = missing_inputs(plan)
    if get_backend(plan.executor).remote:
        found = _provided_elsewhere(plan, missing, caller)
        return replace(found, changed=found.changed or bool(pinned), pinned=pinned)
    for artifact in missing:
        _make(plan, artifact, caller)
    return ProvidedInputs(changed=bool(missing or pinned), pinned=pinned)


def _with_inputs(request: PlanRequest, planned: Planned, caller: Caller) -> tuple[Planned, tuple[str, ...]]:
    ready_client(planned.plan)  # what cannot be run needs no inputs
    provided = provide_inputs(planned.plan, caller)
    if provided.changed:
        planned = plan_with_inputs(request, provided)
    return planned, tuple(record.name for record in provided.needs)


def _submission(planned: Planned, caller: Caller, retried: RetriedJob | None, needs: Sequence[str]) -> Submission:
    caller.console.hide(planned.secret_values.values())
    for line in planned.plan.warnings:
        caller.console.say(f"warning: {line}")
    return planned.submission(caller.argv, retried=retried, needs=needs)


def _make(plan: Plan, artifact: Artifact, caller: Caller) -> None:
    request = input_request(plan, artifact)
    caller.console.say(
        f"{artifact.name}: '{artifact.artifact}' is not there yet; running {request.recipe.path} first"
    )  # fmt: skip
    made = build_plan(request)
    code, job = (run_request(request, made, caller), "last") if caller.attached else _awaited(request, made, caller)
    if code != 0:
        raise not_made(plan, artifact, code, job)


def _awaited(request: PlanRequest, planned: Planned, caller: Caller) -> tuple[int, str]:
    """The exit code of a job that nobody sees, and its name."""
    from nemo_runspec.remote.wait import exit_code_of, wait_for

    name = submit_request(request, planned, caller)
    return exit_code_of(wait_for(JobStore(), [name])[0]), name


def _provided_elsewhere(plan: Plan, missing: Sequence[Artifact], caller: Caller) -> ProvidedInputs:
    from nemo_runspec.remote.input_jobs import made_by

    backend = get_backend(plan.executor)
    backend.load_provider().check(plan)  # what cannot be submitted needs no inputs
    makers: dict[str, JobRecord] = {}
    for artifact in missing:
        known = made_by(JobStore(), plan, artifact)
        makers[artifact.name] = _known(artifact, known, caller) if known else _submitted(plan, artifact, caller)
    needs = [(a, makers[a.name]) for a in missing if not makers[a.name].over]
    versions = {a.name: makers[a.name].name for a in missing}
    if backend.after is None:
        from nemo_runspec.runner.awaiting import wait_for_input

        for artifact, record in needs:
            wait_for_input(plan, artifact, record, caller)
        needs = []
    return ProvidedInputs(bool(missing), versions, [record for _, record in needs])


def _known(artifact: Artifact, record: JobRecord, caller: Caller) -> JobRecord:
    verb = "has made it" if record.over else f"makes it ({record.state})"
    caller.console.say(f"{artifact.name}: '{artifact.artifact}': {record.name} {verb}")
    return record


def _submitted(plan: Plan, artifact: Artifact, caller: Caller) -> JobRecord:
    """The job that makes it, submitted; this one is told of it before anything of it is sent.

    Raises:
        UserError: it cannot be submitted; nothing of the job that needs it has happened then.
    """
    from nemo_runspec.remote.client import submit_detached
    from nemo_runspec.remote.input_jobs import submitted_for_another

    request = replace(input_request(plan, artifact), mode="batch")
    inputs = provide_inputs((made := build_plan(request)).plan, caller)
    if inputs.changed:
        made = build_plan(inputs.request(request))
    why = "is not there yet" if artifact.ready is False else "cannot be looked for from here"
    caller.console.say(f"{artifact.name}: '{artifact.artifact}' {why}; {request.recipe.path} runs first")
    given = made.submission(caller.argv, needs=[record.name for record in inputs.needs])
    return submitted_for_another(JobStore(), submit_detached(given, console=caller.console))

"""Before a run: are its inputs there? What a config declares `make = if-missing` for is made first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nemo_runspec.artifacts.store import known_inputs
from nemo_runspec.backends import get_backend
from nemo_runspec.catalog import find_recipe
from nemo_runspec.config.overrides import quoted
from nemo_runspec.errors import UserError
from nemo_runspec.planning.build import Planned, PlanRequest, build_plan
from nemo_runspec.planning.model import Artifact, Plan
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.redact import HIDDEN
from nemo_runspec.runspec import Runspec

if TYPE_CHECKING:
    from nemo_runspec.jobs import JobRecord, JobStore

Runner = Callable[..., int]
"""`run(request, planned, *, argv)`: runs a plan with its own inputs; the return value is the exit code."""

_OWN_SHAPE = frozenset({
    "array", "dependencies", "dependency_type", "gpus_per_node", "nodes", "nproc_per_node", "nprocs_per_node",
    "ntasks_per_node", "resume", "retries", "signal", "sweep_metric", "sweep_parallel",
})  # fmt: skip
"""Keys of `run.env` that say how one job is run; every other override also says where its inputs are made."""


@dataclass(frozen=True)
class Provided:
    """What was settled about a plan's inputs before it is run.

    Args:
        versions: artifact → the job whose version of it is read. `needs`: those of these jobs that are not over.
        changed: whether the plan has to be made again.
    """

    changed: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    needs: Sequence[JobRecord] = ()

    def request(self, request: PlanRequest) -> PlanRequest:
        """The request of the same job, with its inputs."""
        ids = (str(record.handle["id"]).partition(";")[0] for record in self.needs)
        after = tuple(dict.fromkeys((*request.after, *ids)))
        return replace(request, versions={**request.versions, **self.versions}, after=after)


def provide_inputs(plan: Plan, argv: list[str], run: Runner) -> Provided:
    """Makes missing inputs as jobs of their own, with the plan's own profile.

    On this machine they are made when this returns. A platform that starts a job after another one has only been told;
    on any other the job is waited for.

    Raises:
        UserError: an input is missing that nemotron does not make by itself; or making it has failed, and then with
            that job's exit code.
    """
    plan = looked_at(plan)
    remote = get_backend(plan.executor).remote
    missing = [a for a in plan.consumes if _is_missing(a, remote=remote)]
    for artifact in missing:
        if artifact.make != "if-missing" or artifact.recipe is None:
            raise _missing(plan, artifact)
    if remote:
        return _provided_elsewhere(plan, missing, argv)
    for artifact in missing:
        _make(plan, artifact, argv, run)
    return Provided(changed=bool(missing))


def looked_at(plan: Plan) -> Plan:
    """The plan, with whether its inputs are there, as far as that can be asked now: one question.

    Whether there will be a version when the job starts, nobody knows of one that waits for other jobs (`dependencies`).
    """
    paths = [artifact.path for artifact in plan.consumes if artifact.path]
    backend = get_backend(plan.executor)
    if not paths or backend.inputs is None:
        return plan
    found = backend.present(plan, paths)
    settled = known_inputs(plan) if plan.run["env"].get("dependencies") else {a.name for a in plan.consumes}
    consumes = tuple(
        replace(a, ready=found[a.path] or (found[a.path] if a.name in settled else None)) if a.path else a
        for a in plan.consumes
    )
    return replace(plan, consumes=consumes)


def require_inputs(plan: Plan) -> None:
    """Raises `UserError` where a required input of a plan is not there."""
    for artifact in plan.consumes:
        if artifact.ready is False and artifact.required:
            raise _missing(plan, artifact)


def _is_missing(artifact: Artifact, *, remote: bool) -> bool:
    """What cannot be asked counts as missing where it can be made: else the job would find out in the queue."""
    if artifact.ready is None and remote:
        return (artifact.path is None and artifact.required) or artifact.make is not None
    return artifact.ready is False and (artifact.required or artifact.make is not None)


def _make(plan: Plan, artifact: Artifact, argv: list[str], run: Runner) -> None:
    request = _request(plan, artifact)
    print(
        f"{artifact.name}: '{artifact.artifact}' is not there yet; running {request.recipe.path} first", file=sys.stderr
    )
    code = run(request, build_plan(request), argv=argv)
    if code != 0:
        raise _not_made(plan, artifact, code, "last")


def _provided_elsewhere(plan: Plan, missing: Sequence[Artifact], argv: list[str]) -> Provided:
    from nemo_runspec.jobs import JobStore
    from nemo_runspec.remote.input_jobs import made_by

    get_backend(plan.executor).load_provider().check(plan)  # what cannot be submitted needs no inputs
    makers: dict[str, JobRecord] = {}
    for artifact in missing:
        known = made_by(JobStore(), plan, artifact)
        makers[artifact.name] = _known(artifact, known) if known else _submitted(plan, artifact, argv)
    needs = [(a, makers[a.name]) for a in missing if not makers[a.name].over]
    versions = {str(a.artifact): makers[a.name].name for a in missing}
    if get_backend(plan.executor).after is None:
        for artifact, record in needs:
            _wait_for(plan, artifact, record)
        needs = []
    return Provided(bool(missing), versions, [record for _, record in needs])


def _known(artifact: Artifact, record: JobRecord) -> JobRecord:
    verb = "has made it" if record.over else f"makes it ({record.state})"
    print(f"{artifact.name}: '{artifact.artifact}': {record.name} {verb}", file=sys.stderr)
    return record


def _submitted(plan: Plan, artifact: Artifact, argv: list[str]) -> JobRecord:
    """The job that makes it, submitted; this one is told of it before anything of it is sent.

    Raises:
        UserError: it cannot be submitted; nothing of the job that needs it has happened then.
    """
    from nemo_runspec.jobs import JobStore
    from nemo_runspec.planning.codec import plan_to_json
    from nemo_runspec.remote.client import submit_detached
    from nemo_runspec.remote.input_jobs import submitted_for_another
    from nemo_runspec.submission.request import Submission

    request = replace(_request(plan, artifact), mode="batch")
    inputs = provide_inputs((made := build_plan(request)).plan, argv, _never)
    if inputs.changed:
        made = build_plan(inputs.request(request))
    why = "is not there yet" if artifact.ready is False else "cannot be looked for from here"
    print(f"{artifact.name}: '{artifact.artifact}' {why}; {request.recipe.path} runs first", file=sys.stderr)
    names = tuple(record.name for record in inputs.needs)
    given = Submission(made.plan, plan_to_json(made.plan), made.secret_values, tuple(argv), needs=names)
    return submitted_for_another(JobStore(), submit_detached(given))


def _never(*_: object, **__: object) -> int:
    raise AssertionError("what is made for a job elsewhere is made elsewhere")


def _wait_for(plan: Plan, artifact: Artifact, record: JobRecord) -> None:
    """Waits until the job has made its artifact; attached, with its log. With a sweep that is cancelled it is ended.

    Raises:
        UserError: it has not, or nobody waits any longer; it goes on then.
    """
    from nemo_runspec.jobs import JobStore
    from nemo_runspec.jobs.wait import exit_code_of
    from nemo_runspec.remote.cancel import end_makers
    from nemo_runspec.remote.input_jobs import awaited
    from nemo_runspec.supervise.interrupts import Interrupted

    store = JobStore()
    try:
        with awaited(store, record):
            ended = _ended(store, plan, record)
    except Interrupted:
        end_makers(store, [record.name], (), "the end of its sweep", _say)
        raise
    except KeyboardInterrupt:
        left = UserError(
            f"{plan.recipe.path} was not submitted; {record.name} goes on and makes '{artifact.artifact}'",
            remedy=f"the same command later; or nemotron jobs cancel {record.name}",
        )
        left.exit_code = 130
        raise left from None
    if ended.state != "succeeded":
        raise _not_made(plan, artifact, exit_code_of(ended), ended.name)


def _ended(store: JobStore, plan: Plan, record: JobRecord) -> JobRecord:
    from nemo_runspec.jobs.wait import wait_for
    from nemo_runspec.remote.display import make_display
    from nemo_runspec.remote.follow import Follower
    from nemo_runspec.supervise.console import stdout_writer

    if plan.mode == "batch":
        _say(f"{record.name}: waiting for its end, before {plan.recipe.path} is submitted")
        return wait_for(store, [record.name])[0]
    display = make_display()
    ended = Follower(store, record, display, stdout_writer()).run()
    display.ended(ended)
    return ended


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _request(plan: Plan, artifact: Artifact) -> PlanRequest:
    """The job that makes an artifact: where the plan runs, in a shape of its own."""
    from nemo_runspec.planning.request import plan_request

    recipe = find_recipe(str(artifact.recipe))
    root = quoted("run.artifacts.root", plan.run["artifacts"]["root"])
    return plan_request(
        recipe,
        config=artifact.config,
        profile=plan.profile,
        overrides=[root, *_carried(plan), *_shape(plan.executor, recipe.spec)],
        env_file=plan.env_file,
    )


def _shape(executor: str, spec: Runspec) -> list[str]:
    """The profile's nodes and processes are meant for the job that reads; what prepares data is mostly one process."""
    single = {"nodes": (spec.nodes or 1) == 1, "nproc_per_node": spec.launch == "direct"}
    known = fields_of(executor).fields
    return [f"run.env.{key}=1" for key, is_single in single.items() if is_single and key in known]


def _carried(plan: Plan) -> list[str]:
    """Overrides of the call that also decide where its inputs are made. A secret's value is in none of them."""
    found = [(text, text.lstrip("+")) for text in plan.overrides]
    return [
        text
        for text, plain in found
        if plain.startswith("run.env.")
        and plain.removeprefix("run.env.").partition("=")[0] not in _OWN_SHAPE
        and HIDDEN not in plain
    ]


def _not_made(plan: Plan, artifact: Artifact, code: int, job: str) -> UserError:
    named = "" if job == "last" else f" ({job})"
    failure = UserError(
        f"making '{artifact.artifact}' has ended with exit code {code}{named}; {plan.recipe.path} was not started",
        remedy=f"see what went wrong: nemotron jobs show {job}, then: {_command(plan, artifact)}",
    )
    failure.exit_code = code  # something has run: this is that job's own end, not a mistake in the call
    return failure


def _missing(plan: Plan, artifact: Artifact) -> UserError:
    wanted = artifact.artifact or artifact.path
    source = plan.sources.get(f"run.{artifact.name}.artifact") or plan.sources.get(f"run.{artifact.name}.path")
    if wanted is None:
        return UserError(
            f"{plan.recipe.path} needs an input '{artifact.name}' ({artifact.type}), and none is named",
            remedy=f"run.{artifact.name}=ARTIFACT or run.{artifact.name}=/a/path",
        )
    made = f"make it: {_command(plan, artifact)}; or name a path: " if artifact.recipe and artifact.artifact else ""
    there = f" ({artifact.path})" if artifact.artifact and get_backend(plan.executor).remote else ""
    return UserError(
        f"input '{artifact.name}' ({artifact.type}) is missing: {wanted}{there}",
        where=source.place() if source else None,
        remedy=f"{made}run.{artifact.name}=/a/path",
    )


def _command(plan: Plan, artifact: Artifact) -> str:
    words = ["nemotron", *str(artifact.recipe).split("/")]
    words += ["-c", artifact.config] if artifact.config else []
    words += ["--run", plan.profile] if plan.profile else []
    return " ".join(words)


def planned_with(request: PlanRequest, provided: Provided) -> Planned:
    """The plan of a job whose inputs were made first.

    Raises:
        UserError: one of them is still not there.
    """
    planned = build_plan(provided.request(request))
    require_inputs(planned.plan)
    return planned

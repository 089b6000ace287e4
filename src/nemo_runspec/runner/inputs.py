"""A plan's inputs before it is run: which are there, which can be made first, and by which job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nemo_runspec.artifacts.store import BUCKETS, known_inputs, newest_inputs
from nemo_runspec.artifacts.wandb import unpinned
from nemo_runspec.backends import get_backend
from nemo_runspec.catalog import command_words, find_recipe
from nemo_runspec.config.overrides import quoted
from nemo_runspec.errors import UserError
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.planned import PinnedVersion, Planned, PlanRequest
from nemo_runspec.plans.model import Artifact, Plan
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.interpolate import escape
from nemo_runspec.redact import HIDDEN
from nemo_runspec.runspec import Runspec
from nemo_runspec.source import Layer

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord

_KEY = re.compile(r"\+*run\.env\.([^.=]+)")
"""An override of a profile's key."""


@dataclass(frozen=True)
class ProvidedInputs:
    """What was settled about a plan's inputs before it is run.

    Args:
        versions: input → the job whose version of its artifact is read.
        needs: those of these jobs that are not over.
        pinned: as `PlanRequest.pinned`.
        changed: whether the plan has to be made again.
    """

    changed: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    needs: Sequence[JobRecord] = ()
    pinned: Mapping[str, PinnedVersion] = field(default_factory=dict)

    def request(self, request: PlanRequest) -> PlanRequest:
        """The request of the same job, with its inputs."""
        ids = (record.id.partition(";")[0] for record in self.needs)
        after = tuple(dict.fromkeys((*request.after, *ids)))
        pinned = {**request.pinned, **self.pinned}
        return replace(request, versions={**request.versions, **self.versions}, pinned=pinned, after=after)


def missing_inputs(plan: Plan) -> list[Artifact]:
    """The inputs that are not there and can be made first.

    Args:
        plan: as `with_inputs_checked` has left it.

    Raises:
        UserError: an input is missing that nemotron does not make by itself.
    """
    remote = get_backend(plan.executor).remote
    missing = [a for a in plan.consumes if _is_missing(a, remote=remote)]
    for artifact in missing:
        if artifact.make != "if-missing" or artifact.recipe is None:
            raise _missing(plan, artifact)
    return missing


def with_inputs_checked(plan: Plan) -> Plan:
    """The plan, with whether its inputs are there, as far as that can be asked now: one question.

    Whether there will be a version when the job starts, nobody knows of one that waits for other jobs (`dependencies`).
    """
    fetched = {a.name for a in unpinned(plan)}
    if str(plan.run["artifacts"]["root"]).startswith(BUCKETS):
        fetched |= newest_inputs(plan).keys()
    asked = [a for a in plan.consumes if a.path and not a.is_bundled and a.name not in fetched]
    paths = [artifact.path for artifact in asked if artifact.path]
    backend = get_backend(plan.executor)
    if not paths or backend.inputs is None:
        return plan
    found = backend.present(plan, paths)
    settled = known_inputs(plan) if plan.waits_for_jobs else {a.name for a in plan.consumes}
    consumes = tuple(
        replace(a, ready=found[a.path] or (found[a.path] if a.name in settled else None))
        if a.path and a in asked
        else a
        for a in plan.consumes
    )
    return replace(plan, consumes=consumes)


def unseen_inputs(plan: Plan) -> list[str]:
    """Lines about inputs that nobody can look for before the job starts, and that are not made either.

    Args:
        plan: as `with_inputs_checked` has left it.
    """
    backend = get_backend(plan.executor)
    if not backend.remote or backend.inputs is None:
        return []
    unseen = [a for a in plan.consumes if a.path and a.ready is None and a.make is None and a.required]
    return [f"warning: input '{a.name}' cannot be looked for from here: {a.path}" for a in unseen]


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


def input_request(plan: Plan, artifact: Artifact) -> PlanRequest:
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
    fields = fields_of(plan.executor)
    own = fields.where(lambda key: key.of_one_job)
    keys = [(text, _KEY.match(text)) for text in plan.overrides if HIDDEN not in text]
    return [*_given(plan), *(text for text, key in keys if key and fields.canonical(key[1]) not in own)]


def _given(plan: Plan) -> list[str]:
    """Variables that were given with the call, `--env` and `--env-file`, but for secrets."""
    known = {name: value for name, value in (plan.run["env"].get("env_vars") or {}).items() if value != HIDDEN}
    sources = {name: plan.sources.get(f"run.env.env_vars.{name}") for name in known}
    typed = [name for name, s in sources.items() if s and s.layer is Layer.CLI and s.text not in plan.overrides]
    return [quoted(f"run.env.env_vars.{name}", escape(str(known[name]))) for name in typed]


def not_made(plan: Plan, artifact: Artifact, code: int, job: str) -> UserError:
    """The error of a job whose input could not be made, with the exit code of the job that was to make it."""
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
    words = ["nemotron", *command_words(str(artifact.recipe))]
    words += ["-c", artifact.config] if artifact.config else []
    words += ["--run", plan.profile] if plan.profile else []
    return shlex.join(words)


def plan_with_inputs(request: PlanRequest, provided: ProvidedInputs) -> Planned:
    """The plan of a job whose inputs were made first.

    Raises:
        UserError: one of them is still not there.
    """
    planned = build_plan(provided.request(request))
    require_inputs(planned.plan)
    return planned

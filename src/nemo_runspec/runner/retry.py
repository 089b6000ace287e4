"""A job run once more: its stored plan, its stored recipe files, its stored code package."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from nemo_runspec.backends import get_backend
from nemo_runspec.console import TerminalConsole
from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import load_plan
from nemo_runspec.planning.names import name_for
from nemo_runspec.planning.planned import Planned
from nemo_runspec.planning.rename import rename
from nemo_runspec.planning.secrets_again import look_up
from nemo_runspec.plans.model import Artifact, Bundle, Plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.remote.input_jobs import not_made_by
from nemo_runspec.runner.client import Caller, ready_client
from nemo_runspec.runner.inputs import require_inputs, with_inputs_checked
from nemo_runspec.runner.run import run_plan, submit_plan
from nemo_runspec.script.node_identity import node_identity_of
from nemo_runspec.submission.layout import ARCHIVE
from nemo_runspec.submission.mount_commits import at_recorded_commits
from nemo_runspec.submission.request import RetriedJob
from nemo_runspec.supervise.spawn import start_in_new_process


def retry(store: JobStore, record: JobRecord, caller: Caller) -> int:
    """Runs the job again under a new name, attached or detached as it was; the return value is the exit code.

    Raises:
        UserError: as `retry_plan`; the directory the job was started in is gone, or it cannot be run.
    """
    planned, retried = retry_plan(store, record)
    enter_directory(record, planned.plan)
    caller.console.say(f"{record.name}: run again as {planned.plan.name}")
    return run_plan(planned, caller, retried=retried)


def retry_detached(record: JobRecord, caller: Caller) -> str:
    """As `retry`, from a new process and detached however the job was; the new job's name."""
    return start_in_new_process(_retry, record.name, tuple(caller.argv), say=caller.console.say)


def _retry(name: str, argv: Sequence[str]) -> str:
    store, caller = JobStore(), Caller(argv, TerminalConsole())
    record = store.by_name(name)
    planned, retried = retry_plan(store, record)
    enter_directory(record, planned.plan)
    caller.console.say(f"{record.name}: run again as {planned.plan.name}")
    return submit_plan(planned, caller, retried=retried)


def retry_plan(store: JobStore, record: JobRecord) -> tuple[Planned, RetriedJob]:
    """The job's stored plan under a new name, and where its stored package lies.

    Raises:
        UserError: it has not ended, its stored plan or package is gone or cannot be read, or a secret it had is gone.
    """
    if not record.ended and record.state != "lost":
        raise UserError(
            f"job '{record.name}' is {record.state}", remedy=f"end it first: nemotron jobs cancel {record.name}"
        )
    _require_made(store, record)
    folder = store.folder(record.name)
    saved = load_plan(folder / "plan.json")
    stored = rename(saved, name_for(saved.labels, saved.recipe.path))
    plan = dataclasses.replace(
        stored,
        bundle=_stored_bundle(saved, folder),
        auto_mounts=at_recorded_commits(stored.auto_mounts, folder),
        consumes=with_paths_checked(stored.consumes),
        target=get_backend(stored.executor).target_after(stored.target, stored.run["env"], ()),
    )
    ready_client(plan)
    require_inputs(with_inputs_checked(plan))
    retried = RetriedJob(record.name, folder / ARCHIVE if plan.package.kind != "none" else None)
    return Planned(plan, look_up(plan)), retried


def _require_made(store: JobStore, record: JobRecord) -> None:
    """Raises where the job waited for another one to make its input, which has not: its plan reads just that."""
    maker = not_made_by(store, record)
    if maker is not None:
        raise UserError(
            f"{record.name} reads what {maker.name} was to make, and that is {maker.state}",
            remedy=f"see why: nemotron jobs diagnose {maker.name}; the command itself makes it anew: "
            f"{shlex.join(record.argv)}",
        )


def with_paths_checked(artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
    """The inputs, with whether they are there now."""
    return tuple(
        dataclasses.replace(a, ready=Path(a.path).exists())
        if a.ready is not None and a.path and not a.is_bundled
        else a
        for a in artifacts
    )


def _stored_bundle(plan: Plan, folder: Path) -> Bundle:
    """The recipe's files as that job had them."""
    files = tuple(dataclasses.replace(f, source=str(folder / "bundle" / f.path)) for f in plan.bundle.files)
    missing = [f.path for f in files if not Path(f.source).is_file()]
    if missing:  # it ended before they were laid out; the plan still knows what they were
        return plan.bundle
    return dataclasses.replace(plan.bundle, files=files)


def enter_directory(record: JobRecord, plan: Plan) -> None:
    """A job that sees this machine's files where they are runs, without a code package, in the directory of the call.

    Raises:
        UserError: that cannot be entered.
    """
    if plan.package.kind != "none" or not node_identity_of(plan.executor).here:
        return
    try:
        os.chdir(record.cwd)
    except OSError as error:
        raise UserError(
            f"the job ran in {record.cwd}, which cannot be entered: {error.strerror}", where=record.cwd
        ) from None

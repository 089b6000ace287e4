"""The record of a sweep: its members, and how it was to be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.planning.names import new_name, subject
from nemo_runspec.plans import defaults
from nemo_runspec.plans.labels import Labels
from nemo_runspec.records.lifecycle import Launcher
from nemo_runspec.records.metrics import metrics_file
from nemo_runspec.records.record import JobRecord, now
from nemo_runspec.redact import redact_argv

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Plan

SWEEP_SCHEMA = 1
SWEEP, PIPELINE = "sweep", "pipeline"
"""What several jobs under one name may be: one recipe with other values, or steps one after another."""
NOT_RUN = "not run"
"""The state of a member that never had a job, and will have none."""
WAITING = "waiting"
"""The state of a member that has no job yet, in a sweep that goes on."""
REMOVED = "removed"
"""The state of a member whose job has been removed (`nemotron jobs rm`)."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the members are run and compared.

    Args:
        max_parallel: how many run at the same time.
        metric: what they are compared by; None for `val_loss`, else `loss`, else the first that all have.
        maximize: True where a higher metric is the better one.
        stop_on_failure: start no more once one has failed, and end those that run.
    """

    max_parallel: int = defaults.MAX_PARALLEL
    metric: str | None = None
    maximize: bool = False
    stop_on_failure: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """One run of a sweep.

    Args:
        index: its place, from 0.
        name: of its job.
        job_dir: that job's folder on this machine.
        overrides: key → value, as text, without secrets. A deleted key is there as `~key` with an empty value.
        record: its job, once that has ended.
        problem: why it could not even be recorded.
        exit_code: of a member without a record that has a problem.
        was: how its job had ended when the sweep was written down last.
        waits: True where it has no job yet and the sweep goes on.
        before: names of the jobs it had before it was run again, the first one first.
        step: of a pipeline: what the stage is called.
        fingerprint: what it is made from.
        reused: whether an earlier
            run had made it.
    """

    index: int
    name: str
    job_dir: str
    overrides: Mapping[str, str]
    record: JobRecord | None = None
    problem: str = ""
    exit_code: int | None = None
    was: str = ""
    waits: bool = False
    before: tuple[str, ...] = ()
    step: str = ""
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    reused: bool = False

    @property
    def state(self) -> str:
        """Its job's state, or that there is no such job."""
        if self.record is not None:
            return self.record.state
        if self.problem:
            return "failed"
        return REMOVED if self.was else WAITING if self.waits else NOT_RUN

    @property
    def started(self) -> bool:
        """True if it ever had a job, or has failed before it got one. Looks for the job's folder where need be."""
        return bool(self.record or self.was or self.problem) or Path(self.job_dir).is_dir()

    @property
    def code(self) -> int | None:
        """The exit code, None where there is none."""
        return self.record.exit_code if self.record else self.exit_code

    @property
    def cause(self) -> str:
        """Why it ended as it did, in words."""
        return self.record.why if self.record else self.problem

    @property
    def metrics(self) -> Mapping[str, float]:
        """The last value of each metric."""
        return self.record.metrics if self.record else {}

    @property
    def log(self) -> Path:
        """What it printed."""
        return Path(self.job_dir) / "logs" / "job.log"

    @property
    def metrics_file(self) -> Path:
        """The JSON lines of its metrics, as they are on this machine."""
        return metrics_file(Path(self.job_dir))


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep.

    Args:
        group: its name, which the record of each of its jobs has as `group`.
        argv: the command line, redacted.
        created: when it was recorded, UTC, ISO 8601.
        ended: when it ended, None before.
        launcher: the process that runs it.
        host: the machine that has it.
        sweeper: of Hydra's, which chooses the values; None for a plain grid.
        profile, executor: where its members run.
        verdict: its state at its end, a name of `records.record.STATES`; empty before.
        exit_code: what it exited with
            then.
        cause: why it ended, where its members do not say it: a signal, or a sweeper that has failed.
        unattended: the platform runs all members; once they are submitted `launcher` is None, and no local process
            runs. The sweep's state is derived from theirs.
        tags, note: what a person has called it; its jobs have them too.
        kind: `SWEEP` or `PIPELINE`; a pipeline's `recipe` is its name.
    """

    group: str
    recipe: str
    created: str
    argv: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    members: tuple[Member, ...] = ()
    launcher: Launcher | None = None
    ended: str | None = None
    sweeper: str | None = None
    host: str = ""
    profile: str | None = None
    executor: str = ""
    verdict: str = ""
    exit_code: int | None = None
    cause: str = ""
    unattended: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""
    kind: str = SWEEP
    schema: int = SWEEP_SCHEMA

    @property
    def run_noun(self) -> str:
        """What one of its members is called."""
        return "step" if self.kind == PIPELINE else "run"

    @property
    def succeeded(self) -> int:
        """How many members have succeeded."""
        return sum(member.state == "succeeded" for member in self.members)


def new_group(labels: Labels, recipe: str) -> str:
    """`sweep-<recipe>-<MMDD>-<8 random characters>`, or with a name instead: valid wherever a job's name is."""
    return new_name(f"sweep-{subject(labels, recipe)}")


def new_sweep(labels: Labels, recipe: str) -> Sweep:
    """A sweep as far as it is known at first."""
    return Sweep(new_group(labels, recipe), recipe, now(), tags=labels.tags, note=redact_argv([labels.note])[0])


def options_of(plan: Plan, *, maximize: bool = False) -> Options:
    """How a plan's profile and command line want the sweep to be run.

    `sweep_metric` may end in `:max` where a higher value is better, as in `accuracy:max`, or in `:min`.
    """
    env = plan.run["env"]
    metric, _, direction = (env.get("sweep_metric") or "").partition(":")
    if direction not in ("", "min", "max"):
        raise UserError(
            f"sweep_metric ends in ':{direction}', and there are :min and :max",
            where=plan.sources["run.env.sweep_metric"].place() if "run.env.sweep_metric" in plan.sources else None,
        )
    higher = maximize or direction == "max"
    return Options(
        env.get("max_parallel") or defaults.MAX_PARALLEL, metric or None, higher, bool(env.get("stop_on_failure"))
    )


def member_of(index: int, plan: Plan) -> Member:
    """The member that a plan is for. Its folder is the one on this machine, wherever the job itself lies."""
    return Member(index, plan.name, str(paths.jobs_dir() / plan.name), overrides_of(plan.overrides))


def overrides_of(texts: Sequence[str]) -> dict[str, str]:
    """Key → value of overrides; `+` and `++` are left out, quotes around the value too."""
    pairs = (text.partition("=") for text in texts)
    return {key.lstrip("+"): _unquoted(value) for key, _, value in pairs}


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value

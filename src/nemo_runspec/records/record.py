"""The record of one job, and its states."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.lifecycle import Attempt, Cancellation, Deadlines, Launcher, Relations

RECORD_SCHEMA = 2


@dataclass(frozen=True, slots=True)
class State:
    """One state a job may be in. `final`: it has ended; `then`: the states that may follow."""

    final: bool
    then: tuple[str, ...] = ()


_ENDS = ("succeeded", "failed", "cancelled", "lost", "unknown")

STATES: Mapping[str, State] = {
    "planned": State(False, ("planned", "submitting", "queued", "starting", "running", *_ENDS)),
    "submitting": State(False, ("queued", "starting", "running", *_ENDS)),
    "queued": State(False, ("starting", "running", *_ENDS)),
    "starting": State(False, ("queued", "running", *_ENDS)),
    "running": State(False, ("queued", "starting", *_ENDS)),
    "succeeded": State(True),
    "failed": State(True),
    "cancelled": State(True),
    "lost": State(False, ("queued", "starting", "running", "succeeded", "failed", "cancelled", "unknown")),
    "unknown": State(False, ("queued", "starting", "running", "succeeded", "failed", "cancelled", "lost")),
}
"""`lost`: what watched over it is gone and it left no exit marker. `unknown`: it cannot be known from here."""


BEFORE_A_RUN = frozenset({"planned", "submitting", "queued", "starting"})
"""States after which `running` is a run that begins. After `unknown` and `lost` it is the one that was there before."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A state, when it began (UTC, ISO 8601), and why."""

    state: str
    time: str
    reason: str = ""


class StoredHandle(dict[str, Any]):
    """A stored handle. What a damaged one lacks is an error for the person, wherever it is asked for."""

    def __missing__(self, key: str) -> Any:
        raise UserError(
            f"the job's record is damaged: its handle lacks '{key}', by which its platform is asked",
            remedy="nemotron jobs rm --force takes the record away; the job itself, its platform's own tools end",
        )


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job.

    Args:
        argv: the command line, redacted.
        cwd, user, host: where it was typed.
        commit: of the code package, None without one.
        states: oldest first; the last is the job's state.
        elapsed: seconds from `running` to the end, None before.
        signal: number of the signal that ended it.
        cause: why it failed, in words.
        outputs: name → path of what it produced.
        inputs: name → path of what it reads, as far as it is known: the
            newest version of an artifact once the job that reads it has said which one it was.
        launcher: None for a job that nobody watches over from here.
        process: the job script's own process, for a job of this machine.
        container: the id of the one it runs in.
        group: the sweep it is a member of.
        overrides: what was set on the command line, redacted.
        package: what of the user's code travelled: `kind`, `digest`, `commit`, `root`, and how many files stayed
            behind as `uncommitted` and `untracked`.
        retry_of: the job this one repeats.
        metrics: the last value of each, written when the job has ended.
        handle: of a job that runs elsewhere, how its backend finds it there (`backends.provider.Handle`); the backend's
            own, but for its `id`.
        job_dir: its directory where it runs, as its plan has it; '' for a job of this machine.
        attempt: None for a job that nemotron does not submit again.
        deadlines: None for one that may wait for ever.
        cancellation: None as long as nobody wants it to stop.
        sent: when the request that makes it was sent, seconds since 1970, as long as its answer is not known: the job
            may still come to be. Where a submission is made under a lock, as Slurm's is, there is no such doubt.
        staged: its files are there, and a person submits it.
        relations: how it stands to jobs that make what others read.
        facts: what that platform said of it when it was last asked.
        tags, note: what a person has called it.
        total_steps: how many its config says, None where it does not.
        wandb: its run on W&B, empty for a job without: `id`, and what the job has told of it (`script.wandb_run`).
        image: the container image that it has built, as it tells of it itself (`script.image_made`); empty for others.
        on_end: the command that is run here once it has ended.
        diagnosis: why it failed: `kind`, `what`, `evidence`, `remedy`.
    """

    name: str
    recipe: str
    config: str | None
    profile: str | None
    executor: str
    mode: str
    argv: tuple[str, ...]
    cwd: str
    user: str
    host: str
    commit: str | None
    states: tuple[Transition, ...]
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    elapsed: float | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    launcher: Launcher | None = None
    process: Launcher | None = None
    group: str | None = None
    overrides: tuple[str, ...] = ()
    package: Mapping[str, Any] = field(default_factory=dict)
    container: str | None = None
    retry_of: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    handle: Mapping[str, Any] = field(default_factory=dict)
    job_dir: str = ""
    facts: JobFacts = field(default_factory=JobFacts)
    diagnosis: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    attempt: Attempt | None = None
    deadlines: Deadlines | None = None
    cancellation: Cancellation | None = None
    sent: float | None = None
    staged: bool = False
    relations: Relations = field(default_factory=Relations)
    tags: tuple[str, ...] = ()
    note: str = ""
    total_steps: float | None = None
    wandb: Mapping[str, str] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    on_end: str = ""
    schema: int = RECORD_SCHEMA

    def __post_init__(self) -> None:
        if isinstance(self.handle, dict) and not isinstance(self.handle, StoredHandle):
            object.__setattr__(self, "handle", StoredHandle(self.handle))

    @property
    def state(self) -> str:
        """The state it is in."""
        return self.states[-1].state

    @property
    def reason(self) -> str:
        """Why it is in that state, if more is known than the state."""
        return self.states[-1].reason

    @property
    def why(self) -> str:
        """The same for a line of its own: what is known of a failure's cause, else the reason, else how it ended."""
        return str(self.diagnosis.get("what") or self.reason or self.cause)

    @property
    def id(self) -> str:
        """What its platform calls it, '' where that is not known."""
        return str(self.handle.get("id") or "")

    @property
    def submitted(self) -> bool:
        """True for a job of another machine that is known there by its id."""
        return bool(self.id)

    @property
    def stopped_by(self) -> str:
        """Who wanted it to stop, '' where nobody does."""
        return self.cancellation.by if self.cancellation else ""

    @property
    def created(self) -> str:
        """When it was recorded, UTC, ISO 8601."""
        return self.states[0].time

    @property
    def ended(self) -> bool:
        """True once nothing more will happen to it."""
        return STATES[self.state].final

    @property
    def over(self) -> bool:
        """True where there is nothing to wait for: it has ended, or it is lost."""
        return is_over(self.state)

    @property
    def unread(self) -> str:
        """Of a job that has ended: why its exit code, or what it has made, is not known yet; '' where all is."""
        return self.facts.unread if self.ended else ""

    @property
    def changed(self) -> str:
        """When it came into its state, UTC, ISO 8601."""
        return self.states[-1].time

    @property
    def running_since(self) -> datetime | None:
        """When its newest run began, None without one. That it could not be seen meanwhile does not begin another."""
        began = ""
        for step in self.states:
            if step.state == "running":
                began = began or step.time
            elif step.state in BEFORE_A_RUN:
                began = ""
        return datetime.fromisoformat(began) if began else None

    def when(self, state: str) -> datetime | None:
        """When it last came into a state, None if it never did."""
        times = [t.time for t in self.states if t.state == state]
        return datetime.fromisoformat(times[-1]) if times else None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A job whose record cannot be read, and why, as the end of a sentence. `created`: when its folder was changed."""

    name: str
    problem: str
    created: str = ""
    state: str = "unknown"


def is_over(state: str) -> bool:
    """True for a state after which there is nothing to wait for."""
    return STATES[state].final or state == "lost"


def code_and_why(exit_code: int | None, why: str) -> str:
    """How a job ended, to be put behind its state: `, exit code 3: rank 1 …`; nothing of it is said twice."""
    code = "" if exit_code is None else f"exit code {exit_code}"
    if code and re.match(rf"{code}(?!\d)", why):
        return f", {why}"
    return f"{f', {code}' if code else ''}{f': {why}' if why else ''}"


def now() -> str:
    """This moment, UTC, ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def moment(seconds: float) -> str | None:
    """Seconds since 1970 in the same words; None for what is no time."""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None

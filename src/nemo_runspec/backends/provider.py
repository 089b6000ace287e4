"""The interface of a backend whose jobs run elsewhere: a few requests, each for any number of jobs at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from nemo_runspec.backends.base import Rendering
from nemo_runspec.console import Say
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.plans.model import AutoMount, BundleFile, Plan
from nemo_runspec.records.lifecycle import Attempt, Deadlines
from nemo_runspec.records.record import JobRecord
from nemo_runspec.records.status import JobStatus
from nemo_runspec.submission.request import Submission

Json: TypeAlias = "None | bool | int | float | str | Sequence[Json] | Mapping[str, Json]"

Cursors = Mapping[str, Json]
"""How far each log of a job was read, by `LogChunk.path`: the backend's own JSON, None or missing for the beginning."""

Handle = Mapping[str, Any]
"""How a backend finds a job again, from any process and days later: plain JSON, kept in the job's record, no secret.

The backend's own JSON, whatever its keys are called. Whatever knows no backend asks the record (`JobRecord.id`) or the
provider; it writes the `id` of a job that was found by its name, and shows what the backend names in `handle_place`.
"""


@dataclass(frozen=True)
class JobRef(Mapping[str, Any]):
    """A job as its platform is asked how it is. Reads as its handle.

    Args:
        stopped_by: who wanted it to stop, '' where nobody does.
    """

    handle: Handle
    stopped_by: str = ""

    def __getitem__(self, key: str) -> Any:
        return self.handle[key]

    def __contains__(self, key: object) -> bool:
        return key in self.handle

    def get(self, key: str, default: Any = None) -> Any:
        """As a mapping's; what a damaged handle lacks is an error only where it is needed."""
        return self.handle.get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.handle)

    def __len__(self) -> int:
        return len(self.handle)


@dataclass(frozen=True, slots=True)
class Policy:
    """What nemotron itself does about a job of a plan.

    Args:
        attempt: None where it is not submitted again.
        deadlines: None where it may wait for ever.
    """

    attempt: Attempt | None = None
    deadlines: Deadlines | None = None


@dataclass(frozen=True, slots=True)
class LogChunk:
    """New bytes of one of a job's logs.

    Args:
        path: which of them.
        start: the offset of these bytes; 0 where a platform does not count bytes.
        more: there is more already.
        silent: of a file that is no log, but says by growing that the job's state is about to change.
        next: the cursor to go on from, for a platform that does not count bytes; its chunks are whole lines.
    """

    path: str
    start: int
    content: bytes
    more: bool = False
    silent: bool = False
    next: Json = None

    @property
    def cursor(self) -> Json:
        """Where the next question begins: the backend's own JSON, else the offset after these bytes."""
        return self.start + len(self.content) if self.next is None else self.next


def offset_of(cursor: Json) -> int:
    """The bytes of a file that were read, where a cursor counts them; 0 for any other."""
    return cursor if isinstance(cursor, int) else 0


@dataclass(frozen=True, slots=True)
class Results:
    """What is fetched once a job is over.

    Args:
        history: the metrics it wrote, as JSON lines, downsampled: the last value of each of them and their curves.
        outputs: name → path of what is there.
        diagnosis: of a failure.
        lost_lines: how many lines of its output are in no log.
        inputs: name → path of the version that it has read, where it found that out itself.
        wandb: its run on W&B, see `script.wandb_run`.
    """

    history: bytes = b""
    outputs: Mapping[str, str] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    lost_lines: int = 0
    inputs: Mapping[str, str] = field(default_factory=dict)
    wandb: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """What a platform has written down about a job.

    Args:
        time: seconds since 1970, None where it is not said.
        count: how often.
        kind: `Normal` or `Warning`.
        reason: one word of the platform's.
        about: which of its objects.
    """

    time: float | None
    kind: str
    reason: str
    message: str = ""
    about: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod of a job.

    Args:
        id: the platform's.
        index: the node's rank, None where it is not known.
        state: in a word or two of the platform's, such as `Ready` or `InProgress`.
        message: in its words.
        problem: why it does not run, in our words, '' where it does: `pulling the image`, `no capacity`.
        cpus, memory_mb: what it has, None where the platform does not say.
    """

    id: str
    index: int | None
    node: str = ""
    state: str = ""
    message: str = ""
    problem: str = ""
    group: str = ""
    cpus: float | None = None
    memory_mb: int | None = None


@dataclass(frozen=True)
class Parts:
    """What travels with a plan.

    Args:
        contents: the recipe's files.
        archive: the code package, None without one.
        mounts: repositories, checked out on this machine at their commits.
    """

    contents: Mapping[BundleFile, bytes]
    archive: Path | None = None
    mounts: Sequence[AutoMount] = ()


@dataclass(frozen=True)
class Prepared:
    """A job whose files are where it will run, not submitted yet.

    Args:
        handle: how it is found.
        rendering: the exact texts, placeholders filled.
        by_hand: how a person goes on without nemotron, as lines.
    """

    handle: Handle
    rendering: Rendering
    plan: Plan
    by_hand: Sequence[str] = ()


def handle_id(handle: Handle) -> str:
    """What the platform calls the job, '' as long as it has not said so."""
    return str(handle.get("id") or "")


def changes(before: Handle, after: Handle) -> dict[str, Any]:
    """What another handle of the same job has that this one has not: all that the store is told, which keeps the rest.

    A key that is missing stays; one that is None goes.
    """
    return {key: value for key, value in after.items() if before.get(key) != value}


def ref_of(record: JobRecord) -> JobRef:
    """A job as its platform is asked how it is."""
    return JobRef(record.handle, record.stopped_by)


class Provider(ABC):
    """The errands. Every one may raise `UserError`; `transport.base.Unreachable` where trying later may help."""

    def check(self, plan: Plan) -> None:  # noqa: B027 - most plans have nothing to be refused
        """Refuses a plan that cannot be submitted, before anything is written down. No network."""

    @abstractmethod
    def make_handle(self, plan: Plan) -> Handle:
        """Makes a job's handle, as far as it is known before anything is asked. No network."""

    def policy(self, plan: Plan) -> Policy:
        """What is to be done about a job of the plan that waits for too long, or fails through no fault of its own."""
        return Policy()

    @abstractmethod
    def prepare(self, submission: Submission, parts: Parts, say: Say) -> Prepared:
        """Puts the job's files where it will run; a second call goes on where the first one was cut off."""

    @abstractmethod
    def submit(self, prepared: Prepared, say: Say) -> Handle:
        """Submits exactly once, however often it is called; the handle with the platform's id."""

    @abstractmethod
    def status(self, handles: Sequence[JobRef], *, places: bool = False) -> Sequence[JobStatus]:
        """Polls jobs: a status each, in their order; all on the same `endpoint`. One round trip for one host.

        A handle without an id is looked for by its name; `JobStatus.gone` where there is no such job. A job of which
        the answer makes no sense is `unknown`.

        Args:
            places: also where waiting jobs stand in the queue.
        """

    def endpoint(self, handle: Handle) -> str:
        """What tells machines apart: handles with the same answer are asked about together. No network."""
        return ""

    def same_endpoint(self, plan: Plan, handle: Handle) -> bool:
        """True if a job of the plan would be on the machine where the handle's job is. No network."""
        return self.endpoint(self.make_handle(plan)) == self.endpoint(handle)

    @abstractmethod
    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        """Asks jobs to stop; `hard`: ends them. One that is over is left as it is."""

    @abstractmethod
    def read_log(self, handle: Handle, cursors: Cursors, limit: int, *, platform: bool = False) -> Sequence[LogChunk]:
        """What is new in a job's logs, the oldest attempt first.

        Args:
            cursors: of the last chunk of each log, as they came from JSON.
            limit: bytes in all.
            platform: what the platform itself wrote about the job instead, such as a batch script's output.
        """

    @abstractmethod
    def collect(self, handles: Sequence[Handle], seen: Sequence[JobStatus]) -> Sequence[Results]:
        """Collects the results of ended jobs, in their order, and removes their secrets. All on the same `endpoint`."""

    @abstractmethod
    def delete_files(self, handle: Handle) -> None:
        """Removes the job's directory there."""

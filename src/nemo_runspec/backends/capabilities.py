"""Capabilities that only some platforms have: base classes of providers, asked for with `isinstance`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.provider import Event, Handle, LogChunk, Parts, Provider, Replica
from nemo_runspec.console import Say
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.plans.model import Plan
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.enter import ShellRequest

if TYPE_CHECKING:
    from nemo_runspec.submission.request import Submission
    from nemo_runspec.transport.base import Host
    from nemo_runspec.transport.tree import FileStore


class LimitsUploads(Provider):
    """A platform that takes files up to a size that shows once all is packed."""

    @abstractmethod
    def check_size(self, submission: Submission, texts: Mapping[str, str], parts: Parts) -> None:
        """Refuses what is packed and cannot reach the pods, before anything is written down. May ask a git server.

        Args:
            texts: the job's own, by name.

        Raises:
            UserError: it does not fit, or the server says no.
        """


class ResolvesPlaceholders(Provider):
    """A platform that alone knows some values of what is sent, such as ids."""

    @abstractmethod
    def resolve(self, submission: Submission, parts: Parts, say: Say) -> Rendering:
        """The exact texts of a submission, as far as the platform can be asked for them now. Changes nothing there."""


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """Where the files of a job can be had.

    Args:
        store: reads them.
        root: where other paths begin.
        outputs: its outputs by name, where the platform knows them better than the job's record does.
    """

    store: FileStore
    root: str
    outputs: Mapping[str, str] | None = None


class KeepsFiles(Provider):
    """A platform whose jobs' files can be had from here, by a machine that sees them or where they were uploaded to."""

    @abstractmethod
    def files_of(self, handle: Handle, plan: Plan) -> KeptFiles:
        """Where they are. Raises `UserError`: nowhere."""


class KeepsStore(Provider):
    """A platform one of whose machines sees the folder where its jobs keep artifacts."""

    @abstractmethod
    def store_of(self, plan: Plan, root: str) -> tuple[Host | None, str]:
        """The machine, None for this one, and the folder as that machine names it; `$HOME` in it is filled in there.

        Args:
            root: the folder as the plan's job names it.

        Raises:
            UserError: none of them sees it.
        """


class ForwardsPorts(Provider):
    """A platform whose running jobs' ports can be reached from here."""

    @abstractmethod
    def forward(self, handle: Handle, node: str, port: int, here: int) -> Sequence[str]:
        """The command that lets a port of this machine lead to one of a job's node, for as long as it runs.

        Args:
            node: as the platform lists it.
            port: there.
            here: on this machine.
        """


class OpensShells(Provider):
    """A platform that lets a person into a running job."""

    @abstractmethod
    def shell(self, handle: Handle, entry: ShellRequest) -> Sequence[str]:
        """The command of this machine that runs `entry.words` beside a job's command; its exit code is theirs."""


class ListsReplicas(Provider):
    """A platform whose jobs are replicas that can be listed."""

    @abstractmethod
    def replicas(self, handle: Handle) -> Sequence[Replica]:
        """The pods of a job, by their index."""


class ListsEvents(Provider):
    """A platform that writes down what happens to a job."""

    @abstractmethod
    def events(self, handle: Handle) -> Sequence[Event]:
        """What the platform has written down about a job, the oldest first."""


class Diagnoses(Provider):
    """A platform that can be asked why a job does not start, or has failed."""

    @abstractmethod
    def diagnose(self, handle: Handle, seen: JobStatus) -> Diagnosis | None:
        """Why a job failed, or does not start; None where nothing is wrong."""


class KeepsJobs(Provider):
    """A platform that keeps a job's log only as long as the job itself, which can be deleted there."""

    @abstractmethod
    def delete_remote(self, handle: Handle) -> Sequence[str]:
        """Deletes what the platform keeps of a job, which ends one that still runs; a line for each thing deleted."""


class Resubmits(Diagnoses):
    """A platform on which nemotron itself starts a failed job once more."""

    @abstractmethod
    def next_attempt(self, handle: Handle, number: int) -> Handle:
        """How the attempt after this one is found as long as its id is not known. No network.

        Args:
            number: which one that is, from 0; the record counts them.
        """

    @abstractmethod
    def resubmit(self, handle: Handle, avoid: Sequence[str], folder: Path, *, resumed: bool = False) -> Handle:
        """Submits a failed job once more, exactly as before; the handle with its id.

        A second call finds what the first one has submitted.

        Args:
            handle: as `next_attempt` has made it.
            avoid: nodes it is not to run on.
            folder: the job's on this machine, with the texts that were sent.
            resumed: another process has begun to, so it may have been sent.
        """


class CloudProvider(LimitsUploads, ResolvesPlaceholders, ListsReplicas, ListsEvents, KeepsJobs, Resubmits):
    """A platform of pods with an API."""


class JobArray(ABC):
    """Jobs of one shape as a platform takes them together. `open`, then `send`, then `submit`."""

    @abstractmethod
    def open(self, archive: Path | None, say: Say) -> None:
        """Asks the platform what must be known before anything is written down; refuses what it would refuse."""

    @abstractmethod
    def handles(self) -> Sequence[Handle]:
        """How each job is found, in their order."""

    @abstractmethod
    def job_dirs(self) -> Sequence[str]:
        """Each job's directory where it runs, in their order."""

    @abstractmethod
    def texts(self, task: int) -> Mapping[str, str]:
        """What is kept here of what a job is sent with, by path; programs of ours are named."""

    @abstractmethod
    def send(self, parts: Parts, secrets: Sequence[Mapping[str, str]], say: Say) -> None:
        """Puts the files of all where they will run; a second call goes on where the first one was cut off.

        Args:
            secrets: each job's, in their order.
        """

    @abstractmethod
    def submit(self, say: Say) -> Sequence[Handle]:
        """Submits all of them exactly once, however often it is called; their handles with the platform's ids."""

    @abstractmethod
    def remove(self) -> None:
        """Removes the files of all."""


class SubmitsArrays(Provider):
    """A provider whose platform takes several jobs together."""

    @abstractmethod
    def array_key(self, plan: Plan) -> str | None:
        """Plans with the same answer can go together; None for one that cannot."""

    @abstractmethod
    def make_array(self, name: str, plans: Sequence[Plan], *, parallel: int | None, ends_all: bool) -> JobArray:
        """The jobs of plans of one shape.

        Args:
            name: unique, as a job's.
            parallel: how many may run at a time; None for as many as there is room.
            ends_all: one that fails ends all others.
        """

    @abstractmethod
    def renderings(
        self, name: str, plans: Sequence[Plan], *, parallel: int | None, ends_all: bool
    ) -> Sequence[Rendering]:
        """What `group` would send, for each of the plans. Pure."""

    @abstractmethod
    def read_metrics(
        self, handles: Sequence[Handle], sizes: Sequence[int], limit: int
    ) -> Sequence[tuple[int, LogChunk]]:
        """Reads new bytes of the jobs' `metrics.jsonl`, each with its job's place. All on the same `endpoint`.

        Args:
            sizes: how much of each is known.
            limit: bytes in all.
        """

    @abstractmethod
    def in_array(self, handle: Handle) -> bool:
        """True if the job was submitted together with others, and shares their files."""

    @abstractmethod
    def delete_all_files(self, handles: Sequence[Handle]) -> None:
        """Removes the directories of jobs that were submitted together. All on the same `endpoint`."""

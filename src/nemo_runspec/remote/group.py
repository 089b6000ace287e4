"""Several jobs on their way to another machine together: all recorded, their files sent in one go, submitted once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar

from nemo_runspec import paths
from nemo_runspec.backends import find_backend, get_backend
from nemo_runspec.backends.capabilities import SubmitsArrays
from nemo_runspec.backends.provider import Handle, Parts, changes, handle_id
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError, first_line
from nemo_runspec.packaging.mounts import provide_mounts
from nemo_runspec.plans.model import BundleFile
from nemo_runspec.records import JobEnded, JobRecord, JobStore
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.remote.input_jobs import relate
from nemo_runspec.remote.recorded import recorded
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.spinner import Spinner
from nemo_runspec.submission.bundle import read_bundle, write_bundle
from nemo_runspec.submission.layout import keep_package, packed
from nemo_runspec.submission.mount_commits import write_mounts
from nemo_runspec.submission.request import Submission
from nemo_runspec.text import count
from nemo_runspec.transport.base import Unreachable

_WRITERS = 16
"""Records written at a time: most of it is waiting for the disk."""

_T = TypeVar("_T")
_R = TypeVar("_R")


def array_provider(executor: str) -> SubmitsArrays:
    """The provider of an executor that takes several jobs together."""
    provider = get_backend(executor).load_provider()
    assert isinstance(provider, SubmitsArrays), f"{executor} takes no jobs together"
    return provider


class RemoteGroup:
    """Jobs of one shape to be submitted together. `record_jobs`, then `submit`.

    Args:
        name: unique, as a job's is.

    Raises:
        UserError: something the jobs need is not so, or the platform would refuse them; nothing has happened then.
    """

    def __init__(
        self, name: str, submissions: Sequence[Submission], *, parallel: int | None, ends_all: bool, say: Say
    ) -> None:
        self.name = name
        self.submissions = submissions
        self.say = say
        self.store = JobStore()
        self.records: list[JobRecord] = []
        plans = [each.plan for each in submissions]
        self.provider = array_provider(plans[0].executor)
        self.group = self.provider.make_array(name, plans, parallel=parallel, ends_all=ends_all)
        contents, archive = read_bundle(plans[0].bundle), packed(plans[0], None, say)
        self.parts = Parts(contents, archive, provide_mounts(plans[0].auto_mounts, say))
        self.group.open(archive, say)

    def record_jobs(self) -> None:
        """Writes all of them down, each with all that a retry needs."""
        handles, folders = self.group.handles(), self.group.job_dirs()
        relate(self.store, self.submissions[0].needs, [each.plan.name for each in self.submissions])
        self._record(0, handles[0], folders[0])
        self.records = at_once(lambda task: self._record(task, handles[task], folders[task]), range(len(handles)))

    def submit(self) -> list[JobRecord]:
        """Sends the recorded jobs and submits them; the records with their ids there.

        Raises:
            UserError: they were refused, and are written down as failed; nothing of them is left there.
            Unreachable, NotSubmitted: it is not known whether they were submitted. Their records stay as they are, so
                that the next command that asks about them finds out.
        """
        try:
            with Spinner(f"sending the files of {count(len(self.submissions), 'job')}"):
                self.group.send(self.parts, [each.secrets for each in self.submissions], self.say)
        except UserError as error:
            self._refused(error)
            raise
        try:
            with Spinner(f"submitting {count(len(self.submissions), 'job')}"):
                handles = self.group.submit(self.say)
        except UserError as error:
            if not error.transient:
                self._refused(error)
            raise
        pairs = zip(self.records, handles, strict=True)
        self.records = at_once(lambda pair: _queued(self.store, *pair), pairs)
        return self.records

    def _record(self, task: int, handle: Handle, job_dir: str) -> JobRecord:
        given = self.submissions[task]
        if self.store.exists(given.plan.name):
            return self.store.by_name(given.plan.name)
        files = {Path(name).name: text for name, text in self.group.texts(task).items()}
        record = recorded(self.store, given, self.provider, handle, files, job_dir)
        folder = self.store.folder(record.name)
        self._keep_bundle(Path(JobLayout(str(folder)).bundle))
        write_mounts(folder, self.parts.mounts)
        if self.parts.archive is not None:
            keep_package(self.parts.archive, folder)
        return record

    def _keep_bundle(self, folder: Path) -> None:
        """The first job's are files, those of the others second names for them, where the file system has such."""
        first = Path(JobLayout(str(self.store.folder(self.submissions[0].plan.name))).bundle)
        if folder == first:
            write_bundle(dict(self.parts.contents), folder)
        else:
            _link_all(self.parts.contents, first, folder)

    def _refused(self, error: UserError) -> None:
        """Writes down why they were not submitted, and takes their files away again, the secrets among them."""
        cause = f"not submitted: {first_line(error)}"
        self.records = at_once(lambda record: _failed(self.store, record, error.exit_code, cause), self.records)
        try:
            self.group.remove()
        except UserError as left:
            if type(error) is not Unreachable:  # where nothing answered at all, nothing is there
                self.say(f"{self.name}: its files may still be there: {first_line(left)}")


def clear_together(records: Iterable[JobRecord]) -> set[str]:
    """Removes what is left elsewhere of jobs that were submitted together and are over: one round trip per machine.

    Returns: the names of those jobs. What cannot be removed now is left to be removed, and refused, one by one.
    """
    groups: dict[tuple[str, str], list[JobRecord]] = {}
    for record in records:
        if record.over and (provider := _provider_in_array(record)):
            groups.setdefault((record.executor, provider.endpoint(record.handle)), []).append(record)
    done: set[str] = set()
    for (executor, _), some in groups.items():
        with suppress(UserError):
            array_provider(executor).delete_all_files([record.handle for record in some])
            done |= {record.name for record in some}
    return done


def _provider_in_array(record: JobRecord) -> SubmitsArrays | None:
    """Its provider where the job was submitted together with others; None for any other job."""
    backend = find_backend(record.executor) if record.handle else None
    provider = backend.load_provider() if backend and backend.provider else None
    return provider if isinstance(provider, SubmitsArrays) and provider.in_array(record.handle) else None


def at_once(work: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """What the work makes of each, in their order, several at a time."""
    with ThreadPoolExecutor(_WRITERS, "record") as pool:
        return list(pool.map(work, items))


def _queued(store: JobStore, record: JobRecord, handle: Handle) -> JobRecord:
    try:
        known = changes(record.handle, handle)
        return store.transition(record, "queued", handle=known, facts=JobFacts(id=handle_id(handle), attempt=0))
    except JobEnded as error:
        return error.record


def _failed(store: JobStore, record: JobRecord, code: int, cause: str) -> JobRecord:
    try:
        return store.finish(record, "failed", exit_code=code, cause=cause)
    except JobEnded as error:
        return error.record


def _link_all(files: Iterable[BundleFile], source: Path, target: Path) -> None:
    for file in files:
        path = PurePosixPath(file.path)
        paths.private_dir((target / path).parent)
        with suppress(OSError):
            os.link(source / path, target / path)
            continue
        shutil.copy2(source / path, target / path)

"""One job on its way to another machine: recorded before anything is done for it, its files sent, submitted once."""

from __future__ import annotations

import time
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.capabilities import LimitsUploads
from nemo_runspec.backends.provider import Parts, Prepared, changes, handle_id
from nemo_runspec.console import Say
from nemo_runspec.errors import Code, UserError, first_line
from nemo_runspec.packaging.mounts import provide_mounts
from nemo_runspec.records import JobEnded, JobRecord, JobStore
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.remote.input_jobs import relate
from nemo_runspec.remote.recorded import recorded
from nemo_runspec.remote.unconfirmed import is_unconfirmed
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.spinner import Spinner
from nemo_runspec.submission.bundle import read_bundle, write_bundle
from nemo_runspec.submission.layout import job_files, keep_package, packed, recorded_files
from nemo_runspec.submission.mount_commits import write_mounts
from nemo_runspec.submission.request import Submission
from nemo_runspec.transport.base import Unreachable


class RemoteJob:
    """One plan to be submitted. `record_job`, then `submit`, or `stage` alone.

    Raises:
        UserError: something the job needs is not so; nothing has happened then.
    """

    def __init__(self, submission: Submission, say: Say) -> None:
        self.submission = submission
        self.plan = submission.plan
        self.say = say
        self.store = JobStore()
        self.folder = self.store.folder(self.plan.name)
        self.provider = get_backend(self.plan.executor).load_provider()
        self.record: JobRecord
        self.provider.check(self.plan)
        contents, archive = read_bundle(self.plan.bundle), packed(self.plan, submission.retried, say)
        self.parts = Parts(contents, archive, provide_mounts(self.plan.auto_mounts, say))
        if isinstance(self.provider, LimitsUploads):
            self.provider.check_size(submission, job_files(self.plan, self._rendering()), self.parts)

    def record_job(self) -> None:
        """Writes the job down, with all that a retry needs."""
        files = {Path(name).name: text for name, text in recorded_files(self.plan, self._rendering()).items()}
        relate(self.store, self.submission.needs, [self.plan.name])
        self.record = recorded(self.store, self.submission, self.provider, self.provider.make_handle(self.plan), files)
        write_bundle(dict(self.parts.contents), Path(JobLayout(str(self.folder)).bundle))
        write_mounts(self.folder, self.parts.mounts)
        if self.parts.archive is not None:
            keep_package(self.parts.archive, self.folder)

    def submit(self) -> JobRecord:
        """Sends the recorded job and submits it; the record with its id there.

        Raises:
            UserError: it was refused, and is written down as failed; nothing of it is left there.
            Unreachable, NotSubmitted: it is not known whether it was submitted. Its record stays as it is, so that the
                next command that asks about it finds out.
        """
        self.record = self.store.transition(self.record, "submitting")
        prepared = self._prepare()
        self._on_its_way()
        try:
            with Spinner(f"submitting {self.plan.name}"):
                handle = self.provider.submit(prepared, self.say)
        except UserError as error:
            if not error.transient:
                self._refused(error)
            else:
                self._on_its_way()
            raise
        known = changes(self.record.handle, handle)
        facts = JobFacts(id=handle_id(handle), attempt=0)
        self.record = self.store.transition(self.record, "queued", handle=known, sent=None, facts=facts)
        return self.record

    def stage(self) -> Prepared:
        """Sends the recorded job's files and submits nothing.

        Raises:
            UserError: they cannot be sent.
        """
        prepared = self._prepare()
        known = changes(self.record.handle, prepared.handle)
        why = "its files are there; not submitted"
        self.record = self.store.transition(self.record, "planned", why, handle=known, staged=True)
        self.record = self.store.note(self.record, launcher=None)
        return prepared

    def _prepare(self) -> Prepared:
        """The job's files there; where it lies, and the exact texts, are written down before it is submitted.

        Raises:
            UserError: nothing was submitted, and the record says so.
        """
        try:
            with Spinner(f"sending the files of {self.plan.name}"):
                prepared = self.provider.prepare(self.submission, self.parts, self.say)
        except UserError as error:
            self._refused(error)
            raise
        self._keep(prepared.rendering)
        known = changes(self.record.handle, prepared.handle)
        self.record = self.store.note(self.record, handle=known, job_dir=prepared.plan.job_dir)
        return prepared

    def _on_its_way(self) -> None:
        """Writes down that a request goes out now, or has gone out, of which it is not known what became."""
        if is_unconfirmed(self.record):
            self.record = self.store.note(self.record, sent=time.time())

    def _keep(self, rendering: Rendering) -> None:
        for file in rendering.files:
            paths.write_private(self.folder / Path(file.name).name, file.text)

    def _rendering(self) -> Rendering:
        rendering = get_backend(self.plan.executor).make_rendering(self.plan)
        assert rendering is not None, f"executor {self.plan.executor} has a provider and no renderer"
        return rendering

    def _refused(self, error: UserError) -> None:
        """Writes down why it was not submitted, and takes its files away again, the secrets among them.

        Where a connection was lost that is said, too: whoever reads of it would think that a job may run.
        """
        cause = f"not submitted: {first_line(error)}"
        if error.transient and error.code is not Code.NOT_SUBMITTED:
            error.what, error.code = f"{error.what}; nothing was submitted", Code.NOT_SUBMITTED
            error.args = (error.what,)
        try:
            self.record = self.store.finish(self.record, "failed", exit_code=error.exit_code, cause=cause)
            self.provider.delete_files(self.record.handle)
        except JobEnded as ended:
            self.record = ended.record
        except UserError as left:
            if type(error) is not Unreachable:  # where nothing answered at all, nothing is there
                self.say(f"{self.plan.name}: its files may still be there: {first_line(left)}")

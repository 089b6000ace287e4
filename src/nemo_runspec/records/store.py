"""The store: one folder per job, `record.json` in it. What it answers is true at the moment it is asked.

A folder appears whole, every change is written whole and under the job's lock on the record as it is then, so a process
killed at any point leaves nothing unreadable, and two of them cannot undo each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.locks import Busy
from nemo_runspec.records.codec import from_json, to_json
from nemo_runspec.records.erase import NEW, OLD, erase, erase_if_left_over, hidden
from nemo_runspec.records.index import Entry, Index, changed_at, entry_of, stamp_of
from nemo_runspec.records.lifecycle import Launcher
from nemo_runspec.records.lock import locked
from nemo_runspec.records.on_end import run_on_end
from nemo_runspec.records.planned import planned_record
from nemo_runspec.records.record import JobRecord, Transition, Unreadable, now
from nemo_runspec.records.reference import find_one, unknown_job
from nemo_runspec.records.refresh import is_believed, seen_now
from nemo_runspec.records.transitions import JobEnded, after, corrected, numbers, replaced
from nemo_runspec.records.unregistered import lacks_registration, mark
from nemo_runspec.regular import NotRegular, is_kept, read_regular_text

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Plan

__all__ = ["RECORD", "JobEnded", "JobStore"]

RECORD = "record.json"


class JobStore:
    """Job records below one folder.

    Args:
        root: by default `paths.jobs_dir()`. It is made when the first job is.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or paths.jobs_dir()

    def folder(self, name: str) -> Path:
        """A job's folder."""
        return self.root / name

    def exists(self, name: str) -> bool:
        """True if a job of that name was ever recorded."""
        return os.path.lexists(self.folder(name))

    def create(
        self,
        plan: Plan,
        *,
        plan_text: str,
        argv: Sequence[str],
        secret_values: Iterable[str] = (),
        launcher: Launcher | None = None,
        files: Mapping[str, str] | None = None,
        **known: Any,
    ) -> JobRecord:
        """Records a job before anything else is done for it: state `planned`.

        Args:
            plan_text: the plan's JSON.
            files: further files of the job, by name.
            secret_values: to be kept out of `argv` and the overrides.
            known: further fields of the record: the job that it repeats (`retry_of`), the `group` it is a member of; of
                a job that will run elsewhere its `handle` and what is kept beside that.

        Raises:
            UserError: a job of that name exists, or its folder cannot be written.
        """
        record = planned_record(plan, argv, secret_values, launcher=launcher, **known)
        scratch = self.root / hidden(NEW, plan.name)
        try:
            if self.exists(plan.name):
                raise FileExistsError
            paths.private_dir(self.root)
            scratch.mkdir(mode=0o700)
            for name, text in {RECORD: to_json(record), "plan.json": plan_text, **(files or {})}.items():
                paths.write_private(scratch / name, text)
            scratch.rename(self.folder(plan.name))
        except BaseException as error:
            with suppress(OSError):
                erase(scratch)
            if isinstance(error, OSError):
                raise self._cannot_record(plan.name, error) from None
            raise
        return record

    def transition(
        self,
        record: JobRecord,
        state: str,
        reason: str = "",
        *,
        process: Launcher | None = None,
        container: str | None = None,
        launcher: Launcher | None = None,
        **more: Any,
    ) -> JobRecord:
        """Writes down that the job has come into a state; returns the record as it is now.

        The record is read again under the job's lock, so what others wrote meanwhile stays.

        Args:
            more: further fields of the record. A `handle`, here and wherever one is given, is what changes in it: other
                keys stay, a key with None goes.

        Raises:
            JobEnded: a `ValueError`; it ended before, and that stays as it is.
            ValueError: no state may be left for that one.
            OSError: it cannot be written, or the job was removed.
        """
        given = {"process": process, "container": container, "launcher": launcher}
        values = {**{key: value for key, value in given.items() if value is not None}, **more}
        return self._change(record, Transition(state, now(), reason), values)

    def finish(
        self,
        record: JobRecord,
        state: str,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        cause: str = "",
        outputs: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
        **more: Any,
    ) -> JobRecord:
        """Writes down how the job ended.

        Args:
            more: of a job of another machine, its `facts`, `diagnosis` and `elapsed` as they are known there.

        Raises:
            JobEnded: a `ValueError`; it ended before, and that stays as it is.
            ValueError: no state may be left for that one.
            OSError: it cannot be written, or the job was removed.
        """
        values = {
            "exit_code": exit_code,
            "signal": signal,
            "cause": cause,
            "outputs": dict(outputs or {}),
            "metrics": numbers(metrics or {}),
            **more,
        }
        return self._change(record, Transition(state, now(), cause), values, timed=True)

    def saw(self, record: JobRecord, state: str, reason: str = "", **values: Any) -> JobRecord:
        """Writes down the state that a platform says a job is in, and with it `facts` and a `handle`.

        Others ask too, at the same time: of a job that has come into that state meanwhile the reason is written anew.

        Raises:
            JobEnded, ValueError, OSError: as `transition`.
        """
        return self._change(record, Transition(state, now(), reason), values, again=True)

    def note(self, record: JobRecord, **values: Any) -> JobRecord:
        """Writes down fields of a job whose state stays as it is; of one that has ended, nothing.

        Args:
            values: each may be a function of the record that is stored: what several processes add to is added to as it
                is then.

        Raises:
            OSError: it cannot be written, or the job was removed.
        """
        with locked(self.folder(record.name)):
            stored = self.stored(record.name)
            if not isinstance(stored, JobRecord) or stored.ended:
                return stored if isinstance(stored, JobRecord) else record
            changed = replaced(stored, {key: each(stored) if callable(each) else each for key, each in values.items()})
            self._write(changed)
        return changed

    def correct(self, record: JobRecord, state: str, **values: Any) -> JobRecord:
        """Writes down of a job that has ended what could not be read, or done, then, and how it ended. As `note`."""
        with locked(self.folder(record.name)):
            stored = self.stored(record.name)
            if isinstance(stored, JobRecord) and (stored.unread or lacks_registration(stored)):
                stored = corrected(stored, state, values)
                self._write(stored)
        return stored if isinstance(stored, JobRecord) else record

    def keep(self, before: JobRecord, now: JobRecord) -> tuple[JobRecord, bool]:
        """Writes down what was found of a job, unless somebody writes, or has written meanwhile.

        Returns: the job as far as it is known; and whether that was written.
        """
        with suppress(OSError, Busy):
            with locked(self.folder(before.name), wait=False):
                current = self.stored(before.name)
                if current != before:
                    return current if isinstance(current, JobRecord) and current.over else now, False
                self._write(now)
            if not before.ended:
                run_on_end(now, self.folder(now.name))
            return now, True
        return now, False

    def list(self) -> list[JobRecord | Unreadable]:
        """All jobs, the newest first. One small file is read for each; `entries` is the fast way."""
        return sorted((self._read(name) for name in self._names()), key=lambda r: (r.created, r.name), reverse=True)

    def entries(self) -> Sequence[Entry]:
        """What a list needs of all jobs, the newest first. Only records of jobs that are not settled are read."""
        names = self._names()
        index = Index(self.root)
        found = [self._entry(name, index) for name in names]
        index.save(len(names))
        return sorted(found, key=lambda e: (e.created, e.name), reverse=True)

    def read(self, entry: Entry) -> JobRecord | Unreadable:
        """The record of an entry."""
        return entry.record or self._read(entry.name)

    def get(self, name: str) -> JobRecord:
        """One job: by its name, the beginning of its name if no other begins so, its id, or `last`.

        Raises:
            UserError: none or several such jobs, or its record cannot be read.
        """
        return self.by_name(name if self._is_name(name) else find_one(self.entries(), name, self.root).name)

    def by_name(self, name: str) -> JobRecord:
        """One job by its whole name.

        Raises:
            UserError: its record cannot be read, or is gone.
        """
        found = self._read(name)
        if isinstance(found, Unreadable):
            raise UserError(
                f"the record of job '{found.name}' cannot be read: {found.problem}",
                where=str(self.folder(found.name) / RECORD),
            )
        return found

    def last_for(self, recipe: str) -> JobRecord | None:
        """The newest job of a recipe, None if there is none."""
        found = (self.read(entry) for entry in self.entries() if entry.recipe == recipe)
        return next((record for record in found if isinstance(record, JobRecord)), None)

    def remove(self, name: str, check: Callable[[JobRecord | Unreadable], None]) -> None:
        """Removes a job's folder, and nothing else: where that is a link, the link.

        Args:
            check: raises what speaks against it. The job cannot change between that and its removal.

        Raises:
            UserError: there is no such job.
            OSError: it cannot be removed; what is left of it then is hidden, and named in the error.
        """
        folder = self.folder(name)
        aside = self.root / hidden(OLD, name)
        if not self.exists(name):
            raise unknown_job(name, self._names(), self.root)
        with locked(folder) if folder.is_dir() else nullcontext():
            check(self._read(name))
            folder.rename(aside)
        erase(aside)

    def clean(self) -> None:
        """Removes what killed processes left beside the jobs."""
        for prefix in (NEW, OLD):
            for folder in self.root.glob(f"{prefix}*"):
                erase_if_left_over(folder)

    def _change(
        self, record: JobRecord, step: Transition, values: Mapping[str, Any], timed: bool = False, again: bool = False
    ) -> JobRecord:
        with locked(self.folder(record.name)):
            stored = self.stored(record.name)
            # A record that was damaged by others is written anew from what this process knows.
            current = stored if isinstance(stored, JobRecord) else record
            changed = after(current, step, values, timed=timed, again=again)
            self._write(changed)
        run_on_end(changed, self.folder(record.name))  # once: what has ended is not written again by this
        return changed

    def _read(self, name: str) -> JobRecord | Unreadable:
        return self._now(self.stored(name))

    def _now(self, record: JobRecord | Unreadable) -> JobRecord | Unreadable:
        """The record with what is true now; nothing is written (`records.settle`)."""
        if isinstance(record, Unreadable) or is_believed(record):
            return record
        # Its supervisor may have written the end and gone after it was read.
        again = self.stored(record.name)
        return again if isinstance(again, Unreadable) or again.over else seen_now(again, self.folder(again.name))

    def stored(self, name: str) -> JobRecord | Unreadable:
        """A job's record as it was written last, whether or not it is still true."""
        file = self.folder(name) / RECORD
        try:
            return from_json(read_regular_text(file))
        except FileNotFoundError:
            problem = "it is a link that leads nowhere" if file.parent.is_symlink() else "it has no record"
        except NotRegular as error:
            problem = str(error.strerror)
        except OSError as error:
            problem = f"the system refuses it ({error.strerror})"
        except ValueError as error:
            problem = str(error)
        return Unreadable(name, problem, changed_at(file.parent))

    def _write(self, record: JobRecord) -> None:
        """Only under the job's lock: then what a killed write left beside the record is nobody's."""
        folder = self.folder(record.name)
        for left in folder.glob(f".{RECORD}.*.tmp"):
            left.unlink(missing_ok=True)
        paths.write_private(folder / RECORD, to_json(record))
        mark(self.root, record)

    def _names(self) -> Sequence[str]:
        try:
            with os.scandir(self.root) as found:
                return [entry.name for entry in found if is_kept(entry) and not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _entry(self, name: str, index: Index) -> Entry:
        stamp = stamp_of(f"{self.root}/{name}/{RECORD}")
        known = index.get(name, stamp)
        if known is not None:
            return known
        stored = self.stored(name)
        now = self._now(stored)
        entry = entry_of(now)
        if entry.settled and stamp is not None and now is stored:
            index.add(stamp, entry)
        return entry

    def _is_name(self, name: str) -> bool:
        return bool(name) and not name.startswith(".") and "/" not in name and (self.folder(name) / RECORD).is_file()

    def _cannot_record(self, name: str, error: OSError) -> UserError:
        what = f"job '{name}' exists already" if self.exists(name) else f"cannot record the job: {error.strerror}"
        return UserError(what, where=str(self.folder(name)))

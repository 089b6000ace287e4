"""Jobs and sweeps together, and which of them a word means.

`last` is the newest of both. A job that belongs to a sweep, or was made by it as an input, stands for the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property

from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.index import Entry
from nemo_runspec.records.reference import LAST, find_all, find_one
from nemo_runspec.sweeps.model import PIPELINE
from nemo_runspec.sweeps.store import SweepStore
from nemo_runspec.text import count


class Overview:
    """What there is at one moment.

    Attributes:
        jobs: all jobs, the newest first.
        sweeps: all sweeps, the newest first.
    """

    def __init__(self, jobs: JobStore | None = None, sweeps: SweepStore | None = None) -> None:
        self.job_store = jobs or JobStore()
        self.sweep_store = sweeps or SweepStore()
        self.jobs: Sequence[Entry] = self.job_store.entries()
        self.sweeps: Sequence[Entry] = self.sweep_store.entries()

    @cached_property
    def everything(self) -> Sequence[Entry]:
        """Both, the newest first."""
        if not self.sweeps:
            return self.jobs
        return sorted((*self.jobs, *self.sweeps), key=lambda entry: (entry.created, entry.name), reverse=True)

    @cached_property
    def _members(self) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for entry in reversed(self.jobs):
            if entry.group:
                found.setdefault(entry.group, []).append(entry)
        return found

    def members(self, sweep: str) -> Sequence[Entry]:
        """The jobs of a sweep, the first one first."""
        return self._members.get(sweep, ())

    def meant(self, words: Iterable[str]) -> list[Entry]:
        """The jobs and sweeps that words mean, each once, in their order.

        Raises:
            UserError: a word that means none, or that is the beginning of several names.
        """
        found = [entry for word in words for entry in self._by_word(word)]
        return list({entry.name: entry for entry in found}.values())

    def one(self, word: str, noun: str = "job") -> Entry:
        """The one job or sweep that is meant. `noun`: what is looked for, in words.

        Raises:
            UserError: none or several.
        """
        last = self._newest() if word == LAST else None
        return last or find_one(self.everything, word, self.job_store.root, noun)

    def one_job(self, word: str) -> Entry:
        """The one job that is meant; where `last` is a sweep, the newest job of that.

        Raises:
            UserError: none, several, or a sweep.
        """
        entry = self.one(word)
        if not entry.is_sweep:
            return entry
        members = self.members(entry.name)
        if word == LAST and members:
            return members[-1]
        if word == LAST:
            run = "step" if entry.noun == PIPELINE else "run"
            raise UserError(
                f"the newest is the {entry.noun} '{entry.name}', and it has started no {run}",
                remedy=f"how it is: nemotron jobs show {entry.name}",
            )
        raise UserError(
            f"'{word}' is a {entry.noun} of {count(len(members), 'job')}, and one is needed",
            remedy=f"see them: nemotron jobs list --group {entry.name}",
        )

    def with_members(self, entries: Iterable[Entry]) -> list[Entry]:
        """The jobs that are named, each once: those of a sweep in the order they were made."""
        found = [job for entry in entries for job in (self.members(entry.name) if entry.is_sweep else (entry,))]
        return list({entry.name: entry for entry in found}.values())

    def _by_word(self, word: str) -> Sequence[Entry]:
        last = self._newest() if word == LAST else None
        return [last] if last else find_all(self.everything, [word], self.job_store.root)

    def _newest(self) -> Entry | None:
        job, sweep = next(iter(self.jobs), None), next(iter(self.sweeps), None)
        if job is None or sweep is None:
            return job or sweep
        if sweep.created >= job.created or self._made_by(job, sweep):
            return sweep
        return next((entry for entry in self.sweeps if entry.name == job.group), job)

    def _made_by(self, job: Entry, sweep: Entry) -> bool:
        """True if the sweep's own process runs the job, as it does with an input that it lacks."""
        record = self.job_store.read(job)
        if not isinstance(record, JobRecord) or record.launcher is None or sweep.record is not None:
            return False
        with suppress(UserError):
            return record.launcher == self.sweep_store.read(sweep.name).launcher
        return False


def find_job(store: JobStore, word: str) -> JobRecord:
    """The record of the one job that is meant, as `Overview.one_job`. Only one file is read for a whole name.

    Raises:
        UserError: none, several, a sweep, or its record cannot be read.
    """
    if word != LAST and store.exists(word):
        return store.get(word)
    return store.by_name(Overview(store).one_job(word).name)

"""The store: one folder per job, `record.json` first. What it answers is true at the moment it is asked."""

from __future__ import annotations

import dataclasses
import getpass
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.jobs.process import is_alive
from nemo_runspec.jobs.record import STATES, JobRecord, Launcher, Transition, Unreadable, from_json, now, to_json
from nemo_runspec.planning.model import Plan
from nemo_runspec.redact import redact_argv
from nemo_runspec.script.markers import cause, decisive, read_markers

_RECORD = "record.json"
LAST = "last"


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
        """Whether a job of that name was ever recorded."""
        return self.folder(name).exists()

    def create(
        self,
        plan: Plan,
        *,
        plan_text: str,
        argv: Sequence[str],
        secret_values: Iterable[str] = (),
        launcher: Launcher | None = None,
        files: Mapping[str, str] | None = None,
    ) -> JobRecord:
        """Records a job before anything else is done for it: state `planned`.

        Args:
            plan_text: the plan's JSON. `files`: further files of the job, by name.
            secret_values: to be kept out of `argv`.

        Raises:
            UserError: a job of that name exists, or its folder cannot be written.
        """
        record = JobRecord(
            name=plan.name,
            recipe=plan.recipe.path,
            config=plan.config_name,
            profile=plan.profile,
            executor=plan.executor,
            mode=plan.mode,
            argv=tuple(redact_argv(argv, secret_values)),
            cwd=str(Path.cwd()),
            user=_user(),
            host=os.uname().nodename,
            commit=plan.package.commit,
            states=(Transition("planned", now()),),
            launcher=launcher,
        )
        folder = self.folder(plan.name)
        try:
            paths.private_dir(self.root)
            folder.mkdir(mode=0o700)
            self._write(record)
            for name, text in {"plan.json": plan_text, **(files or {})}.items():
                paths.write_private(folder / name, text)
        except FileExistsError:
            raise UserError(f"job '{plan.name}' exists already", where=str(folder)) from None
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise UserError(f"cannot record the job: {error.strerror}", where=str(folder)) from None
            raise
        return record

    def transition(
        self, record: JobRecord, state: str, reason: str = "", *, process: Launcher | None = None
    ) -> JobRecord:
        """Writes down that the job has come into a state; returns the record as it is now.

        Raises:
            ValueError: no state may be left for that one.
        """
        if state not in STATES[record.state].then:
            raise ValueError(f"a job that is {record.state} cannot become {state}")
        step = Transition(state, now(), reason)
        changed = dataclasses.replace(record, states=(*record.states, step), process=process or record.process)
        self._write(changed)
        return changed

    def finish(
        self,
        record: JobRecord,
        state: str,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        cause: str = "",
        outputs: Mapping[str, str] | None = None,
    ) -> JobRecord:
        """Writes down how the job ended.

        Raises:
            ValueError: it has ended before.
        """
        began = record.when("running")
        elapsed = (datetime.now(timezone.utc) - began).total_seconds() if began else None
        ended = dataclasses.replace(
            record, exit_code=exit_code, signal=signal, cause=cause, elapsed=elapsed, outputs=dict(outputs or {})
        )
        return self.transition(ended, state, cause)

    def list(self) -> list[JobRecord | Unreadable]:
        """All jobs, the newest first. One small file is read for each."""
        if not self.root.is_dir():
            return []
        names = [entry.name for entry in os.scandir(self.root) if entry.is_dir() and not entry.name.startswith(".")]
        return sorted((self._read(name) for name in names), key=lambda r: (r.created, r.name), reverse=True)

    def get(self, name: str) -> JobRecord:
        """One job: by its name, the beginning of its name if no other begins so, or `last`.

        Raises:
            UserError: none or several such jobs, or its record cannot be read.
        """
        found = self._one(name)
        if isinstance(found, Unreadable):
            raise UserError(
                f"the record of job '{found.name}' cannot be read: {found.problem}",
                where=str(self.folder(found.name) / _RECORD),
            )
        return found

    def last_for(self, recipe: str) -> JobRecord | None:
        """The newest job of a recipe, None if there is none."""
        return next((r for r in self.list() if isinstance(r, JobRecord) and r.recipe == recipe), None)

    def _one(self, name: str) -> JobRecord | Unreadable:
        if name != LAST and "/" not in name and (self.folder(name) / _RECORD).is_file():
            return self._read(name)
        records = self.list()
        if not records:
            raise UserError("no job is recorded yet", where=str(self.root))
        if name == LAST:
            return records[0]
        matches = [r for r in records if name and r.name.startswith(name)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            shown = ", ".join(r.name for r in matches[:5]) + (", …" if len(matches) > 5 else "")
            raise UserError(
                f"'{name}' is the beginning of {len(matches)} jobs: {shown}", remedy="give more of its name"
            )
        raise UserError(f"no job '{name}'", where=str(self.root), remedy=did_you_mean(name, [r.name for r in records]))

    def _read(self, name: str) -> JobRecord | Unreadable:
        file = self.folder(name) / _RECORD
        try:
            record = from_json(file.read_text(encoding="utf-8", errors="surrogateescape"))
        except FileNotFoundError:
            return Unreadable(name, "it has no record", _changed(file.parent))
        except (OSError, ValueError) as error:
            return Unreadable(name, str(error), _changed(file.parent))
        return as_seen_now(record, file.parent)

    def _write(self, record: JobRecord) -> None:
        paths.write_private(self.folder(record.name) / _RECORD, to_json(record))


def as_seen_now(record: JobRecord, folder: Path) -> JobRecord:
    """The record with what has happened to an attached job since its launcher died without a word. Nothing is written.

    A dead launcher with an exit marker: what the marker says. Without one: still running if the job script is, else
    `lost`. A launcher on another machine: `unknown`.
    """
    if record.launcher is None or record.ended:
        return record
    alive = is_alive(record.launcher)
    if alive:
        return record
    if alive is None:
        return _seen(record, "unknown", f"it was started on {record.host}, in another boot or container")
    marker = decisive(read_markers(folder / "status"))
    if marker is not None:
        state = "succeeded" if marker.exit_code == 0 else "failed"
        ended = _moment(marker.ended)
        why = cause(marker)
        reason = "; ".join(filter(None, (why, "nemotron itself was killed before the job's end")))
        known = dataclasses.replace(
            record,
            exit_code=marker.exit_code,
            signal=marker.signal,
            cause=why,
            elapsed=marker.ended - marker.started,
        )
        return _seen(known, state, reason, ended)
    if record.process is not None and is_alive(record.process):
        return _seen(record, "running", f"nemotron itself was killed; process {record.process.pid} still runs")
    return _seen(record, "lost", "nemotron was killed, and the job left no exit marker")


def _seen(record: JobRecord, state: str, reason: str, time: str | None = None) -> JobRecord:
    return dataclasses.replace(record, states=(*record.states, Transition(state, time or now(), reason)))


def _changed(folder: Path) -> str:
    try:
        changed = folder.stat().st_mtime
    except OSError:
        return ""
    return _moment(changed) or ""


def _moment(seconds: float) -> str | None:
    """Seconds since 1970 in words; None for what is no time."""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())

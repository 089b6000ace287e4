"""One job of this machine under supervision: recorded, made ready, started, watched, concluded."""

from __future__ import annotations

import errno
import selectors
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.worker import InputWorker, OutOfReach, Work
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError, first_line
from nemo_runspec.interrupts import Interrupted, Interrupts
from nemo_runspec.packaging.mounts import provide_mounts
from nemo_runspec.records import JobEnded, JobRecord, JobStore
from nemo_runspec.records.cancel_request import GRACE
from nemo_runspec.records.inputs_read import inputs_read
from nemo_runspec.records.metrics import last_metrics
from nemo_runspec.records.process import this_process
from nemo_runspec.records.record import Transition, now
from nemo_runspec.redact import Redactor
from nemo_runspec.script.image_made import image_in
from nemo_runspec.script.markers import deciding_marker, read_markers, with_loss
from nemo_runspec.script.wandb_run import run_in
from nemo_runspec.secrets import of_environment
from nemo_runspec.source import display_path
from nemo_runspec.submission.bundle import read_bundle, write_bundle
from nemo_runspec.submission.layout import (
    give_room,
    job_files,
    layout_of,
    make_folders,
    packed,
    place_package,
    programs_list,
)
from nemo_runspec.submission.mount_commits import write_mounts
from nemo_runspec.submission.request import Submission
from nemo_runspec.supervise.job_input import JobInput, standard_input
from nemo_runspec.supervise.outcome import Outcome, closing_lines, outcome_of
from nemo_runspec.supervise.output import JobOutput
from nemo_runspec.supervise.stop import Stop, why_stopped

_TICK = 0.1
_LAST_WORDS = 2.0
"""Seconds that output is read on after the job script has ended, where something still holds or fills its pipe.

Those in which this process got no processor do not count: what the job wrote before may still be on its way.
"""


class SupervisedJob:
    """One run of one plan. `record_job`, then `run_to_its_end`.

    Args:
        say: takes lines of nemotron's own.
        grace: seconds a job has to end when it is asked to, before it is killed.
        attached: whether this process's standard output shows the job's, and its standard input is for the job.

    Raises:
        UserError: something the job needs is not so; nothing has happened then.
    """

    def __init__(self, submission: Submission, say: Say, *, grace: float = GRACE, attached: bool = True) -> None:
        self.submission = submission
        self.plan = submission.plan
        self.say = say
        self.grace = grace
        self.attached = attached
        self.layout = layout_of(self.plan)
        self.folder = Path(self.layout.root)
        self.log = Path(self.layout.logs) / "job.log"
        self.store = JobStore(self.folder.parent)
        self.worker = get_backend(self.plan.executor).load_worker()
        self.record: JobRecord
        self.worker.check(self.plan)
        self.contents = read_bundle(self.plan.bundle)
        self.archive = packed(self.plan, submission.retried, say)
        self.mounts = provide_mounts(self.plan.auto_mounts, say)

    def record_job(self) -> None:
        """Writes the job down before anything is done for it. This process is its supervisor from now on."""
        given = self.submission
        rendering = get_backend(self.plan.executor).make_rendering(self.plan)
        assert rendering is not None, f"executor {self.plan.executor} has a worker and no renderer"
        self.record = self.store.create(
            self.plan,
            plan_text=given.plan_text,
            argv=given.argv,
            secret_values=given.secrets.values(),
            launcher=this_process(),
            files=job_files(self.plan, rendering) | programs_list(rendering.programs),
            group=given.group,
            retry_of=given.retried.name if given.retried else None,
        )

    def run_to_its_end(self, interrupts: Interrupts) -> Outcome:
        """Runs the recorded job; however that ends, the record says so before this returns or raises.

        Raises:
            UserError: it could not be made ready or started.
        """
        try:
            outcome = self._attempt(interrupts)
        except Interrupted:
            asked = why_stopped(interrupts, self.folder)
            assert asked is not None
            outcome = outcome_of(0, None, asked)
        except JobEnded as error:  # cancelled by another process while this one did not answer
            self.record = error.record
            outcome = Outcome(self.record.state, self.record.exit_code or 1, cause=self.record.cause)
        except OSError as error:
            problem = UserError(
                f"the job cannot go on: {error.strerror or error}", where=str(error.filename or self.folder)
            )
            self._conclude(Outcome("failed", problem.exit_code, cause=first_line(problem)))
            raise problem from None
        except OutOfReach as error:  # whoever looks at it later finds out how it is
            self.record = self.store.saw(self.record, "unknown", first_line(error))
            raise
        except BaseException as error:
            # A backend may know that nothing more can be known: a Docker engine that has lost its containers.
            state, code = (error.state, error.exit_code) if isinstance(error, UserError) else ("failed", 1)
            self._conclude(Outcome(state, code, cause=first_line(error)))
            raise
        self._conclude(outcome)
        return outcome

    def _attempt(self, interrupts: Interrupts) -> Outcome:
        self.record = self.store.transition(self.record, "starting")
        make_folders(self.layout)
        prepared = self._prepare(interrupts)
        output = JobOutput(self.log, Path(self.layout.metrics), self._hidden(), self.say, show=self.attached)
        try:
            outcome = self._run(prepared, interrupts, output)
        finally:
            output.close()
        return replace(outcome, cause=with_loss(outcome.cause, output.lost_lines))

    def _run(self, prepared: Any, interrupts: Interrupts, output: JobOutput) -> Outcome:
        interrupts.check()
        self.say(f"{self.plan.name}: running {self.plan.recipe.path}; log: {display_path(self.log)}")
        given = self._input()
        try:
            work = self._started(prepared, given)
            try:
                self.record = self.store.transition(
                    self.record, "running", process=work.process, container=work.container
                )
                return self._watch(work, interrupts, output, given)
            finally:
                output.flush()  # what the backend adds to the log comes after it
                self._give_back(work)
        finally:
            given.close()

    def _input(self) -> JobInput:
        """What the job reads; several processes would take it from each other."""
        several = self.plan.launch.kind == "torchrun" and self.plan.resources.nproc_per_node > 1
        reads = self.attached and not several and isinstance(self.worker, InputWorker)
        return standard_input() if reads else JobInput()

    def _started(self, prepared: Any, given: JobInput) -> Work:
        if isinstance(self.worker, InputWorker):
            return self.worker.start(self.plan, prepared, self.submission.secrets, stdin=given.end)
        return self.worker.start(self.plan, prepared, self.submission.secrets)

    def _hidden(self) -> list[str]:
        """What its log must not show: its secrets, and those of this process's environment where it inherits that."""
        inherits = not get_backend(self.plan.executor).in_container
        return [*self.submission.secrets.values(), *(of_environment().values() if inherits else ())]

    def _give_back(self, work: Work) -> None:
        left = work.close()
        if left:
            self.say(f"{self.plan.name}: {left}")

    def _prepare(self, interrupts: Interrupts) -> Any:
        """The job directory filled, and what the backend needs before the start."""
        write_mounts(self.folder, self.mounts)
        with interrupts.raised():
            write_bundle(self.contents, Path(self.layout.bundle))
            place_package(self.archive, self.layout)
            return self.worker.prepare(self.plan, self.say)

    def _watch(self, work: Work, interrupts: Interrupts, output: JobOutput, given: JobInput) -> Outcome:
        stop = Stop(work, interrupts, self.folder, self.grace, output.say)

        def tick() -> None:
            stop.tick()
            self._note_doubt(work)

        status = pump(work, output, tick, given)
        left = work.end_leftovers(stop.time_left())
        if left and not stop.asked:
            output.say(f"{left} processes that the job left behind were ended")
        marker = deciding_marker(read_markers(Path(self.layout.status)))
        # A wish that came when the job had ended by itself changes nothing about how it ended.
        asked = why_stopped(interrupts, self.folder) if stop.asked else None
        return outcome_of(status, marker, asked, work.cause(status))

    def _note_doubt(self, work: Work) -> None:
        """Writes down that it is not known how the job is, and that it is again."""
        state = "unknown" if work.doubt else "running"
        if self.record.state == state and (not work.doubt or self.record.reason == work.doubt):
            return
        reason = work.doubt or "it can be looked at again"
        with suppress(OSError):  # a full disk: it goes on, and this is said
            self.record = self.store.saw(self.record, state, reason)
            self.say(f"{self.plan.name}: {state}: {reason}")

    def _conclude(self, outcome: Outcome) -> None:
        outputs = {a.name: a.path for a in self.plan.produces if a.path and _exists(Path(a.path))}
        try:
            self._write_down(outcome, outputs)
        except JobEnded as error:  # somebody else has written down its end: a cancel that could not wait
            self.record = error.record
        except OSError as error:
            ended = f"{self.plan.name}: {outcome.state}, exit code {outcome.exit_code}"
            self.say(f"{ended}; its record cannot be written: {error.strerror}")
            return
        give_room(self.layout)
        for line in closing_lines(self.record, self.log, outputs):
            self.say(line)

    def _write_down(self, outcome: Outcome, outputs: Mapping[str, str]) -> None:
        """The end in the record; on a full disk in the room that was kept back for it."""
        diagnosis = self._diagnosis(outcome) if outcome.state == "failed" else {}

        def finish() -> None:
            self.record = self.store.finish(
                self.record,
                outcome.state,
                exit_code=outcome.exit_code,
                signal=outcome.signal,
                cause=outcome.cause,
                outputs=outputs,
                inputs={**self.record.inputs, **dict(inputs_read(Path(self.layout.status)))},
                metrics=self._metrics(),
                wandb={**self.record.wandb, **run_in(self.folder)},
                image=image_in(self.folder),
                diagnosis=diagnosis,
            )

        try:
            finish()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not give_room(self.layout):
                raise
            finish()

    def _diagnosis(self, outcome: Outcome) -> Mapping[str, Any]:
        """Why it failed, as far as its folder says so."""
        from nemo_runspec.diagnosis.local_jobs import diagnose_folder

        states = (*self.record.states, Transition(outcome.state, now(), outcome.cause))
        ended = replace(self.record, states=states, exit_code=outcome.exit_code, signal=outcome.signal)
        found = diagnose_folder(ended, self.folder, self.log)
        return asdict(found) if found else {}

    def _metrics(self) -> dict[str, float]:
        """The last value of each metric. A job chooses their names, which may hold what it must not."""
        hidden = Redactor(self._hidden())
        return {hidden.redact(name): value for name, value in last_metrics(Path(self.layout.metrics)).items()}


def pump(work: Work, output: JobOutput, tick: Callable[[], None], given: JobInput) -> int:
    """Gives the job's output on until it has ended, and its input to it. Returns its exit status.

    Calls `tick` about ten times a second.

    What the job leaves behind and goes on writing is not waited for: `_LAST_WORDS` later nothing more is read.
    """
    left: float | None = None
    looked = 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(work, selectors.EVENT_READ)
        is_open = True
        while True:
            given.attend(selector)
            ready = [key.fileobj for key, _ in selector.select(_TICK)]
            if given.source in ready:
                given.pass_on()
            data = work.read() if work in ready else None
            if data:
                output.feed(data)
            elif data == b"":
                selector.unregister(work)
                is_open = False
                if left is None:  # its end is near; nothing else wakes this loop
                    time.sleep(0.01)
            now = time.monotonic()
            if data and now - looked < _TICK:
                continue
            passed, looked = now - looked, now
            tick()
            output.tick()
            status = work.poll()
            if status is None:
                continue
            left = _LAST_WORDS if left is None else left - min(passed, 2 * _TICK)
            if not is_open or left < 0:
                return status


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False

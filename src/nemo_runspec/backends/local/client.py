"""Runs a plan on this machine and stays with it until it has ended."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from nemo_runspec import envs, paths
from nemo_runspec.backends.local import processes
from nemo_runspec.backends.local.bundle import read_bundle, write_bundle
from nemo_runspec.backends.local.interrupts import EXIT_CODES, WORDS, Interrupted, Interrupts
from nemo_runspec.backends.local.output import JobOutput
from nemo_runspec.backends.local.render import config_files, layout_of, render
from nemo_runspec.errors import UserError
from nemo_runspec.jobs import JobRecord, JobStore
from nemo_runspec.jobs.process import process_of, this_process
from nemo_runspec.planning.model import BundleFile, Plan
from nemo_runspec.script.markers import NodeMarker, cause, command_ran, decisive, read_markers, signal_name
from nemo_runspec.source import display_path

GRACE = 10.0
"""Seconds between TERM and KILL."""

_TICK = 0.1
_LAST_WORDS = 2.0
"""Seconds that output is read on after the job script has ended, where something still holds or fills its pipe."""

_NOT_OURS = ("PYTHONHOME", "__PYVENV_LAUNCHER__", "SHELLOPTS", "BASHOPTS")
_NOT_WITH_AN_ENV = ("PYTHONPATH", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX")


class Console(Protocol):
    """Where lines of nemotron's own go."""

    def say(self, text: str) -> None:
        """Prints one line."""


class StderrConsole:
    """Lines on the error stream; a stream that is gone is not missed."""

    def say(self, text: str) -> None:
        """Prints one line."""
        if sys.stderr is None:  # closed when this process was started; print would take standard output instead
            return
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:
            return


@dataclass(frozen=True)
class Outcome:
    """How a job ended: its state, what nemotron exits with, and why."""

    state: str
    exit_code: int
    signal: int | None = None
    cause: str = ""


def run(
    plan: Plan,
    *,
    plan_text: str,
    secret_values: Mapping[str, str],
    argv: Sequence[str],
    console: Console | None = None,
    on_success: Callable[[], object] | None = None,
    grace: float = GRACE,
) -> int:
    """Runs the plan; its output is shown as it comes, and kept in `logs/job.log`.

    Args:
        plan_text: the plan's JSON, to be kept. `secret_values`: by variable; only the job's processes get them.
        argv: the command line, to be kept redacted.
        on_success: called when the job has succeeded. What the system refuses it is said; the job stays a success.
        grace: seconds a job has to end after Ctrl-C, TERM or HUP before it is killed.

    Returns: the recipe's own exit code, 128 + N where signal N ended it; 130, 143 or 129 after Ctrl-C, TERM or HUP.

    Raises:
        UserError: the recipe has changed since the plan, its environment cannot be made, or nothing can be written.
    """
    run = _Run(plan, console or StderrConsole(), secret_values, grace)
    contents = read_bundle(plan.bundle)
    with Interrupts() as interrupts:
        run.record_job(plan_text, argv)
        try:
            outcome = run.attempt(interrupts, contents)
        except Interrupted as interrupted:
            word = WORDS[signal.Signals(interrupted.number)]
            outcome = Outcome("cancelled", EXIT_CODES[signal.Signals(interrupted.number)], cause=f"cancelled by {word}")
        except OSError as error:
            place = str(error.filename or run.folder)
            problem = UserError(f"the job cannot go on: {error.strerror or error}", where=place)
            run.conclude(Outcome("failed", problem.exit_code, cause=_first_line(problem)))
            raise problem from None
        except BaseException as error:
            run.conclude(Outcome("failed", getattr(error, "exit_code", 1), cause=_first_line(error)))
            raise
        run.conclude(outcome)
    if outcome.state == "succeeded" and on_success is not None:
        try:
            on_success()
        except (OSError, UserError) as error:
            run.console.say(f"{plan.name}: succeeded, but {_first_line(error)}")
    return outcome.exit_code


class _Run:
    """One run of one plan."""

    def __init__(self, plan: Plan, console: Console, secrets: Mapping[str, str], grace: float) -> None:
        self.plan = plan
        self.console = console
        self.secrets = secrets
        self.grace = grace
        self.layout = layout_of(plan)
        self.folder = Path(self.layout.root)
        self.log = Path(self.layout.logs) / "job.log"
        self.store = JobStore(self.folder.parent)
        self.record: JobRecord

    def record_job(self, plan_text: str, argv: Sequence[str]) -> None:
        rendering = render(self.plan)
        self.command = rendering.command
        self.record = self.store.create(
            self.plan,
            plan_text=plan_text,
            argv=argv,
            secret_values=self.secrets.values(),
            launcher=this_process(),
            files={file.name: file.text for file in rendering.files} | config_files(self.plan),
        )

    def attempt(self, interrupts: Interrupts, contents: dict[BundleFile, bytes]) -> Outcome:
        self.record = self.store.transition(self.record, "starting")
        write_bundle(contents, Path(self.layout.bundle))
        for folder in (self.layout.status, self.layout.logs):
            paths.private_dir(Path(folder))
        with interrupts.raised():
            bin_dir = envs.ensure_env(self.plan.python, self.console.say)
        environment = job_environment(os.environ, self.secrets, bin_dir)
        output = JobOutput(self.log, Path(self.layout.metrics), self.secrets.values(), self.console.say)
        try:
            interrupts.check()
            Path(self.layout.metrics).touch(mode=0o600)
            self.console.say(f"{self.plan.name}: running {self.plan.recipe.path}; log: {display_path(self.log)}")
            process = processes.start(self.plan.job_dir, self.command, environment, Path.cwd())
            try:
                self.record = self.store.transition(self.record, "running", process=process_of(process.pid))
                return self._watch(process, interrupts, output)
            finally:
                processes.kill_all(self.plan.job_dir, process.pid)
        finally:
            output.close()

    def _watch(self, process: subprocess.Popen[bytes], interrupts: Interrupts, output: JobOutput) -> Outcome:
        stop = _Stop(self.plan.job_dir, process, interrupts, self.grace, output.say)
        pump(process, output, stop.tick)
        left = processes.end_leftovers(self.plan.job_dir, process.pid, grace=stop.time_left())
        if left and not stop.asked:
            output.say(f"{left} processes that the job left behind were ended")
        marker = decisive(read_markers(Path(self.layout.status)))
        return outcome_of(process.returncode, marker, interrupts.seen)

    def conclude(self, outcome: Outcome) -> None:
        outputs = {a.name: a.path for a in self.plan.produces if a.path and _exists(Path(a.path))}
        try:
            self.record = self.store.finish(
                self.record,
                outcome.state,
                exit_code=outcome.exit_code,
                signal=outcome.signal,
                cause=outcome.cause,
                outputs=outputs,
            )
        except OSError as error:
            ended = f"{self.plan.name}: {outcome.state}, exit code {outcome.exit_code}"
            self.console.say(f"{ended}; its record cannot be written: {error.strerror}")
            return
        for line in closing_lines(self.record, self.log, outputs):
            self.console.say(line)


class _Stop:
    """What happens on Ctrl-C: TERM, some time, KILL; on the second one KILL at once."""

    def __init__(
        self,
        job_dir: str,
        process: subprocess.Popen[bytes],
        interrupts: Interrupts,
        grace: float,
        say: Callable[[str], None],
    ) -> None:
        self._job_dir = job_dir
        self._process = process
        self._interrupts = interrupts
        self._grace = grace
        self._say = say
        self._handled = 0
        self._deadline: float | None = None
        self._killed = False

    @property
    def asked(self) -> bool:
        """True once the job was asked to stop."""
        return self._deadline is not None

    def time_left(self) -> float:
        """Seconds the job's processes still have."""
        if self._killed:
            return 0.0
        return 1.0 if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def tick(self) -> None:
        """Acts on signals that came and time that has passed."""
        new, self._handled = self._interrupts.seen[self._handled :], len(self._interrupts.seen)
        for number in new:
            if self._deadline is None:
                self._deadline = time.monotonic() + self._grace
                word = WORDS[signal.Signals(number)]
                self._say(f"{word}: the job was asked to stop and has {self._grace:g} s; once more kills it")
                processes.terminate(self._process)
            else:
                self._kill("it is killed now")
        # Also where the job script itself has ended: what it left behind may go on.
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._kill(f"it did not stop within {self._grace:g} s and is killed")

    def _kill(self, why: str) -> None:
        if not self._killed:
            self._killed = True
            self._say(f"the job: {why}")
        processes.kill_all(self._job_dir, self._process.pid)


def pump(process: subprocess.Popen[bytes], output: JobOutput, tick: Callable[[], None]) -> None:
    """Gives the process's output on until it has ended; calls `tick` about ten times a second.

    What the process leaves behind and goes on writing is not waited for: `_LAST_WORDS` later nothing more is read.
    """
    pipe: IO[bytes] = process.stdout  # type: ignore[assignment]
    os.set_blocking(pipe.fileno(), False)
    ended: float | None = None
    with selectors.DefaultSelector() as selector, pipe:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            ready = selector.select(_TICK)
            data = os.read(pipe.fileno(), 1 << 16) if ready else None
            if data:
                output.feed(data)
            elif data == b"":
                selector.unregister(pipe)
            tick()
            output.tick()
            if process.poll() is None:
                continue
            ended = time.monotonic() if ended is None else ended
            if not selector.get_map() or time.monotonic() - ended > _LAST_WORDS:
                return


def job_environment(base: Mapping[str, str], secrets: Mapping[str, str], bin_dir: Path | None) -> dict[str, str]:
    """What the job script inherits: this process's environment, secrets, and the recipe's Python first on PATH.

    nemotron's own Python settings do not reach a recipe that has an environment of its own.
    """
    result = {name: value for name, value in base.items() if name not in _NOT_OURS}
    if bin_dir is not None:
        result = {name: value for name, value in result.items() if name not in _NOT_WITH_AN_ENV}
        result["PATH"] = f"{bin_dir}{os.pathsep}{result.get('PATH', os.defpath)}"
        result["VIRTUAL_ENV"] = str(bin_dir.parent)
    return {**result, **secrets}


def outcome_of(returncode: int, marker: NodeMarker | None, interrupts: Sequence[int]) -> Outcome:
    """How the job ended, from the job script's own status, its exit marker and the signals that came for it."""
    if interrupts:
        number = signal.Signals(interrupts[0])
        return Outcome("cancelled", EXIT_CODES[number], cause=f"cancelled by {WORDS[number]}")
    if returncode == 0 and marker is not None and command_ran([marker]):
        return Outcome("succeeded", 0)
    if returncode == 0:
        return Outcome("failed", 1, cause="the job script ended without running the command")
    code = returncode if returncode > 0 else 128 - returncode
    if marker is not None and marker.exit_code == code:
        return Outcome("failed", code, marker.signal, cause(marker))
    if returncode < 0:
        return Outcome("failed", code, -returncode, f"the job script was killed by signal {signal_name(-returncode)}")
    return Outcome("failed", code, cause=f"exit code {code}")


def closing_lines(record: JobRecord, log: Path, outputs: Mapping[str, str]) -> list[str]:
    """What is said when the job has ended."""
    took = f" after {record.elapsed:.1f} s" if record.elapsed is not None else ""
    why = f": {record.cause}" if record.cause else ""
    lines = [f"{record.name}: {record.state}{took}, exit code {record.exit_code}{why}"]
    if log.exists() and record.state != "succeeded":
        lines.append(f"  log: {display_path(log)}")
    return lines + [f"  {name}: {path}" for name, path in outputs.items()]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _first_line(error: BaseException) -> str:
    return (str(error.what if isinstance(error, UserError) else error) or type(error).__name__).splitlines()[0]

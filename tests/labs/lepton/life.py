"""A job's life, on a thread of its own: queue, place, pull, run for real, end as it really ended or as it was told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labs.lepton.container import start_replica
from labs.lepton.endings import ENDINGS, analysis_of
from labs.lepton.job import Attempt, Job, Replica, suffix
from labs.lepton.rules import needs
from labs.lepton.scenario import DENIED, FOR_EVER, MOUNT_MISSING, NO_CAPACITY, Issue
from labs.pods import stop_together

if TYPE_CHECKING:
    from labs.lepton.base import LeptonBase

_TICK = 0.02
_SCHEDULED = Issue("", "", (("Normal", "Scheduled", "Successfully assigned the replica to a node"),))
_PULLING = Issue("InProgress", "Pulling image", (("Normal", "Pulling", "Pulling image"),))
_PULLED = Issue("", "", (("Normal", "Pulled", "Successfully pulled image"), ("Normal", "Started", "Started container")))
_CREATING = Issue("InProgress", "Creating container")


class Asked(Exception):
    """A client wants the job stopped or deleted."""


@dataclass
class Life:
    """Drives one job. `start` may be called again once it has ended."""

    lab: LeptonBase
    job: Job
    thread: threading.Thread | None = None
    _wakes: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begins, on a thread."""
        self.job.wish = ""
        self._wakes.clear()
        self.thread = threading.Thread(target=self._live, name=self.job.id, daemon=True)
        self.thread.start()

    def ask(self, wish: str) -> None:
        """Wants it stopped or deleted; returns at once."""
        if self.job.wish != "delete":
            self.job.wish = wish
        self._wakes.set()

    def join(self) -> None:
        """Waits until the thread has ended."""
        if self.thread is not None:
            self.thread.join(300)
            assert not self.thread.is_alive(), f"{self.job.id} does not end"

    def _live(self) -> None:
        try:
            while self._attempt():
                self.job.state = "PendingRetry"
                self._pause(self.lab.timings.retry)
        except Asked:
            self._end_pods(self.lab.timings.grace)
            self._over("Stopped" if self.job.wish == "stop" else "Deleted")
        finally:
            self._end_pods(0)
            if self.job.wish == "delete":
                self.job.deleted = True

    def _attempt(self) -> bool:
        """Runs all replicas once; True where the job starts again."""
        attempt = self._begin()
        self._queue(attempt)
        self._start(attempt)
        self._run(attempt)
        if self.job.deleted:
            self._over("Deleted")
            return False
        attempt.close()
        if attempt.state == "Failed" and attempt.number < self.job.spec.get("max_job_failure_retry", 0):
            return True
        self._over("Archived" if attempt.scenario.archived else attempt.state)
        return False

    def _begin(self) -> Attempt:
        number = len(self.job.attempts)
        name = self.job.id if number == 0 else f"{self.job.id}-{number}"
        scenario = self.lab.scenario_for(self.job)
        attempt = Attempt(name, number, scenario)
        # None is ever seen without a word on why it does not run.
        attempt.replicas = [
            Replica(f"{self.job.id}-{index}-{suffix(5)}", index, issue=scenario.waiting)
            for index in range(self.job.workers)
        ]
        self.job.analysis = None
        self.job.attempts.append(attempt)
        return attempt

    def _queue(self, attempt: Attempt) -> None:
        scenario = attempt.scenario
        start_at = self.job.spec.get("time_schedule", {}).get("start_at", 0)
        if start_at > time.time():
            self.job.state = "Awaiting"
            self._pause(start_at - time.time())
        self.job.state = "Queueing"
        self._say(attempt, scenario.waiting)
        self._pause(self.lab.timings.queueing if scenario.queueing is None else scenario.queueing)
        if not self._placed(attempt):
            self._say(attempt, NO_CAPACITY)
            self._until(lambda: self._placed(attempt))
        self._note(attempt, _SCHEDULED)

    def _placed(self, attempt: Attempt) -> bool:
        return self.lab.place(self.job, attempt, needs(self.lab.world.shape(self.job.spec["resource_shape"])))

    def _start(self, attempt: Attempt) -> None:
        scenario, timings = attempt.scenario, self.lab.timings
        self._say(attempt, _PULLING)
        self.job.state = "Starting"
        self._pause(timings.pulling if scenario.pulling is None else scenario.pulling)
        held = FOR_EVER
        for replica in attempt.replicas:
            replica.says(self._trouble(attempt, replica) or _CREATING)
            self.job.note(replica.issue or _CREATING, replica.id, count=3)
        fine = [replica for replica in attempt.replicas if not self._trouble(attempt, replica)]
        if len(fine) == len(attempt.replicas):
            held = timings.starting
        elif scenario.issue:
            held = FOR_EVER if scenario.starting is None else scenario.starting
        if 0 < len(fine) < len(attempt.replicas):
            self._launch(attempt, fine)
            self.job.state = "Running"
            for replica in fine:
                replica.ready = True
        self._pause(held, lambda: any(replica.code for replica in fine))

    def _trouble(self, attempt: Attempt, replica: Replica) -> Issue | None:
        """What keeps a replica from starting."""
        scenario = attempt.scenario
        if scenario.issue and scenario.bad_node in ("", replica.node):
            return scenario.issue
        if not self.lab.may_pull(self.job.spec):
            return DENIED
        return None if self.lab.mounts_there(self.job.spec) else MOUNT_MISSING

    def _run(self, attempt: Attempt) -> None:
        scenario = attempt.scenario
        if not any(replica.code for replica in attempt.replicas):
            self._launch(attempt, [replica for replica in attempt.replicas if replica.pod is None])
        if scenario.visible:
            self.job.state = scenario.word or "Running"
            self._pause(self.lab.timings.settling, lambda: self._done(attempt))
        for replica in attempt.replicas:
            replica.ready = True
        began, happened = time.monotonic(), not scenario.then
        # In this order: one that fails in between is mended, not counted.
        while not self._done(attempt) or self._mended(attempt):
            self._asked(_TICK)
            if not happened and self._due(attempt, time.monotonic() - began):
                happened = True
                ENDINGS[scenario.then](self.lab, self.job, attempt)
        self._finish(attempt)

    def _launch(self, attempt: Attempt, replicas: list[Replica]) -> None:
        for replica in replicas:
            replica.pod = start_replica(self.lab, self.job, attempt, replica)
            replica.says(None)
            self.job.note(_PULLED, replica.id)

    def _mended(self, attempt: Attempt) -> bool:
        """Starts replicas that have failed again, `max_failure_retry` times in all; whether one was."""
        left = self.job.spec.get("max_failure_retry", 0) - len(attempt.replaced)
        failed = [each for each in attempt.replicas if each.code][:left]
        for old in failed:
            new = Replica(f"{self.job.id}-{old.index}-{suffix(5)}", old.index, old.node, old.group)
            attempt.replaced.append(old)
            attempt.replicas[old.index] = new
            new.pod, new.ready = start_replica(self.lab, self.job, attempt, new), True
        return bool(failed)

    def _due(self, attempt: Attempt, seconds: float) -> bool:
        when = attempt.scenario.when
        written = not when or any(when in each.pod.text for each in attempt.replicas if each.pod)
        return written and seconds >= attempt.scenario.after

    def _done(self, attempt: Attempt) -> bool:
        """All have ended, or one has failed: then the platform ends the others."""
        codes = [replica.code for replica in attempt.replicas]
        return None not in codes or any(codes)

    def _finish(self, attempt: Attempt) -> None:
        if not any(replica.code for replica in attempt.replicas) and attempt.scenario.failed is not True:
            return
        first = min((each for each in attempt.replicas if each.code), key=_ended, default=attempt.replicas[0])
        if self.job.analysis is None and attempt.scenario.analysed:
            self.job.analysis = analysis_of(first)
        self._end_pods(self.lab.timings.grace)

    def _end_pods(self, grace: float) -> None:
        stop_together([replica.pod for replica in self.job.replicas if replica.pod and replica.running], grace)

    def _over(self, state: str) -> None:
        for replica in self.job.replicas:
            replica.gone = replica.pod is None
        attempt = self.job.latest
        if attempt and not attempt.state:
            attempt.ended, attempt.state = time.time(), state
        self.job.ended = time.time()
        self.job.deleted = self.job.deleted or state == "Deleted"
        self.job.state = state

    def _say(self, attempt: Attempt, issue: Issue) -> None:
        for replica in attempt.replicas:
            replica.says(issue)
        self._note(attempt, issue)

    def _note(self, attempt: Attempt, issue: Issue) -> None:
        for replica in attempt.replicas:
            self.job.note(issue, replica.id)

    def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._asked(_TICK)

    def _pause(self, seconds: float, unless: Callable[[], bool] | None = None) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not (unless and unless()):
            self._asked(min(left, _TICK if unless else 60))

    def _asked(self, seconds: float) -> None:
        """Waits that long. Raises: Asked as soon as a client wants the end."""
        if self._wakes.wait(seconds):
            if self.job.state not in ("Archived", "Completed", "Failed"):
                self.job.state = "Stopping" if self.job.wish == "stop" else "Deleting"
            raise Asked


def _ended(replica: Replica) -> float:
    return (replica.pod.ended if replica.pod else None) or 0.0

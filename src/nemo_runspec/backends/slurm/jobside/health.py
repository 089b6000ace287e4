"""The health check: asks every node of the allocation, in the job's own environment, before the command.

It names the bad ones and has Slurm stay away from them. What a node says of itself is `health/node.sh`.
"""

import os
import re
import select
import signal
import threading
import time

from nemo_runspec.backends.slurm.jobside.attempt_end import Controller
from nemo_runspec.backends.slurm.jobside.batch import note, start_record, write_record
from nemo_runspec.backends.slurm.jobside.findings import Findings
from nemo_runspec.jobside import processes
from nemo_runspec.jobside.records import Folder
from nemo_runspec.lines import text_lines

MYPY = False
if MYPY:
    from typing import Dict, List, Sequence, Tuple

    from nemo_runspec.backends.slurm.jobside.job import BatchJob

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*$")
_EXCLUDED = re.compile(r"ExcNodeList=(\S*)")
_MOST = 1800.0
"""Seconds that a container may take to start."""
_TRIES = 3
"""How often a job is put back because of bad nodes."""
_OWN = ("--output=", "--error=", "--wait=", "--kill-on-bad-exit=")
"""Options of the job's own step that say what is done with its output and its end."""


class Result:
    """What the check has found.

    Args:
        is_well: the step may begin.
        verdict: see `attempt_end.Facts`.
        without: nodes to stay away from, comma-separated.
    """

    def __init__(self, is_well: bool, verdict: str = "", without: str = "") -> None:
        self.is_well = is_well
        self.verdict = verdict
        self.without = without


def check(job: "BatchJob", words: "Sequence[str]", cancelled: bool) -> Result:
    """Runs the check.

    Args:
        words: of the job's own step.
        cancelled: somebody wants the job to be over.
    """
    return Result(False) if cancelled else HealthCheck(job, words).run()


class HealthCheck:
    """One check of the nodes that Slurm has given."""

    def __init__(self, job: "BatchJob", words: "Sequence[str]") -> None:
        self._job = job
        self._controller = Controller(dict(os.environ))
        self._nodes = self._names(os.environ.get("SLURM_JOB_NODELIST", ""))
        self._folder = Folder("%s/health-%s-%d" % (job.status.path, job.number, job.restarts))
        self._inside = words[-1][: -len("/" + job.script)]
        self._srun, self._log = _without_output(words[:-2], job.number)
        self._patience = _seconds("NEMOTRON_HEALTH_SECONDS", job.health_seconds)
        self._said: "List[str]" = []
        self.findings = Findings(self._nodes, _seconds("NEMOTRON_HEALTH_CLOCK", 60))

    def run(self) -> Result:
        """Asks and judges; says what it has found."""
        began = time.monotonic()
        _remove(self._folder.path)
        try:
            self._folder.make()
            self._folder.write_text("begun", self._job.id + "\n")
            self._ask()
            self.findings.judge("".join(self._said))
        except OSError:
            self.findings.blame(self._nodes[0], "the job's directory cannot be written: " + self._job.root)
        finally:
            _remove(self._folder.path)
        # Where Slurm has ended the check, it is no node's fault that it did not answer.
        state = self._controller.look(self._job.id) if self.findings.bad else None
        if self._job.cancelled is not None or (state is not None and state.is_ending):
            return Result(False)
        if self.findings.bad:
            return self._leave()
        self._tell("%d node(s) are fine, after %d s" % (len(self._nodes), time.monotonic() - began))
        return Result(True)

    def _names(self, text: str) -> "List[str]":
        """The nodes of a list such as `n[1-4]`. What is said beside them is none."""
        return [
            word
            for word in self._controller.say("scontrol", "show", "hostnames", text).split("\n")
            if _NAME.match(word)
        ]

    def _tell(self, text: str) -> None:
        """For whoever follows the batch script's log, and for whoever follows the tasks'."""
        note("health check: " + text)
        try:
            with open(self._log, "a", encoding="utf-8") as log:
                log.write("nemotron: health check: %s\n" % text)
        except OSError:
            return

    def _ask(self) -> None:
        """Runs the nodes' part as a step, until all have answered or their time is up."""
        source, target = os.pipe()
        errors, error = os.pipe()
        step = self._start(target, error)
        os.close(target)
        os.close(error)
        threading.Thread(target=self._collect, args=(errors,), daemon=True).start()
        self._listen(source)
        os.close(source)
        self._end(step)

    def _start(self, target: int, error: int) -> processes.Child:
        """The nodes read nothing of the check from the job's directory: it may be what is wrong."""
        environment = dict(os.environ)
        environment.pop("SLURM_UNBUFFEREDIO", None)  # lines are to arrive whole
        count = str(len(self._nodes))
        texts = [_text("%s/%s" % (self._job.array_root, name)) for name in ("health.sh", "health.py")]
        folder = "%s/status/%s" % (self._inside, self._folder.path.rpartition("/")[2])
        words = [
            "srun", *self._srun, "--nodes=" + count, "--ntasks=" + count, "--ntasks-per-node=1", "--wait=0",
            "--kill-on-bad-exit=0", "--input=none", "bash", "-c", texts[0], "nemotron-health", texts[1], folder, count,
            str(self._patience // 3),
        ]  # fmt: skip
        return processes.start(words, environment, {1: target, 2: error}, alone=False)

    def _collect(self, errors: int) -> None:
        with open(errors, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._said.append(line)

    def _listen(self, source: int) -> None:
        """A container may take long to start: the time runs from when the first node has begun.

        Once one is found to be bad, the others have a moment left to say that they are too.
        """
        until, hurry, left = time.monotonic() + _MOST, 0, b""
        while time.monotonic() < until and len(self.findings.done) < len(self._nodes):
            if select.select([source], [], [], 1.0)[0]:
                chunk = os.read(source, 65536)
                *lines, left = (left + chunk).split(b"\n")
                for line in lines if chunk else [*lines, left]:
                    self._hear(line.decode("utf-8", "replace"))
                if not chunk:  # the step has ended
                    return
            if hurry == 0 and self.findings.at:
                until, hurry = time.monotonic() + self._patience, 1
            elif hurry == 1 and (self.findings.bad or any("Exited with exit code" in line for line in self._said)):
                until, hurry = time.monotonic() + self._patience // 12, 2

    def _hear(self, line: str) -> None:
        """One of a node's, see node.sh; any other is passed on."""
        mark, _, rest = line.partition("\t")
        if mark == "nemotron-health":
            node, word, text = [*rest.split("\t", 2), "", ""][:3]
            self.findings.hear(node, word, text)
        elif line:
            os.write(1, line.encode("utf-8", "replace") + b"\n")

    def _end(self, step: processes.Child) -> None:
        """A step that hangs is told twice, then it is left: the job's own end takes it away."""
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            for _ in range(10):
                if step.has_ended():
                    return
                if len(self.findings.done) < len(self._nodes):
                    break
                time.sleep(0.2)
            processes.send(step.pid, number)
            time.sleep(1)

    def _leave(self) -> Result:
        """There are bad nodes: the job goes back into the queue without them, or fails.

        What is so on all of several nodes, or on all but the one this script runs on, is no node's fault.
        """
        bad, count = self.findings.bad, len(self._nodes)
        for node, why in bad.items():
            self._tell("bad node %s: %s" % (node, why))
        common = self.findings.common
        if count > 2 and len(bad) >= count - 1:
            common = common or "it is so on %d of %d nodes" % (len(bad), count)
        if count > 1 and common:
            return self._fail(common)
        tries = self._remember(bad)
        excluded = self._excluded()
        left = len(set(self._partition()) - set(excluded))
        if tries > _TRIES:
            return self._fail("given up after %d other tries" % _TRIES)
        if left < count:
            return self._fail("its partition has %d node(s) without the bad ones, and %d are needed" % (left, count))
        nodes = ",".join(excluded)
        self._tell("the job goes back into the queue without %s (%d of at most %d times)" % (nodes, tries, _TRIES))
        return Result(False, "requeue health check: without " + nodes, nodes)

    def _remember(self, bad: "Dict[str, str]") -> int:
        """Writes the bad nodes down; in how many attempts there were some."""
        lines = ["%s\t%d\t%s\n" % (node, self._job.restarts, why) for node, why in bad.items()]
        try:
            with open(self._job.status.file("bad-nodes"), "a", encoding="utf-8") as file:
                file.writelines(lines)
        except OSError:
            return _TRIES + 1  # without a count it would never end
        found = (line.split("\t") for line in text_lines(self._job.status.text("bad-nodes")))
        return len({words[1] for words in found if len(words) > 1})

    def _excluded(self) -> "List[str]":
        """All nodes to stay away from: those of the profile and of earlier tries, and the bad ones of now."""
        found = _EXCLUDED.search(self._controller.say("scontrol", "show", "job", self._job.id))
        before = found.group(1) if found and found.group(1) != "(null)" else ""
        return sorted({*(self._names(before) if before else ()), *self.findings.bad})

    def _partition(self) -> "List[str]":
        """The nodes of the job's partition."""
        partition = "--partition=" + os.environ.get("SLURM_JOB_PARTITION", "")
        return self._controller.say("sinfo", "--noheader", "--Node", partition, "--format=%N").split()

    def _fail(self, why: str) -> Result:
        """A record for each bad node, as the job script would have left it."""
        self._tell("the job fails: " + why)
        for number, node in enumerate(self._nodes):
            if node in self.findings.bad:
                detail = "%s (%s)" % (self.findings.bad[node], why)
                reason = "health check: bad node %s: %s" % (node, detail)
                record = start_record(self._job, number, node, 1, reason, "health")
                write_record(self._job, "node-%d" % number, {**record, "detail": detail})
        return Result(False, "stop health check: " + why)


def _without_output(words: "Sequence[str]", number: str) -> "Tuple[List[str], str]":
    """The options of the job's own step, its container above all, but what they do with the output; and its log."""
    kept: "List[str]" = []
    log, before = os.devnull, ""
    for word in words:
        if before == "--output":
            log = word.replace("%j", number)
        elif before != "--chdir" and word not in ("--output", "--chdir", "--label") and not word.startswith(_OWN):
            kept.append(word)
        before = word
    return kept, log


def _seconds(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else default


def _text(file: str) -> str:
    with open(file, encoding="utf-8") as stream:
        return stream.read().rstrip("\n")


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)

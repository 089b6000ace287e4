"""Forwards a job's metrics and artifacts to W&B, by its own Python's `wandb`.

A process beside the command: the job's shell starts it behind its setup, with the job's variables, from which the
package takes project, entity, name and all else. The node's supervisor tells it how the command has ended.
"""

import os
import sys
import time

from nemo_runspec.jobside import processes, wandb_artifacts
from nemo_runspec.jobside.rank import NODE_SUPERVISOR
from nemo_runspec.jobside.records import Folder, remove
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Optional, Tuple

RUN = "wandb"
"""The record of the job's run: `id`, `url`, `state`, how many bytes of the metrics were sent (`sent`), which versions
were registered (`artifacts`), and why some were not (`unregistered`)."""
METRICS, ARTIFACTS = "metrics", "artifacts"
"""What it may be started for."""
_PROCESS, _END = "wandb-process", "wandb-end"

_LOOK = 0.5
_PATIENCE = 60
"""Seconds that it has for what is left once the command has ended."""
_HURRY = 10
"""The same, where the job was told to stop."""


def forward(root: str, tasks: str) -> int:
    """Starts a process of its own that tells W&B of a job; 0 at once.

    Args:
        root: the job's directory.
        tasks: `metrics`, `artifacts`, or both with a comma between them.
    """
    if os.environ.get("NEMOTRON_NODE_RANK", "0") != "0" or os.environ.get("RANK", "0") != "0":
        return 0
    status = Folder(root + "/status")
    remove(status.file(_END))
    pid = os.fork()
    if pid:
        status.note(_PROCESS, _text({"pid": pid, "started": processes.started(pid)}))
        return 0
    os.setsid()  # what is told to the command's group is not for this process
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path[:] = [path for path in sys.path if path != root]  # the runs lie there in a folder named wandb
    _Forwarder(root, status, tasks.split(",")).run()
    return 0


def settle(root: str, status: Folder, exit_code: int, stopped: bool, registers: bool = False) -> None:
    """Has what is left told, and waits for that; writes down which run a job that does without us has made.

    Args:
        exit_code: the command's.
        stopped: the job was told to stop.
        registers: the job has ended well on all nodes: what it made is registered.
    """
    process = status.read(_PROCESS)
    if process:
        status.note(_END, "%d %d\n" % (exit_code, registers))
        until = time.monotonic() + (_HURRY if stopped else _PATIENCE)
        while _lives(process) and time.monotonic() < until:
            time.sleep(0.05)
        if _lives(process):
            _give_up(root, status, process, registers)
        remove(status.file(_PROCESS))
    if not process or not status.read(RUN).get("state"):
        found = _made_by_the_job(root, exit_code)
        if found:
            status.note(RUN, _text(dict(status.read(RUN), **found)))
    status.hand_over(status.file(RUN))


def _give_up(root: str, status: Folder, process: "Dict[str, Any]", registers: bool) -> None:
    processes.end_tree(int(process["pid"]))
    if "sent" in status.read(RUN):
        say("W&B: not all could be sent in time; the metrics are in %s/metrics.jsonl" % root)
    known = status.read(RUN)
    if registers and wandb_artifacts.expected(root) and not (known.get("artifacts") or known.get("unregistered")):
        why = "W&B has not answered in time"
        wandb_artifacts.tell_loss(root, why)
        known["unregistered"] = why
        status.note(RUN, _text(known))


def _made_by_the_job(root: str, exit_code: int) -> "Dict[str, str]":
    """The newest run below WANDB_DIR, as the client names its folder: `run-TIME-ID` or `offline-run-TIME-ID`."""
    try:
        name = os.path.basename(os.readlink(root + "/wandb/latest-run"))
    except OSError:
        return {}
    kind, _, rest = name.partition("run-")
    id = rest.partition("-")[2]
    state = "offline" if kind == "offline-" else "failed" if exit_code else "finished"
    return {"id": id, "state": state} if id else {}


def _lives(process: "Dict[str, Any]") -> bool:
    pid = int(process.get("pid", 0))
    fields = processes.stat_of(pid)
    return fields is not None and fields[0] != "Z" and processes.started(pid) == process.get("started")


class _Forwarder:
    """Follows one file of metrics to its end, and registers what was made. `tasks`: which of these it does."""

    def __init__(self, root: str, status: Folder, tasks: "List[str]") -> None:
        self._root, self._status = root, status
        self._file = root + "/metrics.jsonl" if METRICS in tasks else ""
        self._sent = int(status.read(RUN).get("sent", 0))
        self._noted = -1.0
        self._run: "Any" = None
        self._offline = False
        self._registers = ARTIFACTS in tasks
        self._told: "Dict[str, str]" = {}

    def run(self) -> None:
        """Sends until the command has ended, and then what is left. That it cannot is no reason to end a job."""
        exit_code, well = None, False
        try:
            if self._file:
                self._begin()
            elif not _has_wandb():
                say("W&B: this job's python has no wandb: what it makes cannot be registered there")
            while exit_code is None:
                exit_code, well = self._command_ended(_LOOK)
                self._send()
            if self._registers and well:
                self._register()
            if self._run is not None:
                self._run.finish(exit_code=exit_code)
                self._note("failed" if exit_code else "finished")
        except ImportError:
            self._fail("this job's python has no wandb")
        except Exception as error:  # noqa: BLE001  (whatever the package raises)
            self._fail(wandb_artifacts.first_line(error))

    def _register(self) -> None:
        if self._run is None:
            self._begin()
        try:
            for known in wandb_artifacts.made(self._root):
                self._told.update(wandb_artifacts.log(self._run, known, self._offline, self._told))
                self._note("running")
        except Exception as error:  # noqa: BLE001  (whatever the package raises)
            self._lose(wandb_artifacts.first_line(error))
            self._note("running")

    def _lose(self, why: str) -> None:
        wandb_artifacts.tell_loss(self._root, why, self._told.get("artifacts", ""))
        self._told["unregistered"] = why

    def _begin(self) -> None:
        import wandb  # type: ignore[import-not-found,unused-ignore]

        if getattr(wandb, "__file__", None) is None:
            raise ImportError  # a folder of runs on PYTHONPATH
        mode = os.environ.get("WANDB_MODE") or ("online" if _has_key() else "offline")
        quiet = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True, init_timeout=30)
        self._offline = mode == "offline"
        self._run = wandb.init(mode=mode, settings=quiet, config=_config(self._root + "/train.yaml"))
        if self._file:
            self._run.define_metric("*", step_metric="step")
        self._note("running")
        if self._offline:
            why = "" if os.environ.get("WANDB_MODE") else " (no WANDB_API_KEY was found)"
            say("W&B: the run is kept here%s; to send it: wandb sync %s" % (why, os.path.dirname(self._run.dir)))
        else:
            say("W&B: %s" % self._run.url)

    def _command_ended(self, seconds: float) -> "Tuple[Optional[int], bool]":
        """The command's exit code once it has one, and whether the job has ended well; 137 where its supervisor was
        killed."""
        until = time.monotonic() + seconds
        while True:
            text = self._status.text(_END).strip()
            if text:
                code, _, well = text.partition(" ")
                return int(code), well == "1"
            if not processes.started(int(os.environ.get(NODE_SUPERVISOR) or 0)):
                return 137, False
            if time.monotonic() >= until:
                return None, False
            time.sleep(0.05)

    def _send(self) -> None:
        if not self._file:
            return
        from nemo_runspec.jobside.downsample import numbers

        for line in self._new_lines():
            found = numbers(line)
            if found:
                self._run.log(found)
        if self._sent != self._noted:
            self._note("running")

    def _new_lines(self) -> "List[bytes]":
        try:
            with open(self._file, "rb") as stream:
                stream.seek(self._sent)
                data = stream.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._sent += len(whole)
        return whole.splitlines()

    def _note(self, state: str) -> None:
        self._noted = self._sent
        state = "offline" if self._offline else state
        # Asked of an offline run, the package warns.
        url = "" if self._offline else self._run.url or ""
        record = {"id": self._run.id, "url": url, "state": state}
        if self._file:
            record["sent"] = self._sent
        self._status.note(RUN, _text(dict(record, **self._told)))

    def _fail(self, why: str) -> None:
        if self._file:
            say("W&B: metrics are not sent on: %s; they are in %s" % (why, self._file))
            known = dict(self._status.read(RUN), why=why, sent=self._sent)
            known["state"] = "crashed" if known.get("id") else "none"
            self._status.note(RUN, _text(known))
        if self._registers and "unregistered" not in self._told and self._end_well():
            self._lose(why)
            self._status.note(RUN, _text(dict(self._status.read(RUN), **self._told)))

    def _end_well(self) -> bool:
        """True if the job has ended well, once it has ended: metrics may be lost long before."""
        code, well = None, False
        while code is None:
            code, well = self._command_ended(_LOOK)
        return well


def _text(record: "Dict[str, Any]") -> str:
    from nemo_runspec.jobside import values

    return values.write(record) + "\n"


def _has_wandb() -> bool:
    from importlib.util import find_spec

    found = find_spec("wandb")
    return found is not None and found.origin is not None


def _has_key() -> bool:
    return bool(os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"))


def _config(file: str) -> "Dict[str, Any]":
    """The job's composed configuration, for the run's; empty where there is none, or nothing here reads YAML."""
    try:
        import yaml

        with open(file, encoding="utf-8") as stream:
            found = yaml.safe_load(stream)
    except Exception:  # noqa: BLE001  (a run without its configuration is better than none)
        return {}
    return found if isinstance(found, dict) else {}

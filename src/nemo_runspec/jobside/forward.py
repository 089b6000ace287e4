"""What a job appends to its file of metrics, sent on to W&B by the `wandb` package of its own Python.

A process beside the command: the job's shell starts it behind its setup, with the job's variables, from which the
package takes project, entity, name and all else. The node's supervisor tells it how the command has ended.
"""

import os
import sys
import time

from nemo_runspec.jobside import processes
from nemo_runspec.jobside.rank import NODE_SUPERVISOR
from nemo_runspec.jobside.records import Folder, remove
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Optional

RUN = "wandb"
"""The record of the job's run: `id`, `url`, `state`, and how many bytes of the metrics were sent (`sent`)."""
_PROCESS, _END = "wandb-process", "wandb-end"

_LOOK = 0.5
_PATIENCE = 60
"""Seconds that it has for what is left once the command has ended."""
_HURRY = 10
"""The same, where the job was told to stop."""


def forward(root: str) -> int:
    """Starts to send a job's metrics on, in a process of its own; 0 at once.

    Args:
        root: the job's directory.
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
    _Forwarder(root, status).run()
    return 0


def settle(root: str, status: Folder, exit_code: int, stopped: bool) -> None:
    """Has what is left sent on, and waits for that; writes down which run a job that does without us has made.

    Args:
        exit_code: the command's. `stopped`: the job was told to stop.
    """
    process = status.read(_PROCESS)
    if process:
        status.note(_END, "%d\n" % exit_code)
        until = time.monotonic() + (_HURRY if stopped else _PATIENCE)
        while _lives(process) and time.monotonic() < until:
            time.sleep(0.05)
        if _lives(process):
            say("W&B: not all metrics could be sent in time; they are in %s/metrics.jsonl" % root)
            processes.end_tree(int(process["pid"]))
        remove(status.file(_PROCESS))
    else:
        found = _made_by_the_job(root, exit_code)
        if found:
            status.note(RUN, _text(found))
    status.hand_over(status.file(RUN))


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
    """Follows one file of metrics to its end."""

    def __init__(self, root: str, status: Folder) -> None:
        self._root, self._status = root, status
        self._file = root + "/metrics.jsonl"
        self._sent = int(status.read(RUN).get("sent", 0))
        self._noted = -1.0
        self._run: "Any" = None
        self._offline = False

    def run(self) -> None:
        """Sends until the command has ended, and then what is left. That it cannot is no reason to end a job."""
        try:
            self._begin()
            exit_code = None
            while exit_code is None:
                exit_code = self._command_ended(_LOOK)
                self._send()
            self._run.finish(exit_code=exit_code)
            self._note("failed" if exit_code else "finished")
        except ImportError:
            self._fail("this job's python has no wandb")
        except Exception as error:  # noqa: BLE001  (whatever the package raises)
            self._fail((str(error).strip() or type(error).__name__).splitlines()[0])

    def _begin(self) -> None:
        import wandb  # type: ignore[import-not-found,unused-ignore]

        if getattr(wandb, "__file__", None) is None:
            raise ImportError  # a folder of runs on PYTHONPATH
        mode = os.environ.get("WANDB_MODE") or ("online" if _has_key() else "offline")
        quiet = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True, init_timeout=30)
        self._offline = mode == "offline"
        self._run = wandb.init(mode=mode, settings=quiet, config=_config(self._root + "/train.yaml"))
        self._run.define_metric("*", step_metric="step")
        self._note("offline" if self._offline else "running")
        if self._offline:
            why = "" if os.environ.get("WANDB_MODE") else " (no WANDB_API_KEY was found)"
            say("W&B: the run is kept here%s; to send it: wandb sync %s" % (why, os.path.dirname(self._run.dir)))
        else:
            say("W&B: %s" % self._run.url)

    def _command_ended(self, seconds: float) -> "Optional[int]":
        """The command's exit code once it has one; that of a job whose supervisor was killed is 137."""
        until = time.monotonic() + seconds
        while True:
            text = self._status.text(_END).strip()
            if text:
                return int(text)
            if not processes.started(int(os.environ.get(NODE_SUPERVISOR) or 0)):
                return 137
            if time.monotonic() >= until:
                return None
            time.sleep(0.05)

    def _send(self) -> None:
        from nemo_runspec.jobside.downsample import numbers

        for line in self._new_lines():
            found = numbers(line)
            if found:
                self._run.log(found)
        if self._sent != self._noted:
            self._note("offline" if self._offline else "running")

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
        record = {"id": self._run.id, "url": url, "state": state, "sent": self._sent}
        self._status.note(RUN, _text(record))

    def _fail(self, why: str) -> None:
        say("W&B: metrics are not sent on: %s; they are in %s" % (why, self._file))
        known = self._status.read(RUN)
        known.update({"state": "crashed" if known.get("id") else "none", "why": why, "sent": self._sent})
        self._status.note(RUN, _text(known))


def _text(record: "Dict[str, Any]") -> str:
    from nemo_runspec.jobside import values

    return values.write(record) + "\n"


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

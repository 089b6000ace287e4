"""Pythons that have loaded what the recipes' scripts import, and run them: seconds of processor time for each run.

A script runs as `__main__` with its words, environment, output and exit code, in a fork of such a Python, or, for those
that use Ray, in the one that is connected to the tests' cluster already: what that one leaves in memory stays. What
reads the environment as it is imported, is signalled, or is started by torchrun, is for a process of its own.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STARTED = "ready"
LOADED = ("torch", "torch.distributed.fsdp", "transformers.models.nemotron_h.modeling_nemotron_h", "matplotlib.pyplot")
"""What takes the time; none of it computes anything, or starts a thread, as it is imported."""


class WarmPython:
    """Such a Python, as the tests have it.

    Args:
        python: that has what the scripts need. `shared`: the folder of what they import, known to Ray's workers too.
        environment: of the process as it starts. With a Ray cluster's address it is connected there, and does not fork.
    """

    def __init__(self, python: Path, shared: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", __file__, str(shared)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._answer(STARTED)

    def run(
        self, script: Path, words: list[str], environment: Mapping[str, str], folder: Path, processes: int = 1
    ) -> subprocess.CompletedProcess[str]:
        """Run `script words…`, as so many ranks of a torchrun where there are several; `folder` takes what is said."""
        out, err = folder / "out", folder / "err"
        request = {"script": str(script), "words": words, "env": dict(environment), "processes": processes}
        assert self._process.stdin
        self._process.stdin.write(json.dumps({**request, "out": str(out), "err": str(err)}) + "\n")
        self._process.stdin.flush()
        code = int(self._answer())
        return subprocess.CompletedProcess([str(script), *words], code, out.read_text(), err.read_text())

    def close(self) -> None:
        """Ends it, and with it its job on the cluster."""
        self._process.communicate()

    def _answer(self, wanted: str = "") -> str:
        assert self._process.stdout
        said = self._process.stdout.readline().strip()
        assert said.startswith(wanted) and said, f"the warm Python has gone: {self._process.poll()}"
        return said


def _run(script: str, words: list[str]) -> int:
    """The exit code that Python would have had."""
    sys.argv = [script, *words]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as Python would
        traceback.print_exc()
        return 1
    return 0


def _redirect(request: dict[str, Any]) -> None:
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)


def _forked(request: dict[str, Any]) -> int:
    """The exit code of the rank that failed first, as a shell has it; the others are ended then."""
    count, ranks = request["processes"], list[int]()
    for rank in range(count):
        pid = os.fork()
        if not pid:
            _child(request, _rank(rank, count, request["port"]) if count > 1 else {})
        ranks.append(pid)
    failed = 0
    while ranks:
        pid, status = os.wait()
        ranks.remove(pid)
        code = os.waitstatus_to_exitcode(status)
        if code and not failed:
            failed = code if code > 0 else 128 - code
            for other in ranks:
                os.kill(other, signal.SIGKILL)
    return failed


def _rank(rank: int, count: int, port: int) -> dict[str, str]:
    """What torchrun tells one of its processes on one machine (pytorch.org, Elastic Launch)."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
    return {"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in numbers.items()}}


def _child(request: dict[str, Any], also: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update({**request["env"], **also})
    _redirect(request)
    code = _run(request["script"], request["words"])
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _connected(request: dict[str, Any]) -> int:
    own, kept = os.environ.copy(), [os.dup(number) for number in (1, 2)]
    os.environ.clear()
    os.environ.update(request["env"])
    _redirect(request)
    code = _run(request["script"], request["words"])
    sys.stdout.flush()
    sys.stderr.flush()
    for number, copy in zip((1, 2), kept, strict=True):
        os.dup2(copy, number)
        os.close(copy)
    os.environ.clear()
    os.environ.update(own)
    return code


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    is_connected = "RAY_ADDRESS" in os.environ
    if is_connected:
        import ray

        sys.path.insert(0, sys.argv[1])  # before Ray is asked, which tells its workers
        ray.init(logging_level="ERROR")
    else:
        for name in LOADED:
            __import__(name)
        gc.collect()
        gc.freeze()  # nothing of it is looked at, and so copied, in the forks
    print(STARTED, file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        code = _connected(request) if is_connected else _forked({**request, "port": _free_port()})
        print(code, file=answers, flush=True)


if __name__ == "__main__":
    _serve()

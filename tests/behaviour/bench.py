"""A project on one rig, used as a person would: `nemotron` as a process, scripts as files, jobs by their name."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import warm
from support import Outcome, Project
from waiting import LONG, open_gate, pause_after, until

from behaviour.rigs import Rig, Setting

_PATIENCE = 600
"""Seconds after which a call of nemotron hangs."""

TELL = """
    import json, os, sys
    def tell(**said):
        print("TOLD " + json.dumps(said), flush=True)
    def wait_for_word():
        import time
        open(os.environ["NEMOTRON_JOB_DIR"] + "/waits", "w").close()
        for _ in range(6000):
            if os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/go"):
                return
            time.sleep(0.1)
        raise SystemExit("nobody said that it may go on")
"""


def lines_of(rank: int, output: str, nodes: int) -> list[str]:
    """One node's lines of a job's output, in their order and without the prefix of its rank; an only rank has none."""
    prefix = f"[rank{rank}] "
    if nodes == 1 and f"\n{prefix}" not in f"\n{output}":
        return [line for line in output.removesuffix("\n").split("\n") if output and not line.startswith("nemotron")]
    return [line.removeprefix(prefix) for line in output.split("\n") if line.startswith(prefix)]


def same_lines(nodes: int, output: str) -> list[str]:
    """The lines that each of a job's nodes has printed: the same ones, as all run the same script."""
    first, *others = (lines_of(rank, output, nodes) for rank in range(nodes))
    for rank, lines in enumerate(others, 1):
        assert lines == first, f"rank {rank} has other lines than rank 0: {lines[:20]}, {first[:20]}"
    return first


@dataclass(frozen=True)
class Ended:
    """How a job ended: nemotron's own exit code, what it printed, and how many nodes it had."""

    code: int
    out: str
    err: str
    nodes: int = 1

    @property
    def lines(self) -> list[str]:
        """The lines of each node."""
        return same_lines(self.nodes, self.out)

    @property
    def told(self) -> dict[str, Any]:
        """What the script said with `tell(...)`, all of it together; the same on each node."""
        first, *others = self.told_by_node
        for rank, told in enumerate(others, 1):
            assert told == first, f"rank {rank} says something else than rank 0"
        return first

    @property
    def told_by_node(self) -> list[dict[str, Any]]:
        """What each node said with `tell(...)`."""
        return [self._told(rank) for rank in range(self.nodes)]

    def _told(self, rank: int) -> dict[str, Any]:
        said: dict[str, Any] = {}
        for line in lines_of(rank, self.out, self.nodes):
            if line.startswith("TOLD "):
                said |= json.loads(line.removeprefix("TOLD "))
        assert said, (rank, self.code, self.out, self.err)
        return said


@dataclass(frozen=True)
class Bench:
    """One test's project, and the rig its jobs run on."""

    rig: Rig
    project: Project
    setting: Setting

    def of_several(self) -> Bench:
        """The same for jobs of several nodes, where the rig has such."""
        return replace(self, rig=replace(self.rig, nodes=self.rig.several))

    def profile(self, **keys: Any) -> None:
        """Writes the profile `target`: the rig's own lines, its number of nodes, and these keys."""
        keys = {"nodes": self.rig.nodes, **keys} if self.rig.nodes > 1 else keys
        lines = [f"{key} = {toml(value)}" for key, value in keys.items()]
        self.project.write("env.toml", "\n".join(["[target]", self.setting.profile, *lines, ""]))

    def script(self, text: str, name: str = "job.py") -> str:
        """Writes a script, which can `tell(...)` and `wait_for_word()`; returns what names it on the command line."""
        self.project.write(name, textwrap.dedent(TELL) + textwrap.dedent(text))
        return f"./{name}"

    def attached(self, text: str, *args: str, **options: Any) -> Ended:
        """`nemotron run SCRIPT --run target -- ARGS`."""
        return self.run_script(self.script(text), *args, **options)

    def run_script(self, script: str, *args: str, **options: Any) -> Ended:
        """The same for a script that has been written before."""
        done = self.nemotron("run", script, "--run", "target", "--", *args, **options)
        return Ended(done.code, done.out, done.err, self.rig.nodes)

    def detached(self, text: str, *args: str) -> str:
        """`nemotron run SCRIPT --batch target -- ARGS`; the name of the job."""
        self.nemotron("run", self.script(text), "--batch", "target", "--", *args).succeeds()
        return self.newest()

    def start(self, text: str, *args: str, way: str = "--run") -> subprocess.Popen[bytes]:
        """The same, not waited for."""
        return self.started("run", self.script(text), way, "target", "--", *args)

    def started(self, *args: str, **environment: str) -> subprocess.Popen[bytes]:
        """`nemotron ARGS` as a process, in a session of its own as a terminal has one."""
        return warm.start(
            args,
            cwd=self.project.folder,
            env=self.project.environment(**{**self.setting.environment, **environment}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def nemotron(self, *args: str, **environment: str) -> Outcome:
        """`nemotron ARGS`, waited for."""
        return finish(self.started(*args, **environment))

    def newest(self) -> str:
        """The name of the job that was started last."""
        return str(self.nemotron("jobs", "list", "--json").succeeds().json[0]["name"])

    def show(self, name: str) -> dict[str, Any]:
        """What is known of a job."""
        return dict(self.nemotron("jobs", "show", name, "--json").succeeds().json)

    def wait(self, name: str) -> int:
        """`nemotron jobs wait`: the job's exit code."""
        return self.nemotron("jobs", "wait", name).code

    def log(self, name: str) -> str:
        """`nemotron jobs logs`."""
        return self.nemotron("jobs", "logs", name).succeeds().out

    def log_lines(self, name: str) -> list[str]:
        """The lines of each node in `nemotron jobs logs`; nothing else is there, unless one node tells of another."""
        log = self.log(name)
        lines = same_lines(self.rig.nodes, log)
        others = [line for line in log.splitlines() if self.rig.nodes == 1 or not line.startswith("nemotron: node ")]
        assert len(others) == len(lines) * self.rig.nodes, log[:2000]
        return lines

    def folder(self, name: str) -> Path:
        """The job's folder."""
        return self.project.state / "jobs" / name

    def give_word(self, name: str) -> None:
        """Lets a job go on that waits for it, as soon as it does."""
        folder = self.setting.job_dir(self.folder(name))
        until((folder / "waits").exists, f"{name} at its word", seconds=300)
        open_gate(folder)

    def leftovers(self, name: str) -> list[str]:
        """What of a job is still there, once it has had its time to go."""
        return eventually(lambda: self.setting.leftovers(name, self.folder(name)), lambda found: not found, LONG)

    def log_has(self, name: str, text: str, *, nodes: int | None = None) -> str:
        """The job's log once each node, or each of the first so many, has a line with the text in it."""

        def there(log: str) -> bool:
            asked = range(self.rig.nodes if nodes is None else nodes)
            return all(any(text in line for line in lines_of(rank, log, self.rig.nodes)) for rank in asked)

        return until(lambda: self.nemotron("jobs", "logs", name).out, repr(text), there, 300)


def finish(process: subprocess.Popen[bytes]) -> Outcome:
    """How a process ended. Bytes that are no UTF-8 stay in its output as surrogates, and ends of line as they are."""
    try:
        out, err = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()  # else it runs on beside the next tests
        process.communicate(timeout=60)
        raise
    return Outcome(process.returncode, out.decode(errors="surrogateescape"), err.decode(errors="surrogateescape"))


def eventually(look: Callable[[], Any], good: Callable[[Any], bool], seconds: float) -> Any:
    """What is seen once it is good, or at last after so many seconds: the caller's assertion says what is wrong."""
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if good(seen := look()) or began >= end:
            return seen
        time.sleep(pause_after(began))


def toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return re.sub("\x7f", r"\\u007f", json.dumps(value, ensure_ascii=False))
    return json.dumps(value)

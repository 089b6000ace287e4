"""Pods of cloud plans: the real first program and the real pod script, under bash, with real directories."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from job_scripts import plan_for
from labs.slurm.process import descendants
from waiting import until

from nemo_runspec.backends.cloud.code.transports import Transports
from nemo_runspec.backends.cloud.code.upload import JobUpload, load, pod_arguments
from nemo_runspec.backends.cloud.pod.program import boot_program, node_program, pod_files
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.provider import Parts
from nemo_runspec.plans.model import Artifact, Package, Plan
from nemo_runspec.script.markers import NodeMarker
from nemo_runspec.script.pod_marker import read_ends
from nemo_runspec.script.programs import pod_programs
from nemo_runspec.submission.bundle import read_bundle

ROOMY = Transports(90_000, 500_000)


def cloud_plan(top: Path, script: str = "", *, target: Mapping[str, Any] | None = None, **values: Any) -> Plan:
    """A plan whose job directory lies below `top`, where its pods really run."""
    fields = {"container_image": "image", "nemo_run_dir": str(top / "run"), "shared": True, **(target or {})}
    plan = plan_for(top, script, executor="lepton", **values)
    return replace(plan, job_dir=str(top / "run" / "jobs" / plan.name), target=LeptonTarget(**fields))


def with_code(plan: Plan, archive: Path) -> Plan:
    """The plan with a package, as its archive says."""
    return replace(plan, package=Package(kind="pattern", files=1, bytes=archive.stat().st_size))


def producing(plan: Plan, name: str, path: str) -> Plan:
    """The plan with an output that is an artifact's version."""
    return replace(plan, produces=(Artifact(name, "model", artifact="my-model", path=path),))


def loaded(
    plan: Plan, *, kind: str = "lepton", platform: str = "", archive: Path | None = None, offer: Transports = ROOMY
) -> JobUpload:
    """The plan's cargo, put where its offer says. `platform`: the module of one that is not ours."""
    texts = {"train.yaml": "{}\n", "job.yaml": "{}\n"}
    platform = platform or node_program(kind)
    texts |= {file.name: file.text for file in pod_files(plan, platform)}
    texts |= {program.name: program.text for program in pod_programs(platform)}
    return load(plan, texts, Parts(read_bundle(plan.bundle), archive), offer, lambda line: None)


class PodProcess:
    """One pod: the command its platform would run, as a process. What it writes is read as it comes."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.command = command
        self.process = subprocess.Popen(
            command,
            env={"HOME": os.environ["HOME"], "PATH": path_of_tests(), **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.out = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """What it has written so far."""
        return self.out.decode("utf-8", "replace")

    @property
    def end(self) -> NodeMarker:
        """What its last words say; it must have said them once at least."""
        (end,) = read_ends(self.out).values()
        return end

    def wait(self, seconds: float = 300) -> int:
        """Its exit code, all it wrote read."""
        code = self.process.wait(seconds)
        self._reader.join(120)
        return code

    def wait_for(self, text: str, seconds: float = 120) -> None:
        """Until it has written this."""
        until(lambda: self.text, repr(text), lambda said: text in said or not self._reader.is_alive(), seconds)
        assert text in self.text, f"no {text!r} in:\n{self.text}"

    def term(self) -> None:
        """What a platform sends to process 1 alone."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """All that is left of it, as when its node goes: no process sees another one end, and says so."""
        if self.process.poll() is not None:
            return  # another process may have its number by now
        stopped: list[int] = []
        while new := [pid for pid in (self.process.pid, *descendants(self.process.pid)) if pid not in stopped]:
            _signal(new, signal.SIGSTOP)
            stopped += new
        # Children first: those of a parent that is gone are let go on by the kernel (POSIX: an orphaned process group).
        _signal(stopped[::-1], signal.SIGKILL)
        self.process.wait(120)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.out += line


def path_of_tests() -> str:
    """Programs of this machine, this Python first."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def start(cargo: JobUpload, *, platform: str = "", **env: str) -> PodProcess:
    """A pod as Lepton starts it: the words are arguments. `platform`: as of `loaded`."""
    program = boot_program(platform or node_program("lepton"))
    return PodProcess(["/bin/bash", "-c", program, "nemotron", *pod_arguments(cargo)], env)


def start_as_variables(cargo: JobUpload, **env: str) -> PodProcess:
    """A pod as run:ai starts it: the program and the words are variables."""
    cargo_words = {f"NEMOTRON_UPLOAD_{number}": word for number, word in enumerate(pod_arguments(cargo))}
    return PodProcess(
        ["/bin/bash", "-c", 'eval "$NEMOTRON_BOOT"'],
        {"NEMOTRON_BOOT": boot_program(node_program("dgxcloud")), **cargo_words, **env},
    )


def node(index: int, nodes: int = 2, **env: str) -> dict[str, str]:
    """Lepton's variables for one of several nodes."""
    return {
        "LEPTON_JOB_WORKER_INDEX": str(index),
        "LEPTON_JOB_TOTAL_WORKERS": str(nodes),
        "LEPTON_JOB_WORKER_PREFIX": "worker",
        "LEPTON_JOB_SERVICE_PREFIX": "my-job-ab12",
        "LEPTON_SUBDOMAIN": "my-job-ab12-job-svc",
        **env,
    }


def name_service(folder: Path, *known: str) -> str:
    """A PATH whose getent knows only these names, as 127.0.0.1: names are the one thing this machine has not."""
    program = folder / "names" / "getent"
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        f"#!/bin/sh\nfor name in {' '.join(known)}; do\n"
        '  [ "$2" != "$name" ] || { echo "127.0.0.1 $2"; exit 0; }\n'
        "done\nexit 2\n"
    )
    program.chmod(0o755)
    return f"{program.parent}:{path_of_tests()}"


def without(folder: Path, *missing: str) -> str:
    """A PATH that has the machine's programs but these, and, where it is not among them, this Python as `python`."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            link = programs / program.name
            if program.name not in (*missing, "python") and not link.is_symlink():
                link.symlink_to(program)
    if "python" not in missing and not (programs / "python").is_symlink():
        (programs / "python").symlink_to(sys.executable)
    return str(programs)


class HeldUpload:
    """An upload that begins, and goes on only once it is let go.

    Attributes:
        path: the PATH of pods whose upload it is.
    """

    def __init__(self, folder: Path, index: int = 0) -> None:
        programs = folder / "held"
        programs.mkdir()
        self.path = f"{programs}:{path_of_tests()}"
        self._begun, self._free = programs / "begun", programs / "free"
        (programs / "python3").write_text(
            f'#!/bin/sh\ncase "$*" in *" put "*" --node {index} "*)\n'
            f"  touch {self._begun}; until [ -e {self._free} ]; do sleep 0.05; done ;;\nesac\n"
            f'exec {sys.executable} "$@"\n'
        )
        (programs / "python3").chmod(0o755)

    def wait_for(self, pod: PodProcess) -> None:
        """Until it has begun, in this pod."""
        until(lambda: pod.text, "an upload", lambda _: self._begun.exists())

    def let_go(self) -> None:
        """It goes on."""
        self._free.touch()


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

"""What several test files share: a project of its own to work in, and the command line called in it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import warm

REPOSITORY = Path(__file__).resolve().parents[1]
SEED_BLOCKS = sorted((Path(__file__).parent / "data" / "seed_env_blocks").glob("*.toml"))

ENV_TOML = """\
[wandb]
project = "nemotron"
entity = "team"

[artifacts]
backend = "file"

[base-slurm]
executor = "slurm"
account = "acme"
time = "04:00:00"
mounts = ["/lustre:/lustre"]

[my-cluster]
extends = "base-slurm"
partition = "batch"
run_partition = "interactive"
nodes = 4
ntasks_per_node = 8
gpus_per_node = 8

[my-cluster.env_vars]
NCCL_DEBUG = "WARN"

[laptop]
nproc_per_node = 2

[box]
executor = "docker"
container_image = "nvcr.io/nvidia/nemo:25.11"
gpus_per_node = 1

[runai]
executor = "dgxcloud"
base_url = "https://dgx.example.com/api/v1"
kube_apiserver_url = "https://dgx-k8s.example.com"
client_id = "team-client"
client_secret = "${oc.env:DGX_CLIENT_SECRET,''}"
project_name = "team"
container_image = "nvcr.io/nvidia/nemo:25.11"
pvc_nemo_run_dir = "/pvc/nemo_run"
pvcs = [{ claimName = "data", path = "/pvc" }]

[lepton]
executor = "lepton"
container_image = "nvcr.io/nvidia/nemo:25.11"
nemo_run_dir = "/lustre/nemo_run"
resource_shape = "gpu.8xh100-sxm"
node_group = "group"
mounts = [{ path = "/", mount_path = "/lustre", from = "node-nfs:lustre" }]
"""
PROFILES = ("base-slurm", "my-cluster", "laptop", "box", "runai", "lepton")

HEADER = """\
# /// script
# dependencies = []
# [tool.runspec]
# schema = "1"
# description = "A recipe for tests."
# [tool.runspec.run]
# launch = "direct"
# ///
"""

_DROPPED = ("NEMOTRON_", "NEMORUN_", "WANDB_", "HF_", "SLURM_", "LEPTON_", "GIT_", "XDG_", "TYPER_")
_TESTERS = ("COV_", "PYTEST_")
_DROPPED_NAMES = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "HUGGING_FACE_HUB_TOKEN", "NETRC", "PYTHONPATH"}


@dataclass(frozen=True)
class Outcome:
    """How one call ended. `err` is what went to the error stream."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output, read as JSON."""
        return json.loads(self.out)

    def refuses(self, *words: str) -> None:
        """Asserts a mistake of the user's: code 2, no output, no traceback, every word in the message."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.err.startswith("error: "), self.err
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, f"{word!r} is not in:\n{self.err}"

    def succeeds(self) -> Outcome:
        """Asserts code 0; returns itself."""
        assert self.code == 0, (self.code, self.out, self.err)
        return self


@dataclass(frozen=True)
class Project:
    """A folder with a `pyproject.toml` and an `env.toml`, and a home beside it."""

    folder: Path
    home: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def env_file(self) -> Path:
        """The project's env file."""
        return self.folder / "env.toml"

    @property
    def state(self) -> Path:
        """Where nemotron keeps jobs."""
        return self.home / ".nemotron"

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def recipe(self, path: str, *, header: str = HEADER, body: str = "", **configs: str) -> Path:
        """Writes a recipe of the project's own, with `config/<name>.yaml` for every keyword."""
        for name, text in (configs or {"default": "value: 1\n"}).items():
            self.write(f"recipes/{path}/config/{name}.yaml", text)
        return self.write(f"recipes/{path}/main.py", header + body)

    def environment(self, **extra: str) -> dict[str, str]:
        """What a process of this project sees."""
        return clean_environment(self.home, **{**self.extra, **extra})


def make_project(top: Path, env_toml: str = ENV_TOML) -> Project:
    """A new project below `top`."""
    folder, home = top / "project", top / "home"
    folder.mkdir(parents=True)
    home.mkdir()
    project = Project(folder, home)
    project.write("pyproject.toml", "[project]\nname = 'mine'\nversion = '0'\n")
    project.write("env.toml", env_toml)
    return project


def enter(project: Project, monkeypatch: pytest.MonkeyPatch, **extra: str) -> None:
    """Gives this process the environment, home and working directory of a project, and nothing else.

    Args:
        extra: more variables.
    """
    wanted = project.environment(**extra)
    for name in set(os.environ) - set(wanted):
        monkeypatch.delenv(name)
    for name, value in wanted.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project.folder)


def clean_environment(home: Path, **extra: str) -> dict[str, str]:
    """This process's environment without anything that nemotron, git or a scheduler would read."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_TESTERS) and not is_users(k)}
    quiet = {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8", "TERM": "dumb"}
    return {**kept, **quiet, **extra}


def is_users(variable: str) -> bool:
    """True for a variable that nemotron, Python, git or a scheduler would read: the user's value is not for tests."""
    return variable.startswith(_DROPPED) or variable in _DROPPED_NAMES


def call(*args: str) -> Outcome:
    """`nemotron ARGS…` in this process. An exception that reaches us here would be a traceback for the user."""
    from nemotron.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["nemotron", *args]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(list(args))
    finally:
        sys.argv = before
    return Outcome(code, out.getvalue(), err.getvalue())


def start(
    project: Project, *args: str, cwd: Path | None = None, cold: bool = False, **environment: str
) -> subprocess.Popen[str]:
    """`nemotron ARGS…` as a process that is not waited for. `cold`: as a program of its own, see `warm`."""
    return warm.start(
        args,
        cold=cold,
        cwd=cwd or project.folder,
        env=project.environment(**environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def process(
    project: Project,
    *args: str,
    cwd: Path | None = None,
    timeout: float = 300,
    cold: bool = False,
    **environment: str,
) -> Outcome:
    """`nemotron ARGS…` as a process."""
    return finish(start(project, *args, cwd=cwd, cold=cold, **environment), timeout)


def finish(child: subprocess.Popen[str], seconds: float = 300) -> Outcome:
    """How a process ended; one that hangs is killed, so that it does not run on beside the next tests.

    Raises:
        AssertionError: it had not ended after so many seconds; with what it has said.
    """
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate(timeout=60)
        raise AssertionError(f"it hung: {out}{err}") from None
    return Outcome(child.returncode, out, err)


def git(folder: Path, *args: str) -> str:
    """Runs git with an identity of its own. After a commit, git 2.47 would still be at work when it has ended."""
    settings = ("user.name=test", "user.email=test@example.com", "commit.gpgsign=false", "maintenance.auto=false")
    words = ["git", *(word for setting in settings for word in ("-c", setting)), *args]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def make_repository(folder: Path) -> None:
    """Makes the folder a git repository with everything committed."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=first")


def snapshot(*folders: Path) -> dict[str, tuple[float, int, bytes]]:
    """Every file below the folders: when it was changed, its mode, its content."""
    found = {}
    for folder in folders:
        for path in [folder, *sorted(folder.rglob("*"))]:
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (status.st_mtime, status.st_mode, content)
    return found


def contents(*folders: Path) -> dict[Path, bytes]:
    """Every file below the folders that can be read, and what is in it. Jobs may write and remove meanwhile."""
    found = {}
    for folder in folders:
        for top, _, names in os.walk(folder):  # passes over a folder that has gone, as Path.rglob does not
            for path in (Path(top, name) for name in names):
                with suppress(FileNotFoundError, PermissionError):
                    if path.is_file() and not path.is_symlink():
                        found[path] = path.read_bytes()
    return found

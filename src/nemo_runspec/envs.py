"""The Python environment of a recipe that runs on this machine: made by uv from its PEP 723 block, kept, shared.

A virtual environment cannot be moved after it was made, so it is made in its place under a lock, and a marker is
written last: an environment without the marker was never finished and is made anew.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nemo_runspec.console import Say

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from nemo_runspec import paths
from nemo_runspec.digests import digest_of_text
from nemo_runspec.downloads import announcement, for_python
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.locks import locked_file
from nemo_runspec.plans.model import PythonEnv
from nemo_runspec.spinner import Spinner
from nemo_runspec.uv_process import find_uv, run_uv, uv_environment
from nemo_runspec.uv_table import local_sources, script_of

_COMPLETE = "complete"
_USED = "environments"
_TORCH = "UV_TORCH_BACKEND"
_TOLD_WHERE = frozenset({"UV_FIND_LINKS", "UV_DEFAULT_INDEX", "UV_INDEX_URL", _TORCH})
"""Where one of them is set, the user says where wheels come from or which build of torch is wanted."""
_DECIDING = (*sorted(_TOLD_WHERE), "UV_INDEX", "UV_EXTRA_INDEX_URL")
_WOULD = re.compile(r" \+ (\S+)==(\S+)")
"""A line of uv's about what it would install."""
_VERSION = "import sys; print(*sys.version_info[:3])"
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|~=|>|<)\s*([0-9]+(?:\.[0-9]+)*)(\.\*)?\s*")


def ensure_env(python: PythonEnv, on_progress: Say, whose: str = "the recipe's") -> Path | None:
    """The `bin` folder of an environment with what a recipe depends on; made now unless it exists.

    The first time takes as long as the downloads; afterwards it is a look at one file. Several processes may ask for
    the same environment at once: one makes it, the others wait. uv does not read pip's settings, so `PIP_FIND_LINKS`
    and `PIP_INDEX_URL` are handed on as `UV_FIND_LINKS` and `UV_DEFAULT_INDEX` where those are not set. Where neither
    says where wheels come from, uv chooses the build of torch that fits this machine (on Linux PyPI's own is the CUDA
    build, several GB); where that cannot be had, it is said, and PyPI's is taken.

    Args:
        on_progress: called with one line about what takes time.
        whose: whose environment it is, for these lines.

    Where the script has a `[tool.uv]`, uv does what that says, and chooses no build of torch by itself.

    Returns: None for a recipe without dependencies whose `requires-python` the `python` on PATH meets: that is used.

    Raises:
        UserError: uv could not make it (its own last lines are in the message), or its folder cannot be written.
    """
    if not python.dependencies and _on_path_meets(python.requires_python):
        return None
    interpreter = _interpreter(python.requires_python)
    settings = install_settings(python, os.environ)
    folder = paths.envs_dir() / env_key(python, interpreter, settings)
    try:
        paths.private_dir(folder.parent)
        with _lock(lock_file(folder), on_progress):  # nobody takes it away meanwhile
            if _is_whole(folder):
                os.utime(marker(folder))
            else:
                _make(folder, python, interpreter, settings, _Announcer(on_progress, whose))
    except OSError as error:
        raise UserError(
            f"cannot make the recipe's Python environment: {error.strerror or error}",
            where=str(error.filename or folder),
            remedy="set NEMOTRON_HOME to a folder that can be written and has room",
        ) from None
    return folder / "bin"


def marker(folder: Path) -> Path:
    """The file that says that an environment is whole; it was changed when somebody last asked for it."""
    return folder / _COMPLETE


def lock_file(folder: Path) -> Path:
    """The lock of whoever makes an environment or takes it away."""
    return folder.with_name(f"{folder.name}.lock")


def note_use(job: Path, bins: Iterable[Path | None]) -> None:
    """Writes into a job's folder which environments it needs. `bins`: what `ensure_env` gave."""
    found = [str(each.parent) for each in bins if each is not None]
    if found:
        paths.write_private(job / _USED, "".join(f"{folder}\n" for folder in found))


def used_by(job: Path) -> list[Path]:
    """The environments that the job in this folder needs."""
    try:
        return [Path(line) for line in text_lines((job / _USED).read_text(encoding="utf-8"))]
    except OSError:
        return []


def env_key(python: PythonEnv, interpreter: str, settings: Mapping[str, str]) -> str:
    """The name of an environment's folder: a digest of all that decides what is in it.

    Args:
        settings: what `install_settings` gives. A folder of wheels is among them: it may hold another build of torch.
    """
    facts = [
        sorted(python.dependencies),
        python.requires_python,
        interpreter,
        platform.python_version(),
        sysconfig.get_platform(),
        sorted(settings.items()),
        *([python.uv, local_sources(python.uv)] if python.uv else ()),
    ]
    return digest_of_text(json.dumps(facts))[:20]


def install_settings(python: PythonEnv, environment: Mapping[str, str]) -> dict[str, str]:
    """uv's variables that decide where packages come from and which build of torch is taken."""
    seen = uv_environment(environment)
    settings = {name: seen[name] for name in _DECIDING if seen.get(name)}
    if any(_wants_torch(d) for d in python.dependencies) and not (python.uv or _TOLD_WHERE & set(settings)):
        settings[_TORCH] = "auto"
    return settings


def satisfies(version: tuple[int, ...], requirement: str | None) -> bool | None:
    """True if a Python version meets a `requires-python` text; None for a form this does not read."""
    for clause in (requirement or "").split(","):
        if not clause.strip():
            continue
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            return None
        wanted = tuple(int(part) for part in match[2].split("."))
        if not _meets(version, match[1], wanted, whole=match[3] is None):
            return False
    return True


def _meets(version: tuple[int, ...], operator: str, wanted: tuple[int, ...], *, whole: bool) -> bool:
    length = max(len(version), len(wanted))
    left = version + (0,) * (length - len(version))
    right = wanted + (0,) * (length - len(wanted))
    same = left == right if whole else version[: len(wanted)] == wanted
    return {
        ">=": left >= right,
        "<=": left <= right,
        ">": left > right,
        "<": left < right,
        "==": same,
        "!=": not same,
        "~=": left >= right and version[: len(wanted) - 1] == wanted[:-1],
    }[operator]


def _is_whole(folder: Path) -> bool:
    """Finished, and the interpreter it was made from is still there."""
    return marker(folder).is_file() and (folder / "bin" / "python").exists()


def _on_path_meets(requires_python: str | None) -> bool:
    """True if the `python` on PATH is one that the recipe may have."""
    if not requires_python:
        return True
    found = shutil.which("python")
    if found is None:
        return False
    said = subprocess.run([found, "-I", "-S", "-c", _VERSION], capture_output=True, text=True, check=False).stdout
    version = tuple(int(part) for part in said.split() if part.isdigit())
    return len(version) == 3 and bool(satisfies(version, requires_python))


def _interpreter(requires_python: str | None) -> str:
    """This interpreter if it will do, else a request that uv fulfils."""
    if satisfies(sys.version_info[:3], requires_python):
        return getattr(sys, "_base_executable", None) or sys.executable
    return requires_python or sys.executable


@contextmanager
def _lock(file: Path, on_progress: Say) -> Iterator[None]:
    busy = "waiting for another process that makes the recipe's Python environment"
    with locked_file(file, on_wait=lambda: on_progress(busy)):
        yield


class _Announcer:
    """Announces what an environment's installation does. `say`: takes a line; `whose`: whose environment it is."""

    def __init__(self, say: Say, whose: str) -> None:
        self.say, self.whose = say, whose

    def announce(self, what: str) -> None:
        """Says what will be fetched, before it is."""
        self.say(f"making {self.whose} Python environment, once: {what}")


def _make(
    folder: Path, python: PythonEnv, interpreter: str, settings: Mapping[str, str], announcer: _Announcer
) -> None:
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    uv = find_uv()
    run_uv([uv, "venv", "--quiet", "--python", interpreter, str(folder)])
    if python.uv:
        _sync(uv, folder, python, announcer)
    elif python.dependencies:
        _install(uv, folder, python, settings, announcer)
    else:
        announcer.announce(_in_words(python))
    paths.write_private(marker(folder), json.dumps({"dependencies": sorted(python.dependencies)}) + "\n")
    announcer.say(f"the environment is ready after {time.monotonic() - started:.0f} s")


def _in_words(python: PythonEnv) -> str:
    """What is asked for, and how much that is as its script says."""
    number = len(python.dependencies)
    what = f"{number} dependenc{'y' if number == 1 else 'ies'}" if number else f"Python {python.requires_python}"
    return f"{what}{f' ({python.download} to download)' if python.download else ''}"


def _sync(uv: str, folder: Path, python: PythonEnv, announcer: _Announcer) -> None:
    """Installs as the script's own `[tool.uv]` says: uv reads it out of a script alone, and resolves it for all."""
    script = folder / "recipe.py"
    script.write_text(script_of(python.dependencies, python.requires_python, python.uv), encoding="utf-8")
    environment = {**uv_environment(os.environ), "VIRTUAL_ENV": str(folder)}
    for_script = ["--script", str(script)]
    with Spinner("resolving what to install"):
        found = _locked(uv, folder, for_script, environment)
    announcer.announce(announcement(found))
    with Spinner("installing") as spinner:
        fetching: dict[str, str] = {}
        run_uv([uv, "sync", "--active", *for_script], environment, lambda line: spinner.tell(_how_far(line, fetching)))


def _locked(uv: str, folder: Path, for_script: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """What a script gets in this environment, as `downloads.for_python` tells it."""
    lock = folder / "pylock.toml"
    run_uv([uv, "lock", "--quiet", *for_script], environment)
    run_uv([uv, "export", "--quiet", *for_script, "--format", "pylock.toml", "-o", str(lock)], environment)
    would = run_uv([uv, "sync", "--active", "--dry-run", *for_script], environment)
    pairs = {(match[1], match[2]) for line in would if (match := _WOULD.match(line))}
    return for_python(tomllib.loads(lock.read_text(encoding="utf-8")), pairs, _version_in(folder))


def _version_in(folder: Path) -> str:
    """Of the Python that an environment has, as uv wrote it down."""
    lines = text_lines((folder / "pyvenv.cfg").read_text(encoding="utf-8"))
    return next(
        (line.partition("=")[2].strip() for line in lines if line.startswith("version")), sys.version.split()[0]
    )


def _install(uv: str, folder: Path, python: PythonEnv, settings: Mapping[str, str], announcer: _Announcer) -> None:
    """Installs; where the index of fitting torch builds cannot be reached, once more from the ordinary index alone."""
    environment = uv_environment(os.environ)
    if _TORCH in settings and not environment.get(_TORCH):
        try:
            _fetch(uv, folder, python, {**environment, _TORCH: settings[_TORCH]}, announcer)
            return
        except UserError as error:
            reason = text_lines(error.what)[-1].strip()
            announcer.say(f"the build of torch that fits this machine could not be had; PyPI's is taken ({reason})")
    _fetch(uv, folder, python, environment, announcer)


def _fetch(uv: str, folder: Path, python: PythonEnv, environment: Mapping[str, str], announcer: _Announcer) -> None:
    """Resolves, says what that comes to, and installs it."""
    interpreter = ["--python", str(folder / "bin" / "python")]
    wanted, lock = folder / "requirements.in", folder / "pylock.toml"
    wanted.write_text("".join(f"{each}\n" for each in python.dependencies), encoding="utf-8")
    with Spinner("resolving what to install"):
        run_uv([uv, "pip", "compile", "--quiet", *interpreter, "--output-file", str(lock), str(wanted)], environment)
    found = tomllib.loads(lock.read_text(encoding="utf-8")) if lock.is_file() else {}
    announcer.announce(announcement(found) if found else _in_words(python))
    fetching: dict[str, str] = {}
    with Spinner("installing") as spinner:
        command = [uv, "pip", "install", *interpreter, "--", *python.dependencies]
        run_uv(command, environment, lambda line: spinner.tell(_how_far(line, fetching)))


def _how_far(line: str, fetching: dict[str, str]) -> str:
    """What an installation does, after another line of uv's. `fetching`: package → size, of what is on its way."""
    word, _, rest = line.strip().partition(" ")
    name, _, size = rest.partition(" ")
    if word == "Downloading":
        fetching[name] = size
    elif word == "Downloaded":
        fetching.pop(name, None)
    return "fetching " + ", ".join(f"{name} {size}" for name, size in fetching.items()) if fetching else "installing"


def _wants_torch(dependency: str) -> bool:
    return re.match(r"torch\b(?!-)", dependency.strip(), re.IGNORECASE) is not None

"""uv as a process: the one to use, what it sees of our environment, and its lines as they come."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping

from nemo_runspec.errors import UserError
from nemo_runspec.signals import signals_held

_LAST_LINES = 12
_HOW_IT_GOES = ("Downloading ", "Downloaded ", "Resolved ", "Prepared ", "Using Python ")
"""How lines of uv begin that say nothing of what went wrong."""


def find_uv() -> str:
    """The uv to use: the one on PATH, else that of the installed `uv` package.

    Raises:
        UserError: there is none.
    """
    on_path = shutil.which("uv")
    if on_path:
        return on_path
    try:
        from uv import find_uv_bin

        return os.fspath(find_uv_bin())
    except (ImportError, FileNotFoundError):
        raise UserError("uv, which makes Python environments, is not installed", remedy="pip install uv") from None


def run_uv(
    command: list[str], environment: Mapping[str, str] | None = None, hear: Callable[[str], None] = lambda line: None
) -> list[str]:
    """Runs uv; it ends with this call, whatever ends the call. Its lines; `hear` takes each as it comes."""
    process = None
    try:
        with signals_held():  # one that comes while it is started must find it
            process = subprocess.Popen(
                command,
                env=uv_environment(os.environ) if environment is None else environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        output = []
        for line in process.stdout or ():
            output.append(line.rstrip())
            hear(line)
        process.wait()
    except BaseException:
        if process is not None:
            process.kill()
            process.wait()
        raise
    if process.returncode == 0:
        return output
    told = [line for line in output if line and not line.lstrip().startswith(_HOW_IT_GOES)]
    last = "\n".join(f"    {line}" for line in told[-_LAST_LINES:])
    raise UserError(
        f"uv could not make the recipe's Python environment (exit code {process.returncode}):\n{last}",
        remedy="check the network or set PIP_FIND_LINKS / UV_FIND_LINKS to a folder of wheels, then run it again",
    )


def uv_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What uv sees: no activated environment of ours, and pip's settings under uv's names."""
    dropped = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "CONDA_PREFIX")
    result = {name: value for name, value in environment.items() if name not in dropped}
    find_links = environment.get("PIP_FIND_LINKS")
    if find_links and "UV_FIND_LINKS" not in result:
        result["UV_FIND_LINKS"] = ",".join(find_links.split())
    index = environment.get("PIP_INDEX_URL")
    if index and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & set(result):
        result["UV_DEFAULT_INDEX"] = index
    return result

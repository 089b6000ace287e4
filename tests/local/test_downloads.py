"""What is said before an environment is fetched, and the line that shows that it is."""

from __future__ import annotations

import os
import platform
import pty
import sys
from pathlib import Path

import pytest
from local.test_envs import make_wheel
from support import Project

from nemo_runspec.downloads import announcement, for_python

PYPI = "https://files.pythonhosted.org/packages/"


def wheel(name: str, version: str, size: int) -> dict:
    return {"name": name, "version": version, "wheels": [{"url": f"{PYPI}{name}.whl", "size": size}]}


LIBRARIES = [wheel("nvidia-cudnn-cu13", "9.1", 400_000_000), wheel("cuda-bindings", "13.5", 8_000_000)]


@pytest.mark.parametrize(
    ("packages", "said"),
    [
        ([wheel("numpy", "2.4.6", 16_000_000)], "1 package, at most 16.0 MB to download"),
        (
            [wheel("torch", "2.13.0", 500_000_000), *LIBRARIES],
            "3 packages, at most 908.0 MB to download; torch 2.13.0, the CUDA build",
        ),
        (
            [wheel("torch", "2.13.0+cu130", 500_000_000)],
            "1 package, at most 500.0 MB to download; torch 2.13.0+cu130, the CUDA build",
        ),
        (
            [wheel("torch", "2.13.0+cpu", 190_000_000)],
            "1 package, at most 190.0 MB to download; torch 2.13.0+cpu, the CPU build",
        ),
        ([wheel("torch", "2.13.0", 90)], "1 package, at most 90 B to download; torch 2.13.0, the CPU build"),
        (
            [wheel("torch", "2.13.0+rocm6", 90)],
            "1 package, at most 90 B to download; torch 2.13.0+rocm6, the ROCM6 build",
        ),
    ],
)
def test_what_will_be_fetched_is_said_as_what_it_is(packages: list[dict], said: str) -> None:
    assert announcement({"packages": packages}) == said


def test_a_folder_of_wheels_is_no_download(tmp_path: Path) -> None:
    file = tmp_path / "torch-2.13.0+cpu.whl"
    file.write_bytes(b"x" * 2000)
    local = {"name": "torch", "version": "2.13.0+cpu", "wheels": [{"url": file.as_uri()}]}
    said = announcement({"packages": [local, wheel("numpy", "2.4.6", 1000)]})
    assert said == ("2 packages, at most 1.0 kB to download, 2.0 kB from files here; torch 2.13.0+cpu, the CPU build")


def seen(project: Project, *args: str, **environment: str) -> str:
    """What a terminal of 80 columns gets from a command."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(project.folder)
        variables = project.environment(TERM="xterm", COLUMNS="80", LINES="24", **environment)
        os.execve(sys.executable, [sys.executable, "-m", "nemotron", *args], variables)
    text = b""
    while True:
        try:
            text += os.read(terminal, 65536)
        except OSError:  # its other end is closed
            break
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, text
    return text.decode()


@pytest.mark.slow
def test_on_a_terminal_a_line_lives_until_there_is_something_else(project: Project) -> None:
    make_wheel(project.folder / "wheels")
    header = '# /// script\n# dependencies = ["nemotron_test_wheel"]\n# ///\n'
    project.write("train.py", header + "import time\nprint('begun', flush=True)\ntime.sleep(3)\nprint('done')\n")
    said = seen(project, "run", "./train.py", UV_FIND_LINKS="wheels", UV_NO_INDEX="1")
    assert "\r\x1b[K⠙ resolving what to install  0 s" in said
    assert "\r\x1b[Kmaking the recipe's Python environment, once: 1 package" in said
    assert "running  2 s\r\x1b[K" in said
    assert said.replace("\r\x1b[K", "\n").count("\ndone\r\n") == 1
    assert all(len(line) <= 80 for line in said.replace("\x1b[K", "").split("\r") if "⠙" in line)


@pytest.mark.slow
def test_where_the_output_goes_elsewhere_there_are_plain_lines(project: Project, nemotron_process) -> None:
    project.write("train.py", "import time\ntime.sleep(2)\n")
    done = nemotron_process("run", "./train.py").succeeds()
    assert "\r" not in done.out + done.err


def test_of_a_lock_for_all_machines_what_this_one_gets() -> None:
    """Packages of other systems, wheels of other interpreters and other versions of a package are none of it."""
    system = f"manylinux_2_28_{platform.machine()}" if sys.platform == "linux" else f"macosx_11_0_{platform.machine()}"
    sizes = {
        f"cp311-cp311-{system}": 300_000,
        f"cp39-abi3-{system}": 200_000,
        "py3-none-any": 100_000,
        f"cp312-cp312-{system}": 900_000,
        "cp311-cp311-win_amd64": 800_000,
    }
    wheels = [{"url": f"{PYPI}a-1.0-{tags}.whl", "size": size} for tags, size in sizes.items()]
    lock = {
        "packages": [
            {"name": "a", "version": "1.0", "wheels": wheels},
            {"name": "a", "version": "0.9", "wheels": wheels},
            {"name": "pywin32", "version": "3", "wheels": [{"url": f"{PYPI}pywin32-3-py3-none-any.whl", "size": 7}]},
            {"name": "b", "version": "2", "sdist": {"url": f"{PYPI}b-2.tar.gz", "size": 50_000}},
        ]
    }
    wanted = {("a", "1.0"), ("b", "2")}
    assert announcement(for_python(lock, wanted, "3.11.7")) == "2 packages, at most 350.0 kB to download"
    assert announcement(for_python(lock, wanted, "3.10.1")) == "2 packages, at most 250.0 kB to download"

"""docs/adding-a-backend.md, done as it says: its files are written, the package installed, its commands run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import REPOSITORY, Project

from nemo_runspec.uv_process import find_uv, uv_environment

PAGE = REPOSITORY / "docs" / "adding-a-backend.md"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END = "end of the file"
DONE = "\x1e"
"""What the shell prints after each command."""


def test_its_code_is_that_of_the_plugin():
    done = subprocess.run([sys.executable, REPOSITORY / "docs/make_adding_a_backend.py", "--check"], check=False)
    assert done.returncode == 0, "run: python docs/make_adding_a_backend.py"


@pytest.mark.slow
def test_a_stranger_who_does_what_it_says_has_a_backend(tmp_path: Path):
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    done = subprocess.run(
        ["bash", "-e"], input="".join(_as_shell(blocks)), cwd=tmp_path, env=_environment(tmp_path / "home"),
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = done.stdout.split(DONE)
    shown = [shown for language, _, body in blocks if language == "console" for shown in _commands(body)]
    assert len(outputs) == len(shown) + 1 > 10
    for (command, lines), output in zip(shown, outputs, strict=False):
        assert [line for line in lines if line not in output] == [], f"$ {command}\n{output}"


def _as_shell(blocks: list[tuple[str, str, str]]) -> Iterator[str]:
    """The page as a script: files are written piece by piece, as they are shown."""
    for language, name, body in blocks:
        if name:
            file = shlex.quote(name)
            yield f"mkdir -p \"$(dirname {file})\"; cat >>{file} <<'{END}'\n{body}\n\n{END}\n"
        elif language == "console":
            yield from (f"{command}\nprintf '{DONE}'\n" for command, _ in _commands(body))


def _commands(body: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that stand below it."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def _environment(home: Path) -> dict[str, str]:
    home.mkdir()
    tools = [str(Path(sys.executable).parent), str(Path(find_uv()).parent), os.environ["PATH"]]
    return uv_environment(Project(home, home).environment(PATH=os.pathsep.join(tools)))

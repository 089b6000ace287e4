"""Takes the README's picture: runs its dry run on a terminal in an example project and draws the beginning of the page.

python docs/make_picture.py

tests/docs holds the picture against what that terminal shows.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "dry-run.svg"
WORDS = (
    *("nano3", "pretrain", "-c", "tiny", "--run", "my-cluster"),
    *("train.train_iters=50", "run.env.nodes=2", "--dry-run"),
)
WIDTH, HEIGHT = 118, 56


def main() -> None:
    """Writes docs/dry-run.svg."""
    TARGET.write_text(drawn(screen()), encoding="utf-8")


def screen() -> list[str]:
    """The first lines that a terminal shows, with colours."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project"
        project.mkdir()
        (project / "pyproject.toml").write_text("")
        example = (ROOT / "env.toml.example").read_text(encoding="utf-8")
        (project / "env.toml").write_text(re.sub(r"YOUR-[A-Z-]+", "my-team", example), encoding="utf-8")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NEMOTRON_", "WANDB_", "HF_"))}
        own = {"HOME": scratch, "FORCE_COLOR": "1", "NEMOTRON_HOME": f"{scratch}/home", "NEMOTRON_PAGER": ""}
        shown = on_terminal(project, {**kept, **own, "TERM": "xterm-256color"})
    return [f"\x1b[1m$ nemotron {' '.join(WORDS)}\x1b[0m", *shown.splitlines()[: HEIGHT - 1]]


def on_terminal(folder: Path, environment: dict[str, str]) -> str:
    """What the command shows on a terminal of `WIDTH` columns."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    command = [sys.executable, "-m", "nemotron", *WORDS]
    environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=there) as child:
        os.close(there)
        seen = b""
        with suppress(OSError):  # EIO: it has ended
            while block := os.read(here, 1 << 16):
                seen += block
    os.close(here)
    if child.returncode:
        raise SystemExit(f"the dry run failed with {child.returncode}")
    return seen.decode().replace("\r\n", "\n")


def drawn(lines: list[str]) -> str:
    """The picture of a terminal with these lines."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip(" ")))
        console.print(Text(indent) + Text.from_ansi(line.lstrip(" ")), no_wrap=True, crop=True, overflow="ellipsis")
    return console.export_svg(title="nemotron", unique_id="nemotron-dry-run")


if __name__ == "__main__":
    main()

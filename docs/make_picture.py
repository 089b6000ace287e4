"""Takes the README's picture: runs its dry run in an example project and draws the beginning of what a terminal shows.

python docs/make_picture.py
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "dry-run.svg"
WORDS = (
    *("nano3", "pretrain", "-c", "tiny", "--run", "my-cluster"),
    *("train.train_iters=50", "run.env.nodes=2", "--dry-run"),
)
WIDTH, HEIGHT = 118, 46


def main() -> None:
    """Writes docs/dry-run.svg."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project"
        (project / "recipes").mkdir(parents=True)
        (project / "recipes" / "nano3").symlink_to(ROOT / "recipes" / "nano3")
        (project / "pyproject.toml").write_text("")
        example = (ROOT / "env.toml.example").read_text(encoding="utf-8")
        (project / "env.toml").write_text(re.sub(r"YOUR-[A-Z-]+", "my-team", example), encoding="utf-8")
        environment = {**os.environ, "HOME": scratch, "FORCE_COLOR": "1", "NEMOTRON_HOME": f"{scratch}/home"}
        command = [sys.executable, "-m", "nemotron", *WORDS]
        shown = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True).stdout
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ nemotron {' '.join(WORDS)}", style="bold"))
    for row in shown.splitlines()[:HEIGHT]:
        indent = " " * (len(row) - len(row.lstrip(" ")))
        console.print(Text(indent) + Text.from_ansi(row.lstrip(" ")), no_wrap=True, crop=True, overflow="ellipsis")
    TARGET.write_text(console.export_svg(title="nemotron"), encoding="utf-8")


if __name__ == "__main__":
    main()

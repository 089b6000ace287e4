"""Tells how training goes: JSON lines that the CLI follows, and lines or a bar on standard output."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

BAR_WIDTH = 24
Record = Mapping[str, float | int]


class MetricsLog:
    """Appends records to `metrics.jsonl` in the output folder and, where it is another file, to the one that the
    environment names in NEMOTRON_METRICS_FILE.
    """

    def __init__(self, output_dir: Path) -> None:
        self.path = output_dir / "metrics.jsonl"
        followed = os.environ.get("NEMOTRON_METRICS_FILE")
        self._paths = list({path.resolve(): None for path in (self.path, *([Path(followed)] if followed else []))})

    def write(self, record: Record) -> None:
        """Append one record, whole, with the time in seconds since 1970."""
        line = json.dumps({**record, "time": round(time.time(), 3)}) + "\n"
        for path in self._paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as stream:
                stream.write(line)


class Progress:
    """A bar that is redrawn in place on a terminal; elsewhere one line per record."""

    def __init__(self, total_steps: int, stream: TextIO = sys.stdout) -> None:
        self.total_steps = total_steps
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._is_drawn = False

    def show(self, step: int, loss: float, tokens_per_second: float) -> None:
        """Show a training step."""
        text = f"step {step}/{self.total_steps}  loss {loss:.4f}  {tokens_per_second:,.0f} tokens/s"
        if not self._is_terminal:
            self.say(text)
            return
        filled = BAR_WIDTH * step // max(self.total_steps, 1)
        self._stream.write(f"\r\x1b[K[{'█' * filled}{'·' * (BAR_WIDTH - filled)}] {text}")
        self._stream.flush()
        self._is_drawn = True

    def say(self, text: str) -> None:
        """Print a line of its own, below the bar where one is drawn."""
        start = "\n" if self._is_drawn else ""
        self._is_drawn = False
        self._stream.write(f"{start}{text}\n")
        self._stream.flush()

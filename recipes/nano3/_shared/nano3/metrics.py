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
PROGRESS_SECONDS = 5.0
Record = Mapping[str, float | int]


class MetricsLog:
    """Appends records to `metrics.jsonl` in the output folder, where there is one, and to the file that the environment
    names in NEMOTRON_METRICS_FILE, where that is another.
    """

    def __init__(self, output_dir: Path | None) -> None:
        followed = os.environ.get("NEMOTRON_METRICS_FILE")
        self.path = output_dir / "metrics.jsonl" if output_dir else None
        named = (self.path, Path(followed) if followed else None)
        self._paths = list({path.resolve(): None for path in named if path})

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

    def show(self, step: int, loss: float, tokens_per_second: float, mfu: float | None = None) -> None:
        """Show a training step."""
        text = f"step {step}/{self.total_steps}  loss {loss:.4f}  {tokens_per_second:,.0f} tokens/s"
        text += f"  {mfu:.1%} MFU" if mfu is not None else ""
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


class ShardProgress:
    """Tells how far the shards of a data preparation are: lines on standard output, a few seconds apart, and records
    in the file that the environment names in NEMOTRON_METRICS_FILE.
    """

    def __init__(self, shards: int, total_bytes: int) -> None:
        self._shards, self._bytes = shards, max(1, total_bytes)
        self._done = self._read = self._rows = self._tokens = 0
        self._earlier_read = self._earlier_tokens = self._earlier_rows = 0
        self._log = MetricsLog(None)
        self._begun = self._told = time.monotonic()

    def show(self, size: int, tokens: int, rows: int, *, earlier: bool) -> None:
        """Count a shard that is made. `earlier`: by a run before this one."""
        self._done += 1
        self._read, self._rows, self._tokens = self._read + size, self._rows + rows, self._tokens + tokens
        if earlier:
            self._earlier_read, self._earlier_tokens, self._earlier_rows = self._read, self._tokens, self._rows
        now = time.monotonic()
        if self._done < self._shards and (earlier or now - self._told < PROGRESS_SECONDS):
            return
        self._told = now
        seconds = max(now - self._begun, 1e-3)
        unit, count, before = "tokens", self._tokens, self._earlier_tokens
        if not count:  # what makes none is told by rows
            unit, count, before = "rows", self._rows, self._earlier_rows
        rate = (count - before) / seconds
        left = (self._bytes - self._read) * seconds / max(1, self._read - self._earlier_read)
        print(
            f"shard {self._done}/{self._shards}  {self._read / 1e6:,.1f} of {self._bytes / 1e6:,.1f} MB"
            f"  {count:,} {unit}  {rate:,.0f} {unit}/s  {left:.0f} s left",
            flush=True,
        )
        known = {"step": self._done, "rows": self._rows, "tokens": self._tokens}
        self._log.write({**known, f"{unit}_per_second": round(rate), "seconds_left": round(left)})

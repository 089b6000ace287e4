"""What a suite injected and what it found: noted per suite and backend, for the table in docs/reliability.md.

`RELIABILITY=full` makes the suites large; `RELIABILITY_SEED` repeats a run. Each test leaves a file in
`.pytest_cache/reliability/`, of which `docs/make_reliability.py` makes the table.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

FULL = os.environ.get("RELIABILITY") == "full"
SEED = int(os.environ.get("RELIABILITY_SEED", "13"))
PARTS = Path(__file__).resolve().parents[2] / ".pytest_cache" / "reliability"


def size(small: int, full: int) -> int:
    """How many of them: CI's number, or the full one."""
    return full if FULL else small


class Tally:
    """One test's share of a suite.

    Attributes:
        dice: random numbers that are the same in every run with the same seed.
        injected: how many inputs, faults or kills so far. `found`: what went wrong, in words.
    """

    def __init__(self, suite: str, backend: str, kind: str, node: str) -> None:
        self.suite, self.backend, self.kind, self._node = suite, backend, kind, node
        self.injected = 0
        self.found: list[str] = []
        self.dice = random.Random(f"{SEED} {suite} {backend} {kind} {node.rpartition('::')[2]}")
        self._began = time.time()
        print(f"RELIABILITY_SEED={SEED} {node}")

    def expect(self, good: object, case: object) -> None:
        """Notes what is wrong, and goes on: one run shows all that there is. `close` fails the test."""
        if not good:
            self.found.append(repr(case)[:2000])

    def close(self) -> None:
        """Writes the share down.

        Raises:
            AssertionError: something was found.
        """
        PARTS.mkdir(parents=True, exist_ok=True)
        part = {
            "suite": self.suite,
            "backend": self.backend,
            "kind": self.kind,
            "size": "full" if FULL else "small",
            "injected": self.injected,
            "found": len(self.found),
            "seed": SEED,
            "seconds": round(time.time() - self._began, 1),
            "date": datetime.now(timezone.utc).date().isoformat(),
            "commit": commit(),
        }
        name = hashlib.sha256(f"{FULL} {self._node}".encode()).hexdigest()[:16]
        (PARTS / f"{name}.json").write_text(json.dumps(part) + "\n", encoding="utf-8")
        assert self.injected, "nothing was injected, so nothing was tested"
        assert not self.found, f"{len(self.found)} of {self.injected} (RELIABILITY_SEED={SEED}):\n" + "\n".join(
            self.found[:5]
        )


def commit() -> str:
    """The commit that is tested, with `+` where files are changed."""
    words = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(words, cwd=PARTS.parents[1], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"

"""What the tests of `jobs ray` share: a report that Ray has filled in, put beside a job, and its dashboard led here."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waiting import line_of

REPORTS = Path(__file__).parent / "data" / "ray"


def as_ray_job(folder: Path) -> None:
    """Makes a job one of Ray's for those who ask. `folder`: its own here."""
    plan = folder / "plan.json"
    planned = json.loads(plan.read_text())
    plan.write_text(json.dumps({**planned, "launch": {**planned["launch"], "kind": "ray"}}))


def put_report(there: Path, port: int, **news: Any) -> None:
    """Writes `ray.json`, and the token that it names, into a job's directory."""
    (there / "token").write_text("0123abcd")
    report = json.loads((REPORTS / "running.json").read_text())
    dashboard = {"port": port, "token": str(there / "token")}
    (there / "ray.json").write_text(json.dumps({**report, "at": time.time(), "dashboard": dashboard, **news}))


@contextmanager
def led_here(leading: subprocess.Popen[str]) -> Iterator[tuple[int, Path]]:
    """What `jobs ray JOB --dashboard --json` says: the port here, and the file with the token."""
    told = ""
    try:
        while not told.endswith("}\n"):
            line = line_of(leading.stdout)
            assert line, leading.communicate(timeout=60)
            told += line
        found = json.loads(told)
        yield int(found["url"].rpartition(":")[2]), Path(found["token_file"])
    finally:
        leading.terminate()
        leading.communicate(timeout=60)

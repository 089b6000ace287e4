"""Logs fetched half by an earlier release, whose cursors were integers: how far it came, and what there is to fetch."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nemo_runspec.backends.provider import Provider
from nemo_runspec.remote.log_mirror import Mirror

FOLDER = Path(__file__).parent / "data" / "earlier_cursors"

T0 = 1_700_000_000_000_000_000
"""Nanoseconds since 1970 of the first line."""

Lines = list[tuple[int, bytes]]


def end_line(node: int, lines: int) -> bytes:
    """A pod's last line, which counts those before it."""
    return (
        b"nemotron-end: node=%d attempt=0 exit_code=0 signal= rank= oom=0 phase=command lines=%d node_name=n reason="
        % (node, lines)
    )


def lines_of(node: int, count: int, *, life: int = 0, ends: bool = True) -> Lines:
    """A pod's log: some lines share a nanosecond."""
    start = T0 + life * 60_000_000_000 + node
    lines = [(start + (n - n % 3) * 400_000_000, b"node %d life %d line %d" % (node, life, n)) for n in range(count)]
    return [*lines, (lines[-1][0] + 1, end_line(node, count))] if ends else lines


def process(lines: Lines, *, over: bool) -> Any:
    """A container as the labs' servers describe it, with this log."""
    return SimpleNamespace(
        log=lines, state="exited" if over else "running", exit_code=0 if over else None, oom_killed=False,
        started=T0 / 1e9, ended=T0 / 1e9 + 600 if over else None, text=repr(lines),
    )  # fmt: skip


def fetched(provider: Provider, handle: dict[str, Any], folder: Path) -> bytes:
    """The whole log on this machine, once nothing more is there."""
    mirror, more = Mirror(provider, handle, folder), True
    while more:
        moved, more = mirror.fetch()
        more = more or bool(moved)
    return mirror.log.read_bytes()


def keep(name: str, folder: Path) -> None:
    """Writes down how far this release has come, for later ones."""
    log = Mirror(None, {}, folder).log  # type: ignore[arg-type]
    stored = {"log": log.read_text(), "fetched": json.loads(log.with_name("fetched.json").read_text())}
    (FOLDER / f"{name}.json").write_text(json.dumps(stored, indent=1) + "\n")


def put_back(name: str, folder: Path) -> None:
    """A job's folder as the earlier release has left it."""
    stored = json.loads((FOLDER / f"{name}.json").read_text())
    log = Mirror(None, {}, folder).log  # type: ignore[arg-type]
    log.parent.mkdir(parents=True)
    log.write_text(stored["log"])
    log.with_name("fetched.json").write_text(json.dumps(stored["fetched"]))


def check(text: bytes, logs: dict[str, Lines]) -> None:
    """Every line of every pod stands there once, in its order, and nothing is said to be lost."""
    told = [line for line in text.splitlines() if not line.startswith(b"nemotron-end:")]
    expected = {name: [line for _, line in lines if not line.startswith(b"nemotron-")] for name, lines in logs.items()}
    assert sorted(told) == sorted(line for lines in expected.values() for line in lines)
    for lines in expected.values():
        assert [line for line in told if line in set(lines)] == lines


def cursors(folder: Path) -> dict[str, Any]:
    """What stands in a folder's `fetched.json`."""
    found: dict[str, Any] = json.loads(Mirror(None, {}, folder).log.with_name("fetched.json").read_text())["offsets"]  # type: ignore[arg-type]
    return found

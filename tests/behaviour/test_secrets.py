"""Secrets: they reach the job, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from urllib.parse import quote

from behaviour.rigs import CANARY, content

HOLD = """
    import base64, hashlib, json, time, urllib.parse
    value = os.environ["SECRET_CANARY"]
    print("digest", hashlib.sha256(value.encode()).hexdigest(), flush=True)
    print("said aloud:", value, "and in pieces:", " ".join(value), flush=True)
    print("encoded:", base64.b64encode(f"me:{value}".encode()).decode(), value.encode().hex(), flush=True)
    print("escaped:", json.dumps(value), repr(value.encode()), urllib.parse.quote(value, safe=""), flush=True)
    if len(sys.argv) > 1:
        time.sleep(600)
"""
FORMS = (
    CANARY, json.dumps(CANARY)[1:-1], quote(CANARY, safe=""), CANARY.encode().hex(),
    base64.b64encode(f"me:{CANARY}".encode()).decode()[4:-4],
)  # fmt: skip
"""How its value may be written in an output."""
DIGEST = hashlib.sha256(CANARY.encode()).hexdigest()


def test_secret_reaches_the_job(bench):
    """A secret's value reaches the job, and its output shows it as hidden."""
    bench.profile(secrets=["SECRET_CANARY"])
    ended = bench.attached(HOLD, SECRET_CANARY=CANARY)
    assert (ended.code, f"digest {DIGEST}" in ended.lines) == (0, True), ended.err
    assert not [form for form in FORMS if form in ended.out + ended.err]
    shown = "\n".join(ended.lines)
    assert "said aloud: ****** and" in shown
    assert shown.count("******") >= 6


def test_secret_is_nowhere_else(bench):
    """No byte of a secret in any file, in the output, in any command line, or in what the platform tells of the job."""
    bench.profile(secrets=["SECRET_CANARY"])
    script = bench.script(HOLD)
    folders = [bench.project.state, bench.project.folder, *bench.setting.folders]
    bench.nemotron("run", script, "--batch", "target", "--", "hold", SECRET_CANARY=CANARY).succeeds()
    name = bench.newest()
    try:
        assert f"digest {DIGEST}" in bench.log_has(name, "said aloud")
        safes = bench.setting.safes(bench.folder(name))
        assert [path.stat().st_mode & 0o777 for path in safes] == [0o600] * len(safes)
        assert places_of(CANARY, *folders) == [str(path) for path in safes]
        assert CANARY not in bench.setting.view(name)
        shown = [("show", name), ("show", name, "--json"), ("list", "--json"), ("logs", name)]
        assert not [args for args in shown if CANARY in (out := bench.nemotron("jobs", *args)).out + out.err]
    finally:
        bench.nemotron("jobs", "cancel", name, "--grace", "1")
    assert bench.leftovers(name) == []
    assert places_of(CANARY, *folders) == []


def places_of(text: str, *folders: Path) -> list[str]:
    """Files below the folders, and command lines of this machine, that hold the text."""
    wanted = text.encode()
    below = [Path(top, name) for folder in folders for top, _, names in os.walk(folder) for name in names]
    files = [path for path in below if path.is_file() and not path.is_symlink()]
    assert len(files) > 3
    found = [str(path) for path in files if wanted in content(path) or text in path.name]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "cmdline").read_bytes():
                found.append(f"{process}: {(process / 'cmdline').read_bytes()!r}")
        except OSError:
            continue
    return found

"""A secret that a job prints in every form in which one leaks: no form of it in anything shown or written."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Mapping
from urllib.parse import quote, quote_plus

import pytest
from behaviour.bench import Bench
from support import contents

from reliability.conftest import on
from reliability.tally import Tally, size

FORMS: Mapping[str, Callable[[str], str]] = {
    "raw": str,
    "url": lambda s: quote(s, safe=""),
    "form": quote_plus,
    "json": lambda s: json.dumps(s)[1:-1],
    "repr": lambda s: repr(s)[1:-1],
    "bytes": lambda s: repr(s.encode())[2:-1],
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    **{f"base64-{n}": (lambda s, n=n: _inner_base64(s, n)) for n in range(3)},
}
"""What is looked for: in base64 the part that does not depend on what stands around it."""

SCRIPT = """\
import base64, json, os, sys
from urllib.parse import quote, quote_plus
for name in ("SECRET_CANARY",):
    s = os.environ[name]
    b = s.encode()
    print("forms", s, quote(s, safe=""), quote_plus(s), json.dumps({"a": s}))
    print(repr(s), repr(b), b.hex(), b.hex().upper())
    for pad in range(3):
        print(base64.b64encode(b"x" * pad + b).decode(), base64.urlsafe_b64encode(b"x" * pad + b).decode())
    print("to stderr", s, file=sys.stderr)
    print("https://user:" + quote(s, safe="") + "@host/path?token=" + quote_plus(s))
print("done", flush=True)
"""


def _inner_base64(secret: str, pad: int) -> str:
    whole = base64.b64encode(b"x" * pad + secret.encode()).decode().rstrip("=")
    start = {0: 0, 1: 2, 2: 3}[pad]
    return whole[start : len(whole) - 2]


def new_secret(dice: random.Random) -> str:
    """As platforms make them, and as people do."""
    alphabets = (
        string.ascii_letters + string.digits,
        string.hexdigits.lower(),
        string.ascii_letters + "+/=_-.~!%\"'\\ &é",
    )
    return "".join(dice.choices(dice.choice(alphabets), k=dice.randint(16, 48))).strip() or "fallback-secret-42"


@pytest.mark.slow
@on("local", "docker", "slurm", "lepton")
def test_canaries(bench, tally):
    noted = tally("canaries", bench.rig.name, "secrets")
    for _ in range(size(3, 60 if bench.rig.lab else 400)):
        secret = new_secret(noted.dice)
        bench.profile(secrets=["SECRET_CANARY"])
        done = bench.attached(SCRIPT, SECRET_CANARY=secret)
        noted.injected += len(FORMS)
        noted.expect(done.code == 0 and "done" in done.out, (secret, done))
        shown = {"its output": done.out, "its errors": done.err, **_other_surfaces(bench)}
        look(noted, secret, shown)


def look(noted: Tally, secret: str, shown: Mapping[str, str]) -> None:
    for form, made in FORMS.items():
        where = [name for name, text in shown.items() if made(secret) in text]
        noted.expect(not where, (form, secret, where))


def _other_surfaces(bench: Bench) -> dict[str, str]:
    name = bench.newest()
    found = {f"jobs {verb}": bench.nemotron("jobs", verb, name).out for verb in ("show", "logs", "diagnose")}
    files = contents(bench.project.state, *(folder / "jobs" / name for folder in bench.setting.folders))
    return found | {str(path): content.decode("utf-8", "replace") for path, content in files.items()}

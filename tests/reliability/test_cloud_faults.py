"""A cloud that fails any request in any way: the verdict is right, and there is exactly one job."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from behaviour.bench import Bench, Ended
from labs.web import Answer, WebLab

from reliability.conftest import on
from reliability.tally import Tally, size

KINDS = (
    "500", "502", "503", "504", "429", "404", "408", "500_after", "502_after", "reset", "reset_after", "cut", "garbage",
    "slow", "timeout_after", "odd",
)  # fmt: skip
SCRIPT = """\
import os, pathlib, sys, uuid
(pathlib.Path(os.environ["NEMOTRON_JOB_DIR"]) / f"ran-{uuid.uuid4().hex}").touch()
print("the only line", flush=True)
sys.exit(int(sys.argv[1]))
"""
JUNK: list[Any] = [None, [], {}, "", "x", -1, 10**30, True, [None], {"a": []}, "\x1b[2J", "2025-13-45T99:99:99Z"]


@contextmanager
def odd_answers(lab: WebLab, dice: random.Random, share: float) -> Iterator[list[str]]:
    """Meanwhile a share of the answers to GET have one value replaced by junk; which ones."""
    perform, changed = lab.perform, []

    def odd(request: Any, call: Any) -> Answer:
        answer = perform(request, call)
        if request.method != "GET" or dice.random() >= share or not isinstance(answer.body, (dict, list)):
            return answer
        changed.append(f"{request.method} {request.path}")
        return Answer(answer.status, junked(answer.body, dice), answer.headers)

    lab.perform = odd  # type: ignore[method-assign]
    try:
        yield changed
    finally:
        lab.perform = perform  # type: ignore[method-assign]


def junked(body: Any, dice: random.Random) -> Any:
    """A copy of an answer with one value at any depth replaced."""
    made = json.loads(json.dumps(body))
    if not made or dice.random() < 0.2:
        return dice.choice(JUNK)
    spot = made
    while True:
        key = dice.choice(list(spot) if isinstance(spot, dict) else range(len(spot)))
        if not spot[key] or not isinstance(spot[key], (dict, list)) or dice.random() < 0.3:
            spot[key] = dice.choice(JUNK)
            return made
        spot = spot[key]


@pytest.fixture
def lab(rig, request) -> WebLab:
    found: WebLab = request.getfixturevalue({"lepton": "lepton_lab", "dgxcloud": "runai_lab"}[rig.name])
    return found


@on("lepton", "dgxcloud")
def test_faults_of_the_platform(bench, lab, tally):
    noted = tally("faults of the platform", bench.rig.name, "requests")
    script = bench.script(SCRIPT)
    for _ in range(size(4, 300)):
        code, share, faults = noted.dice.choice([0, 7]), 0.0, []
        for _ in range(noted.dice.randint(1, 4)):
            kind, after, times = noted.dice.choice(KINDS), noted.dice.randint(0, 25), noted.dice.choice([1, 1, 2, 5])
            match = noted.dice.choice(["*", "GET *", "GET *", "POST *"])
            faults.append((match, kind, times, after))
            if kind == "odd":
                share = 0.1
            else:
                lab.fault(match, kind, times=times, after=after, seconds=0.5)
        jobs = len(lab.jobs)  # type: ignore[attr-defined]
        with odd_answers(lab, noted.dice, share) as changed:
            done = bench.run_script(script, str(code))
        noted.injected += len(faults) + len(changed)
        check(noted, bench, lab, done, jobs, code, (faults, changed[:20]))


def check(noted: Tally, bench: Bench, lab: WebLab, done: Ended, before: int, code: int, case: object) -> None:
    with lab.quiet():
        pass  # faults that no request has met are over
    noted.expect("Traceback" not in done.err, (case, done))
    jobs = lab.jobs[before:]  # type: ignore[attr-defined]
    noted.expect(len(jobs) <= 1, (case, "more than one job", jobs, done))
    if not jobs:
        noted.expect(done.code not in (0, 7), (case, "no job, and a verdict", done))
        return
    name = bench.newest()
    verdict = bench.wait(name)
    noted.expect(verdict == code, (case, "the verdict afterwards", verdict, code, bench.show(name), done))
    noted.expect(done.code == code or done.code not in (0, 7), (case, "the verdict", done, code))
    runs = list(bench.setting.job_dir(bench.folder(name)).glob("ran-*"))
    noted.expect(len(runs) == 1, (case, "runs", runs))

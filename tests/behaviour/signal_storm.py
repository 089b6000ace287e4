"""Signals at random moments of jobs on one rig, sent from outside: by nemotron, by the platform, or with its means.

One moment is one job, really run; its seed says what is sent, and when between the submission's return and somewhat
after the command's end. Half of the commands go on until they have heard all; the others end meanwhile.

What no program can hear is named, and counted as `excused`: what Slurm tells a batch script before its `setup_lines`
(it loses it, or USR1 ends it), and what comes to a container in which no process catches or blocks it yet, which is
looked at as it is sent: the kernel drops it, or it ends what was about to begin. Such a job must still tell the
truth of its end, and leave nothing.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from signal_moments import SIGNALS, Moment
from waiting import open_gate, until

from behaviour.bench import Bench, finish
from behaviour.rigs import CANARY

CANCEL, END = "cancel", "end"
"""nemotron's own way, and the platform's: the command sees a TERM of both."""

MOMENTS = int(os.environ.get("NEMOTRON_STORM", "8" if os.environ.get("REQUIRE_LAB") == "full" else "5"))
"""How many each rig has; read now, as the tests' own environment has no variable of the user's."""
FIRST = int(os.environ.get("NEMOTRON_STORM_FIRST", "1"))
"""The first seed."""
AT_ONCE = int(os.environ.get("NEMOTRON_STORM_AT_ONCE", "4"))
"""How many jobs run side by side."""

_GRACE = "60"
_HEARD_S = 20.0
"""Seconds that a command which has begun has to hear what was sent: it takes less than one where nobody else works."""
_BETWEEN_S = 4.0
"""Seconds between two questions whether it is over: one of a cloud's pods may have left no record."""
_BESIDE_S = 2.0
"""Seconds between what happens there and what is seen of it here."""

COUNTING = """
    import os, signal, time
    folder = os.environ["NEMOTRON_JOB_DIR"]
    seen = os.open(folder + "/counted", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    def say(word): os.write(seen, ("%.3f %s\\n" % (time.time(), word)).encode())
    for name in ("TERM", "INT", "USR1", "HUP"):
        signal.signal(getattr(signal, "SIG" + name), lambda number, _, name=name: say(name))
    say("begun")
    print("begun", flush=True)
    while not os.path.exists(folder + "/go"):
        time.sleep(0.01)
    print("ended", flush=True)
    say("ended")
    os._exit(0)  # Python takes its handlers away before it ends
"""


@dataclass
class Act:
    """One thing that was sent; `taken`: what it was sent to was there, as far as the platform says so."""

    word: str
    begun: float
    done: float = 0.0
    taken: bool = True

    @property
    def signal(self) -> str:
        """What the command sees of it."""
        return "TERM" if self.word in (CANCEL, END) else self.word


@dataclass
class Seen:
    """How one job went."""

    moment: Moment
    rig: str = ""
    name: str = ""
    acts: list[Act] = field(default_factory=list)
    counted: list[tuple[float, str]] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    waited: int = -1
    listens: float = 0.0
    """Since when the job side has listened, at the latest."""
    handed: list[str] = field(default_factory=list)
    """The signals of which it says itself that they came."""
    left: list[str] = field(default_factory=list)
    excused: set[str] = field(default_factory=set)

    def when(self, word: str) -> float | None:
        """When the command has said it first."""
        return next((at for at, said in self.counted if said == word), None)

    @property
    def counts(self) -> Counter[str]:
        """How often it has said each word."""
        return Counter(word for _, word in self.counted)


def moment(seed: int, ways: tuple[str, ...]) -> Moment:
    """The moment of a seed on a rig with these ways.

    Its times are shares: 0 the submission's return, 1 somewhat after a quiet job's begin; of a late one, from -1 to 1
    around the moment in which the command may end.
    """
    dice = random.Random(seed)
    words = tuple(dice.choice(ways) for _ in range(dice.choice((1, 1, 2))))
    late = dice.random() < 0.4
    places = tuple(sorted(dice.uniform(-1 if late else 0, 1) for _ in words))
    return Moment(seed, words, places, late)


class Storm:
    """Many moments on one rig."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._ways = (CANCEL, *bench.setting.signals)
        self._length = 2.0
        self._script = bench.script(COUNTING)
        keys = {} if "SECRET_CANARY" in bench.setting.profile else {"secrets": ["SECRET_CANARY"]}
        bench.profile(**keys)

    def run(self, first: int, count: int) -> Iterator[tuple[Seen, list[str]]]:
        """Each moment, and what is wrong with it."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self._length = max(pool.map(lambda _: self._quiet(), range(AT_ONCE)))
            print(f"{self._bench.rig.name}: a command begins {self._length:.1f} s after its submission", flush=True)
            yield from pool.map(self._one, [moment(seed, self._ways) for seed in range(first, first + count)])

    def _quiet(self) -> float:
        """Seconds from a submission's return to the command's begin, where nothing is sent."""
        name, there, began = self._submit(), None, time.time()
        there = self._there(name)
        until(lambda: any(word == "begun" for _, word in counted(there)), "a quiet begin", seconds=300)
        open_gate(there)
        assert self._bench.wait(name) == 0
        return max(0.2, counted(there)[0][0] - began)

    def _one(self, given: Moment) -> tuple[Seen, list[str]]:
        seen = Seen(given, self._bench.rig.name)
        try:
            seen.name = self._submit()
            self._through(seen)
            problems = list(wrong(seen))
        except (AssertionError, OSError, ValueError, LookupError, subprocess.TimeoutExpired) as error:
            problems = [f"{type(error).__name__}: {error}"]
        return seen, problems

    def _submit(self) -> str:
        done = self._bench.nemotron("run", self._script, "--batch", "target", SECRET_CANARY=CANARY).succeeds()
        return done.out.strip().splitlines()[-1]

    def _there(self, name: str) -> Path:
        return self._bench.setting.job_dir(self._bench.folder(name))

    def _through(self, seen: Seen) -> None:
        given, bench = seen.moment, self._bench
        origin, there = time.time(), self._there(seen.name)
        cancels: list[tuple[Act, subprocess.Popen[bytes]]] = []
        if given.late:
            until(lambda: "begun" in words_of(there), "its begin", seconds=300)
            origin = time.time() + 0.5
        go = [("go", origin)] if given.late else []
        spread = 0.4 if given.late else self._length * 1.3
        plan = [(word, origin + place * spread) for word, place in zip(given.words, given.times, strict=True)]
        for word, at in sorted(plan + go, key=lambda pair: pair[1]):
            time.sleep(max(0.0, at - time.time()))
            if word == "go":
                open_gate(there)
                continue
            act = Act(word, time.time())
            seen.acts.append(act)
            if word == CANCEL:
                cancels.append((act, bench.started("jobs", "cancel", seen.name, "--grace", _GRACE)))
            else:
                act.taken = bench.setting.signals[word](seen.name, bench.folder(seen.name))
                act.done = time.time()
        self._let_go(seen, there, cancels)
        for act, process in cancels:
            done = finish(process)
            act.done = time.time()
            assert done.code == 0, f"jobs cancel: {done.code}\n{done.out}{done.err}"
        seen.waited = bench.wait(seen.name)
        seen.shown = bench.show(seen.name)
        seen.left = bench.leftovers(seen.name)
        seen.counted, seen.record = counted(there), record_of(there)
        seen.listens, seen.handed = _listens(there, seen.record), _handed(there)

    def _let_go(self, seen: Seen, there: Path, cancels: list[tuple[Act, subprocess.Popen[bytes]]]) -> None:
        """Waits until all that was sent is heard, or cannot be any more; then the command may end."""
        asked = looked = time.time()
        wanted = Counter(act.signal for act in seen.acts if act.taken)
        while not (there / "go").exists():
            words = words_of(there)
            if "begun" in words:
                begun = max(asked, counted(there)[0][0])
                if all(words.count(name) for name in wanted) or time.time() > begun + _HEARD_S:
                    break
            if record_of(there) or (cancels and all(process.poll() is not None for _, process in cancels)):
                break
            if time.time() > looked + _BETWEEN_S:
                if self._is_over(seen.name):
                    break
                looked = time.time()
            time.sleep(0.05)
        if there.is_dir():
            open_gate(there)

    def _is_over(self, name: str) -> bool:
        self._bench.nemotron("jobs", "status", name, "--json")
        return bool(self._bench.show(name)["over"])


def counted(there: Path) -> list[tuple[float, str]]:
    """What a command has said so far: when, what."""
    try:
        lines = (there / "counted").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [(float(at), word) for at, word in map(str.split, lines)]


def words_of(there: Path) -> list[str]:
    """The same without the times."""
    return [word for _, word in counted(there)]


def record_of(there: Path) -> dict[str, Any]:
    """What the job side has written down of its end."""
    try:
        return dict(json.loads((there / "status" / "node-0").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _listens(there: Path, record: dict[str, Any]) -> float:
    """When the pod's supervisor had begun, or else the job script's."""
    started = [float(record.get("started", 0))]
    return min([path.stat().st_mtime for path in (there / "status").glob("lives-*")] or started)


def _handed(there: Path) -> list[str]:
    """What the batch script's supervisor says that it has taken."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in there.glob("sbatch_*.out")]
    return re.findall(r"nemotron: SIG(\w+) came and is handed", "".join(texts))


def wrong(seen: Seen) -> Iterator[str]:
    """What is not as it must be."""
    state, code = seen.shown["state"], seen.shown["exit_code"]
    begun, ended = seen.when("begun"), seen.when("ended")
    sent = Counter(act.signal for act in seen.acts)
    stops = [act for act in seen.acts if act.signal != "USR1"]
    for name in SIGNALS:
        if seen.counts[name] > sent[name]:
            yield f"SIG{name} came {seen.counts[name]} times, and was sent {sent[name]} times"
    if state not in ("succeeded", "failed", "cancelled"):
        yield f"it ends as {state}"
    if state == "succeeded" and (ended is None or seen.waited or code):
        yield f"a success is told of a command that has not ended, or with {seen.waited} or {code}"
    if begun is not None and ended is None and not stops:
        yield "USR1 has ended a command that handles it"
    if ended is not None and state == "failed":
        yield f"a command that has ended well is told as failed ({code})"
    yield from _unheard(seen)
    yield from _untold(seen, state, ended)
    if state == "failed":
        yield from _failed(seen, code)
    if seen.record and state != "cancelled" and seen.record["exit_code"] != code:
        yield f"exit code {code}, recorded {seen.record['exit_code']}"
    if seen.left:
        yield f"left: {seen.left}"


def _failed(seen: Seen, code: int) -> Iterator[str]:
    """What is wrong with a failure: nothing but a stop before the command ends one."""
    if not _was_ended(seen):
        yield f"failed with {code}, though nothing that was sent ends it so"
    if code != 1 and not re.search("SIG|signal", str(seen.shown["cause"])):
        yield f"a stop has no reason: {seen.shown['cause']}"


def _unheard(seen: Seen) -> Iterator[str]:
    """What a command that went on until it had heard all has not heard."""
    if seen.moment.late or seen.when("ended") is None:
        return
    for act in seen.acts:
        if seen.counts[act.signal]:
            continue
        if not act.taken:
            seen.excused.add(f"{act.word} to nobody who could hear it")
        elif seen.rig == "slurm" and act.done <= seen.listens and act.word not in seen.handed:
            seen.excused.add(f"{act.word} before setup_lines")
        else:
            yield f"{act.word} was lost"


def _untold(seen: Seen, state: str, ended: float | None) -> Iterator[str]:
    """A cancellation that is not told, or is told and was none."""
    asked = [act for act in seen.acts if act.word in (CANCEL, END) and act.taken]
    if state == "cancelled" and not asked:
        yield "cancelled, though nobody has"
    if state == "cancelled" or not asked:
        if asked and ended is not None and all(act.begun > ended + 2 * _BESIDE_S for act in asked):
            yield "cancelled after its end"
        return
    if ended is None and _other_before(seen, asked[0]) and _was_ended(seen):
        return  # a signal before has ended it before its command
    if ended is None or asked[0].begun + _BESIDE_S < ended:
        yield f"it was cancelled, and is told as {state}"


def _other_before(seen: Seen, asked: Act) -> bool:
    """Whether another signal came before a cancellation had been done: nemotron asks the platform some time later."""
    return any(act.word in SIGNALS and act.begun < asked.done for act in seen.acts)


def _was_ended(seen: Seen) -> bool:
    """Whether what was sent ends a program that does not handle it (yet), and the code is that one's."""
    if seen.when("begun") is not None:
        return False
    sent, code = [act.signal for act in seen.acts], seen.shown["exit_code"]
    if code == 128 + signal.SIGUSR1 and "USR1" in sent:
        heard = any(act.taken for act in seen.acts if act.word == "USR1")
        if seen.record or (heard and seen.rig != "slurm"):
            return False  # the job side was there: a command that starts must not be told it
        seen.excused.add("ended by USR1 before the job side")
        return True
    if "INT" in sent and code == 1 and seen.record.get("phase") == "command":
        return True  # of a KeyboardInterrupt while Python starts
    return code in [128 + getattr(signal, f"SIG{name}") for name in sent]


def told(seen: Seen, problems: list[str]) -> str:
    """All that is known of a moment, for a person."""
    kept = {key: seen.shown.get(key) for key in ("state", "exit_code", "signal", "cause", "states")}
    origin = seen.acts[0].begun if seen.acts else 0.0
    acts = [(act.word, f"{act.begun - origin:+.3f} to {act.done - origin:+.3f}", act.taken) for act in seen.acts]
    said = [f"{at - origin:+.3f} {word}" for at, word in seen.counted]
    lines = [*problems, f"{seen.moment} {seen.name}", f"{acts}", f"{said}", f"{kept}", f"{seen.record}"]
    lines.append(f"listens {seen.listens - origin:+.3f}, handed {seen.handed}")
    return textwrap.indent("\n".join(lines), "  ")

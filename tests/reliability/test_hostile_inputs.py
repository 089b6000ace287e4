"""Inputs that nobody means, through the command line: a known exit code, no traceback, nothing written outside."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.test_fuzz import CONFIG, ENV_FILES, ODD, WORDS, mutated
from job_records import gone, record, stored
from support import PROFILES, REPOSITORY, Outcome, Project, call, contents

from nemo_runspec.records import JobStore
from nemo_runspec.records.codec import to_json
from nemo_runspec.records.facts import JobFacts
from reliability.tally import Tally, size

CODES = (0, 1, 2, 3)
CHUNKS = size(1, 8)
"""Tests that one kind of input is spread over, so that several processes may share it."""

JUNK = [
    None, True, -1, 0, 10**30, 1e308, "", "x", "\x1b[2J", "\u202e", "../../x", "/etc/passwd", [], {}, [[]], {"a": 1},
    "~nosuchuser/x", "-rf", "a\nb", "\udcff", "9" * 5000, "${oc.env:HOME}", "²", "NaN", [None], {"executor": []},
]  # fmt: skip

VARIABLES = (
    "HF_HOME", "HF_TOKEN_PATH", "HF_TOKEN", "XDG_CACHE_HOME", "NETRC", "WANDB_BASE_URL", "WANDB_API_KEY", "COLUMNS",
    "NO_COLOR", "TERM", "LANG", "HOME", "NEMOTRON_HOME", "NEMOTRON_ENV_FILE", "NEMOTRON_RECIPES", "LEPTON_CACHE_DIR",
    "LEPTON_WORKSPACE_URL", "LEPTON_WORKSPACE_TOKEN", "DOCKER_HOST", "AWS_ACCESS_KEY_ID", "HTTPS_PROXY", "TMPDIR",
)  # fmt: skip


@pytest.fixture
def tree(project: Project) -> Project:
    project.recipe("mine/train", default=CONFIG, **{"group/one": "x: 1\n"})
    return project


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a tree of JSON, the tree's own excepted."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in pairs:
        yield (*at, key)
        yield from places(below, (*at, key))


def edited(tree: Any, dice: random.Random) -> Any:
    """A copy of a tree of JSON with one to three values replaced or taken out."""
    made = copy.deepcopy(tree)
    for _ in range(dice.randint(1, 3)):
        *above, last = dice.choice(list(places(made)) or [("x",)])
        spot = made
        for key in above:
            spot = spot[key]
        if dice.random() < 0.15:
            del spot[last]
        else:
            spot[last] = copy.deepcopy(dice.choice(JUNK))
    return made


def env_toml(tree: Project, dice: random.Random) -> list[str]:
    tree.env_file.write_text(mutated(dice.choice(ENV_FILES), dice), encoding="utf-8", newline="")
    run = ["mine", "train", "--run", dice.choice(PROFILES), "-d"]
    return dice.choice([run, run, ["env", "check"], ["env", "list"], ["env", "show", dice.choice(PROFILES)]])


def yaml(tree: Project, dice: random.Random) -> list[str]:
    path = tree.folder / "recipes/mine/train/config/default.yaml"
    path.write_text(mutated(CONFIG, dice), encoding="utf-8", newline="")
    return ["mine", "train", *(["--run", dice.choice(PROFILES)] if dice.random() < 0.5 else []), "-d"]


def overrides(tree: Project, dice: random.Random) -> list[str]:
    words = [word for word in WORDS if "=" in word or word.startswith(("+", "~"))]
    more = [mutated(dice.choice(words), dice).replace("\x00", "") for _ in range(dice.randint(1, 3))]
    return ["mine", "train", "--run", dice.choice(PROFILES), "-d", *(word for word in more if "out" not in word)]


def argv(tree: Project, dice: random.Random) -> list[str]:
    heads = [
        ["jobs", "list"],
        ["jobs", "show"],
        ["env"],
        ["list"],
        ["steps"],
        ["diff"],
        ["apply", "-d"],
        ["mine", "train", "-d"],
    ]
    words = [*WORDS, *ODD, "last", "..", "/", "env.toml"]
    return [*dice.choice(heads), *(word.replace("\x00", "") for word in dice.choices(words, k=dice.randint(0, 4)))]


def headers(tree: Project, dice: random.Random) -> list[str]:
    script = (REPOSITORY / "recipes/nano3/pretrain/train.py").read_text("utf-8")
    tree.write("recipes/mine/train/main.py", mutated(script[: script.index("# ///\n") + 6], dice))
    return dice.choice([["list", "mine"], ["mine", "train", "--help"], ["mine", "train", "-d"]])


def record_json(tree: Project, dice: random.Random) -> list[str]:
    """Beside a good one, which is always shown."""
    store = JobStore(tree.state / "jobs")
    running = ("planned", "starting", "running")
    made = dice.choice(
        [
            record("odd", (*running, "failed"), exit_code=3, cause="x", elapsed=3.0, metrics={"loss": 1.0}),
            record("odd", running, launcher=gone()),
            record(
                "odd",
                running,
                executor="slurm",
                handle={"id": "1", "name": "odd", "job_dir": "/x"},
                facts=JobFacts(nodes="n1", attempt=1),
            ),
        ]
    )
    stored(store, made)
    text = json.dumps(edited(json.loads(to_json(made)), dice))
    if dice.random() < 0.3:
        text = mutated(text, dice)
    (store.folder("odd") / "record.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    return [
        "jobs",
        *dice.choice([["list"], ["list", "--json"], ["show", "odd"], ["show", "odd", "--json"], ["logs", "odd"]]),
    ]


def plan_json(tree: Project, dice: random.Random) -> list[str]:
    kept = tree.folder / "plans"
    if not kept.exists():
        kept.mkdir()
        for name in PROFILES:
            if name not in ("base-slurm", "runai"):
                call("mine", "train", "--run", name, "-d", "--out", str(kept / name)).succeeds()
    plan = edited(json.loads(dice.choice(sorted(kept.iterdir())).read_text("utf-8")), dice)
    tree.write("changed.json", json.dumps(plan))
    return dice.choice([["apply", "--dry-run", "changed.json"], ["diff", "changed.json", str(kept / "laptop")]])


def variables(tree: Project, dice: random.Random) -> list[str]:
    """The environment itself is set by the test."""
    return dice.choice(
        [["mine", "train", "--run", dice.choice(PROFILES), "-d"], ["list"], ["env", "check"], ["jobs", "list"]]
    )


KINDS: dict[str, tuple[Callable[[Project, random.Random], list[str]], int, int]] = {
    "env.toml": (env_toml, 250, 25_000),
    "YAML": (yaml, 80, 12_000),
    "overrides": (overrides, 250, 25_000),
    "argv": (argv, 300, 25_000),
    "recipe headers": (headers, 60, 4_000),
    "record.json": (record_json, 200, 15_000),
    "plan.json": (plan_json, 100, 8_000),
    "environment variables": (variables, 120, 6_000),
}
"""Kind → what makes one and the command that reads it; how many of them in CI, and in full: 120,000 together."""


def check(tally: Tally, outcome: Outcome, case: object) -> None:
    tally.injected += 1
    tally.expect(outcome.code in CODES, (outcome.code, outcome.err[-300:], case))
    tally.expect("Traceback" not in outcome.err + outcome.out, (outcome.code, outcome.err[-300:], case))
    tally.expect(
        outcome.code != 2 or outcome.err.strip() or outcome.out.strip(), (outcome.code, outcome.err[-300:], case)
    )
    tally.expect("\x1b" not in outcome.out + outcome.err, (outcome.code, outcome.err[-300:], case))


def called(command: list[str]) -> Outcome:
    try:
        return call(*command)
    except BaseException as error:  # noqa: BLE001  # what reaches us here would be a traceback for the user
        return Outcome(-1, "", f"Traceback: {error!r} at {_where(error)}")


def _where(error: BaseException) -> str:
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("kind", KINDS)
def test_inputs(tree, tally, monkeypatch, tmp_path, kind, chunk):
    make, small, full = KINDS[kind]
    noted = tally("hostile inputs", "any", kind)
    store = JobStore(tree.state / "jobs")
    stored(store, record("good", ("planned", "starting", "running", "succeeded"), exit_code=0))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("untouched")
    for _ in range(size(small, full // CHUNKS)):
        command = [word for word in make(tree, noted.dice) if not word.startswith("--out")]
        with monkeypatch.context() as patch:
            if kind == "environment variables":
                _set(patch, noted.dice)
            outcome = called(command)
        case = (command, _input_of(tree, kind))
        check(noted, outcome, case)
        if kind == "record.json" and command[1] == "list":
            noted.expect("good" in outcome.out, (outcome.code, outcome.err[-300:], case))
    assert contents(outside) == {outside / "canary": b"untouched"}
    assert not [path for path in tmp_path.iterdir() if path.name not in ("project", "home", "outside")]


def _set(patch: pytest.MonkeyPatch, dice: random.Random) -> None:
    for name in dice.sample(VARIABLES, dice.randint(1, 3)):
        text = dice.choice([str(junk) for junk in JUNK if isinstance(junk, (str, int))] + ODD)
        patch.setenv(name, text.replace("\x00", "").encode("utf-8", "replace").decode())


def _input_of(tree: Project, kind: str) -> str:
    files = {
        "env.toml": tree.env_file,
        "YAML": tree.folder / "recipes/mine/train/config/default.yaml",
        "recipe headers": tree.folder / "recipes/mine/train/main.py",
        "record.json": tree.state / "jobs/odd/record.json",
        "plan.json": tree.folder / "changed.json",
    }
    file: Path | None = files.get(kind)
    return file.read_text("utf-8", errors="replace") if file and file.is_file() else ""

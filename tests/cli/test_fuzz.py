"""Mistakes by the ten thousand: whatever stands in env.toml, YAML or on the command line, there is never a traceback.

A file that is wrong gives exit code 2 and a message that says where, or what to do. Mutations are drawn from a seeded
generator, so that a failure repeats itself; the case that failed is in the assertion. The full tier draws four
times as many.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support import ENV_TOML, HEADER, PROFILES, REPOSITORY, SEED_BLOCKS, Outcome, call, process, snapshot

from nemo_runspec.backends import BUILTIN
from nemo_runspec.config.overrides import parse_override
from nemo_runspec.doctor.envcheck import check_env_file
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.profiles.envfile import load_env_file
from nemo_runspec.profiles.fieldset import fields_of

PART = 1 if os.environ.get("REQUIRE_LAB") == "full" else 4

ODD = [
    "", " ", "\t", "\n", "\r", "\x00", "\x1b", "\ufeff", "\u2028", "é", "𝕏", "'", '"', '"""', "'''", "\\", "#", "=",
    "[", "]", "[[", "]]", "{", "}", "${", "${oc.env:GONE}", "${oc.env:HOME}", "${a.b}", "${oc.env:HOME,${oc.env:HOME}}",
    "$", "~", "~nobody/x", "*", "&a", "*a", "!!python/name:os.system", "???", "|", ">", "-", "- ", ": ", ":", ",", ".",
    "..", "%", "0", "-1", "1e999", "nan", "inf", "0x1f", "1_000", "04:00:00", "1979-05-27", "9" * 40, "true", "null",
    "~gone", "YOUR-TEAM", "<user>", "extends", "executor", "run", "env", "defaults", "_self_", "hydra", "x" * 300,
]  # fmt: skip

CONFIG = """\
defaults:
  - group: one
  - _self_
run:
  env:
    nodes: 1
    env_vars: {A: b}
    mounts: []
  wandb:
    project: p
  data:
    artifact: name
    make: if-missing
train:
  steps: 10
  name: x-${train.steps}
list: [1, 2, {a: 3}]
text: ${oc.env:HOME}
nothing: null
"""


def mutated(text: str, dice: random.Random) -> str:
    """The text with one to four changes: lines dropped, doubled, swapped, cut; characters and odd words put in."""
    for _ in range(dice.randint(1, 4)):
        lines = text.split("\n")
        at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
        spot = dice.randrange(len(text) + 1)
        end = min(len(text), spot + dice.randint(1, 8))
        kind = dice.randrange(8)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(other, lines[at])
        elif kind == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3 and "=" in lines[at]:
            lines[at] = f"{lines[at].partition('=')[0]}= {dice.choice(ODD)}"
        elif kind == 4:
            lines[at] = dice.choice(ODD) + lines[at]
        if kind <= 4:
            text = "\n".join(lines)
        elif kind == 5:
            text = text[:spot] + dice.choice(ODD) + text[spot:]
        elif kind == 6:
            text = text[:spot] + text[end:]
        else:
            text = text[:spot] if dice.random() < 0.2 else text[:spot] + dice.choice(ODD) + text[end:]
    return text


def check(outcome: Outcome, case: Any) -> None:
    assert outcome.code in (0, 2), (case, outcome)
    assert "Traceback" not in outcome.err, (case, outcome)
    if outcome.code == 2:
        assert outcome.err.startswith("error: "), (case, outcome)
        assert "at:" in outcome.err or "fix:" in outcome.err, (case, outcome)


def attempt(action: Callable[[], object], case: Any) -> None:
    """Lets the action succeed or raise `UserError`s that help."""
    try:
        action()
    except Problems as error:
        assert all(p.where or p.remedy for p in error.problems), (case, str(error))
    except UserError as error:
        assert error.where or error.remedy, (case, str(error))
    except Exception as error:
        raise AssertionError(f"{error!r} for {case!r}") from error


ENV_FILES = [
    ENV_TOML,
    (REPOSITORY / "env.toml.example").read_text("utf-8"),
    *(b.read_text("utf-8") for b in SEED_BLOCKS),
]


@pytest.mark.slow
def test_env_files(project):
    """3,000 of them, read and checked."""
    dice = random.Random(1)

    def look() -> None:
        report = check_env_file(load_env_file(project.env_file))
        assert all(e.where or e.remedy for e in report.errors), [str(e) for e in report.errors]

    for _ in range(3000):
        text = mutated(dice.choice(ENV_FILES), dice)
        project.env_file.write_text(text, encoding="utf-8", newline="")
        attempt(look, text)


@pytest.mark.slow
def test_env_files_of_any_bytes(project):
    dice = random.Random(2)
    for _ in range(500 // PART):
        data = bytearray(ENV_TOML.encode())
        for _ in range(dice.randint(1, 6)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        project.env_file.write_bytes(bytes(data))
        attempt(lambda: check_env_file(load_env_file(project.env_file)), bytes(data))


@pytest.mark.slow
def test_env_files_as_commands(project):
    dice = random.Random(3)
    project.recipe("mine/train", default="value: 1\n")
    for _ in range(300 // PART):
        text = mutated(ENV_TOML, dice)
        project.env_file.write_text(text, encoding="utf-8", newline="")
        words = dice.choice(
            [
                ["mine", "train", "--run", dice.choice(PROFILES), "-d"],
                ["mine", "train", "--batch", dice.choice(PROFILES), "-d", "--json"],
                ["mine", "train", "-d"],
                ["env", "list"],
                ["env", "show", dice.choice(PROFILES)],
                ["env", "check"],
                ["env", "list", "--json"],
            ]
        )
        outcome = call(*words)
        if words[:2] == ["env", "check"] and outcome.code == 2:
            assert "Traceback" not in outcome.err
        else:
            check(outcome, (words, text))


@pytest.mark.slow
def test_yaml(project):
    dice = random.Random(4)
    consumes = '# [[tool.runspec.consumes]]\n# name = "data"\n# type = "blend"\n# ///\n'
    header = HEADER[: HEADER.rindex("# ///")] + consumes
    project.recipe("mine/train", header=header, **{"default": CONFIG, "group/one": "x: 1\n"})
    path = project.folder / "recipes" / "mine" / "train" / "config" / "default.yaml"
    for number in range(300 // PART):
        text = mutated(CONFIG, dice)
        path.write_text(text, encoding="utf-8", newline="")
        profile = ["--run", dice.choice(PROFILES)] if number % 2 else []
        check(call("mine", "train", *profile, "-d"), (profile, text))


@pytest.mark.slow
def test_headers(project):
    """A recipe whose header is broken: it is listed with its error, and refused when it is called."""
    dice = random.Random(5)
    script = (REPOSITORY / "recipes" / "nano3" / "pretrain" / "train.py").read_text("utf-8")
    top = script[: script.index("# ///\n") + 6]
    for _ in range(250 // PART):
        text = mutated(top, dice)
        project.write("recipes/mine/train/main.py", text)
        check(call("list", "mine"), text)  # what has no header any more is no recipe
        check(call("mine", "train", "--help"), text)
        check(call("run", "recipes/mine/train/main.py", "-d"), text)


WORDS = [
    "--run", "--run=my-cluster", "-r", "-rmy-cluster", "--batch", "-b", "my-cluster", "laptop", "wandb", "-c", "tiny",
    "--config=default", "-d", "--dry-run", "--dryrun", "--json", "--out=", "--out=.", "-m", "--stage", "--force-squash",
    "--resolve", "--help", "-h", "--", "-", "--=", "-=", "a=1", "value=2", "value=1,2", "+new=1", "~value", "~", "+",
    "=", "", " ",
    "run.env.nodes=2", "run.env.nodes=x", "run.env={}", "run.env=", "run=1", "~run.env", "run.env.env_vars.X=1",
    "run.env.env_vars=3", "run.name=x", "run.wandb=1", "run.wandb.tags=[1]", "run.artifacts=null", "~nobody/x.yaml",
    "run.artifacts.root=[1]", "run.data=x", "run.data=null", "run.data.path=3", "run.output_dir=[1]",
    "value={a:{b:[1]}}", "value=${gone}", "value=${run}", "value=${oc.env:GONE}", "value=\x1b[0m", "é=1", "value=é",
    "value='", 'value="', "value=[", "value={", "value=range(1,3)", "@x=1", "value@x=1", "hydra.run.dir=x",
    "hydra/launcher=x", "+hydra=1", "-ddd", "-dc", "-cr", "--no-run", "--run-", "\udcff",
]  # fmt: skip


@pytest.mark.slow
def test_argv(project):
    """Recipe commands are called with -d first, so that nothing is run whatever follows."""
    dice = random.Random(6)
    project.recipe("mine/train", default="value: 1\n")
    for _ in range(800 // PART):
        words = dice.choices(WORDS, k=dice.randint(1, 5))
        words = [mutated(w, dice).replace("\x00", " ") if w and dice.random() < 0.15 else w for w in words]
        command = ["mine", "train", "-d", *words]
        outcome = call(*command)
        check(outcome, command)


COMMANDS = [
    ["list"], ["env"], ["env", "list"], ["env", "show"], ["env", "check"], ["env", "fields"], ["env", "schema"],
    ["jobs"], ["jobs", "list"], ["jobs", "show"], ["steps"], ["steps", "list"], ["steps", "show"], ["diff"], ["mine"],
    ["apply", "--dry-run"], ["mine", "--help"], ["run", "--dry-run"], [],
]  # fmt: skip


@pytest.mark.slow
def test_other_commands(project):
    dice = random.Random(7)
    project.recipe("mine/train")
    for _ in range(500 // PART):
        command = [
            *dice.choice(COMMANDS),
            *dice.choices([*WORDS, "env.toml", ".", "/", "..", "last"], k=dice.randint(0, 2)),
        ]
        if command[:1] == ["run"] and "--" in command:
            continue
        outcome = call(*command)
        assert outcome.code in (0, 2), (command, outcome)
        assert "Traceback" not in outcome.err, (command, outcome)


def junk_overrides() -> Iterator[tuple[str, str]]:
    junk = [
        "3",
        "-1",
        "x",
        "[]",
        "[1,a]",
        "{}",
        "{a:1}",
        "{a:{b:[1]}}",
        "null",
        "true",
        "''",
        "1.5",
        "[[1]]",
        "~nobody/x",
    ]
    for executor in BUILTIN:
        for name in fields_of(executor).fields:
            if name not in ("executor", "extends"):
                yield from ((executor, f"run.env.{name}={value}") for value in junk)


PROFILE_OF = {"local": "laptop", "docker": "box", "slurm": "my-cluster", "dgxcloud": "runai", "lepton": "lepton"}


@pytest.mark.slow
def test_any_value_for_any_field(project):
    """Fields get values they may not want: a plan comes out, or a message with the field's name."""
    dice = random.Random(8)
    project.recipe("mine/train", default="value: 1\n")
    for executor, override in dice.sample(sorted(junk_overrides()), 500 // PART):
        outcome = call("mine", "train", "-d", "--run", PROFILE_OF[executor], override)
        check(outcome, (executor, override))
        if outcome.code == 2:
            field = override.split("=")[0].rpartition(".")[2]
            assert field.partition("_")[0] in outcome.err, (executor, override, outcome)


@pytest.mark.slow
def test_overrides():
    dice = random.Random(9)
    for _ in range(2500):
        text = mutated(dice.choice([*WORDS, "a.b.c=[1,{x:'y'}]", "+k=extend('a',\"b\")"]), dice)
        attempt(lambda text=text: parse_override(text), text)


@pytest.mark.slow
def test_saved_plans(project):
    """A plan file somebody has edited."""
    dice = random.Random(10)
    project.recipe("mine/train", default="value: 1\n")
    call("mine", "train", "--run", "my-cluster", "-d", "--out", "plan.json").succeeds()
    text = (project.folder / "plan.json").read_text(encoding="utf-8")
    for _ in range(400 // PART):
        changed = mutated(text, dice)
        project.write("changed.json", changed)
        check(call("apply", "--dry-run", "changed.json"), changed)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(2))
def test_as_processes(project, batch):
    """One broken thing each, in processes of their own: nothing is written either."""
    dice = random.Random(100 + batch)
    project.recipe("mine/train", default=CONFIG, **{"group/one": "x: 1\n"})
    cases: list[list[str]] = []
    for number in range(30):
        project.write(f"envs/{number}.toml", mutated(ENV_TOML, dice))
        project.write(f"configs/{number}.yaml", mutated(CONFIG, dice))
        words = [w for w in dice.choices(WORDS, k=2) if w != "--out=."]
        more = [["-c", f"configs/{number}.yaml"], words, []][number % 3]
        cases.append(["mine", "train", "-d", *(["--run", dice.choice(PROFILES)] if number % 2 else []), *more])

    def run(number: int) -> Outcome:
        environment = {"NEMOTRON_ENV_FILE": f"envs/{number}.toml", "PYTHONDONTWRITEBYTECODE": "1"}
        return process(project, *cases[number], **environment)

    before = snapshot(project.folder, project.home)
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(run, range(len(cases))))
    for case, outcome in zip(cases, outcomes, strict=True):
        check(outcome, case)
    assert snapshot(project.folder, project.home) == before

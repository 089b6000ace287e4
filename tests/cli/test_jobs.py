"""`nemotron jobs list | show | wait | rm` on records of every kind; `cancel` and `retry` on jobs that really run."""

from __future__ import annotations

import json
import re

import pytest
from job_records import gone, record, stored
from support import HEADER, snapshot

from nemo_runspec.records import JobStore, Launcher
from nemo_runspec.records.last_poll import note_asked
from nemo_runspec.records.process import this_process

RUNNING = ("planned", "starting", "running")
ENDED = (*RUNNING, "succeeded")
FAILED = (*RUNNING, ("failed", "exit code 3"))
SWEEP = "mine-train-sweep-1121-kkkkkk"


@pytest.fixture
def store(project):
    return JobStore(project.state / "jobs")


@pytest.fixture
def jobs(store):
    """One job of every kind, and a sweep of four; the newest first by name."""
    stored(store, record("a-ended-1120-aaaaaaaa", ENDED, age=900, exit_code=0, elapsed=4.25, profile="laptop"))
    stored(store, record("b-failed-1120-bbbbbbbb", FAILED, age=800, exit_code=3, cause="exit code 3", elapsed=75.0))
    stored(store, record("c-running-1120-cccccccc", RUNNING, age=700, launcher=this_process()))
    stored(store, record("d-lost-1120-dddddddd", RUNNING, age=600, launcher=gone()))
    stored(store, record("e-unknown-1120-eeeeeeee", RUNNING, age=500, launcher=Launcher(1, "1", "elsewhere")))
    for n, (state, lr) in enumerate([("succeeded", "1e-3"), ("failed", "3e-4"), ("succeeded", "1e-4")]):
        stored(
            store,
            record(
                f"mine-train-1121-ssssss{n}{n}", (*RUNNING, state), age=400 - n, exit_code=int(state == "failed"),
                recipe="mine/train",
                group=SWEEP, overrides=(f"train.lr={lr}", "run.seed=1"), metrics={"loss": 1.5 + n},
            ),
        )  # fmt: skip
    folder = store.folder("z-damaged-1120-zzzzzzzz")
    folder.mkdir()
    (folder / "record.json").write_text('{"name":')
    return store


def rows(outcome):
    return {line.split()[0]: line for line in outcome.succeeds().out.splitlines()[1:]}


def test_no_jobs(project, nemotron):
    assert nemotron("jobs", "list").succeeds().out == "No jobs yet.\n"
    assert nemotron("jobs", "list", "--json").succeeds().json == []
    for verb in ("show", "logs", "wait", "cancel", "retry", "rm"):
        nemotron("jobs", verb, "last").refuses("no job is recorded yet")


def test_a_state_that_nobody_asked_about_has_its_age(store, nemotron):
    """Of jobs elsewhere that are not over; what was asked about a moment ago is of now."""
    there = {"executor": "slurm", "profile": "my-cluster", "handle": {"host": "h", "id": "7"}, "launcher": gone()}
    for number, (state, seconds) in enumerate((("running", 3 * 3600 + 90), ("running", 200), ("succeeded", 9000))):
        stored(store, record(f"far-1120-aaaaaaa{number}", (*RUNNING[:2], state), age=seconds, **there))
    note_asked(store.folder("far-1120-aaaaaaa1"))
    found = rows(nemotron("jobs", "list"))
    assert "running (3 h ago)" in found["far-1120-aaaaaaa0"]
    assert "ago" not in found["far-1120-aaaaaaa1"] + found["far-1120-aaaaaaa2"]
    shown = nemotron("jobs", "show", "far-1120-aaaaaaa0").succeeds().out
    assert shown.startswith("far-1120-aaaaaaa0  running (3 h ago; nemotron jobs status asks now)\n")
    for number in (1, 2):
        assert "ago" not in nemotron("jobs", "show", f"far-1120-aaaaaaa{number}").succeeds().out


def test_list_shows_every_job_and_a_sweep_as_one_line(jobs, nemotron):
    found = rows(nemotron("jobs", "list"))
    assert list(found) == [
        "z-damaged-1120-zzzzzzzz", SWEEP, "e-unknown-1120-eeeeeeee", "d-lost-1120-dddddddd", "c-running-1120-cccccccc",
        "b-failed-1120-bbbbbbbb", "a-ended-1120-aaaaaaaa",
    ]  # fmt: skip
    assert re.search(r"succeeded .* 4\.2 s +laptop$", found["a-ended-1120-aaaaaaaa"])
    assert re.search(r"failed 3 .* 1:15 .*exit code 3", found["b-failed-1120-bbbbbbbb"])
    assert re.search(r"lost .*nemotron was killed", found["d-lost-1120-dddddddd"])
    assert re.search(r"unknown .*cannot be asked from here", found["e-unknown-1120-eeeeeeee"])
    assert re.search(r"failed .* 3 runs .*1 failed, 2 succeeded", found[SWEEP])
    assert "its record cannot be read: it is cut off or damaged" in found["z-damaged-1120-zzzzzzzz"]


def test_a_sweep_member_by_member(jobs, nemotron):
    found = rows(nemotron("jobs", "list", "--group", SWEEP))
    assert len(found) == 3
    assert re.search(r"failed 1 +train\.lr=3e-4; loss=2\.5", found["mine-train-1121-ssssss11"])
    assert "run.seed" not in "".join(found.values()), "what all were given tells nothing"
    assert list(rows(nemotron("jobs", "list", "--state", "failed"))) == [
        "mine-train-1121-ssssss11",
        "b-failed-1120-bbbbbbbb",
    ]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("more", [(), ("--group", SWEEP), ("--state", "failed,lost,unknown")], ids=str)
def test_no_row_is_wider_than_the_terminal(jobs, nemotron, columns, more, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = nemotron("jobs", "list", *more).succeeds().out.splitlines()
    assert max(map(len, lines)) <= columns
    monkeypatch.delenv("COLUMNS")
    assert "…" not in nemotron("jobs", "list", *more).succeeds().out


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 9), (("--state", "failed"), 2), (("--state", "failed", "--state", "lost,succeeded"), 6),
        (("--recipe", "mine"), 3),
        (("--recipe", "nano3 pretrain"), 5), (("--profile", "laptop"), 1), (("--group", SWEEP), 3),
        (("--since", "590s"), 5),
        (("--limit", "4"), 4), (("--all",), 9), (("--state", "unknown"), 2),
    ],
)  # fmt: skip
def test_json_lists_what_the_conditions_let_through(jobs, nemotron, words, count):
    found = nemotron("jobs", "list", "--json", *words).succeeds().json
    assert len(found) == count
    assert all({"name", "state", "created"} <= set(job) for job in found)


def test_the_newest_25_and_how_many_more(store, nemotron):
    for n in range(40):
        stored(store, record(f"job-{n:02}", ENDED, age=100 - n, exit_code=0))
    outcome = nemotron("jobs", "list").succeeds()
    assert [line.split()[0] for line in outcome.out.splitlines()[1:]] == [f"job-{n}" for n in range(39, 14, -1)]
    assert outcome.err == "15 more of 40 jobs: --limit N or --all\n"
    assert len(nemotron("jobs", "list", "--limit", "30").out.splitlines()) == 31
    everything = nemotron("jobs", "list", "--all").succeeds()
    assert (len(everything.out.splitlines()), everything.err) == (41, "")


REFUSALS = [
    (["list", "--state", "faild"], ["there is no state 'faild'", "did you mean 'failed'?"]),
    (["list", "--recipe", "mine/trian"], ["no job has the recipe 'mine/trian'", "did you mean 'mine/train'?"]),
    (["list", "--group", SWEEP[:-1]], [f"did you mean '{SWEEP}'?"]),
    (["list", "--since", "2 days"], ["--since: '2 days' is not a length of time", "1h30m"]),
    (["list", "--limit", "0"], ["--limit: 0 is not a number of lines"]),
    (["list", "--limit", "3", "--all"], ["contradict"]),
    (["list", "--limit", "x"], ["x"]),
    (
        ["show", "c-runing-1120-cccccccc"],
        ["no job 'c-runing-1120-cccccccc'", "did you mean 'c-running-1120-cccccccc'?"],
    ),
    (["show", "z-damaged"], ["the record of job 'z-damaged-1120-zzzzzzzz' cannot be read", "cut off", "record.json"]),
    (["show", SWEEP], ["a sweep of 3 jobs", "jobs list --group"]),
    (["show"], ["JOB"]),
    (["logs", "a-ended", "--tail", "-1"], ["--tail: -1"]),
    (["wait", "a-ended", "--timeout", "soon"], ["--timeout: 'soon' is not a length of time"]),
    (["wait", "mine"], ["beginning of 3 jobs"]),
    (["cancel", "a-ended", "--grace", "x"], ["--grace: 'x' is not a length of time"]),
    (["rm"], ["by their names, or by conditions"]),
    (["rm", "a-ended", "--state", "failed"], ["by their names, or by conditions"]),
    (
        ["rm", "a-ended", "c-running"],
        ["job 'c-running-1120-cccccccc' is running; nothing was removed", "jobs cancel c-running"],
    ),
    (["rm", "c-running", "--force"], ["is running; nothing was removed"]),
    (["rm", "e-unknown"], ["whether job 'e-unknown-1120-eeeeeeee' is over is not known", "rm --force"]),
    (["rm", "z-damaged"], ["cannot be read", "rm --force"]),
    (["rm", "a-ended", "gone"], ["no job 'gone'", "fix: see what there is: nemotron jobs list"]),
    (["rm", "../project"], ["no job '../project'"]),
    (["rm", ""], ["no job ''"]),
    (["rm", "--older-than", "30"], ["--older-than: '30' is not a length of time"]),
]


@pytest.mark.parametrize(("words", "said"), REFUSALS, ids=[" ".join(words) for words, _ in REFUSALS])
def test_refused_and_nothing_done(project, jobs, nemotron, words, said):
    nemotron("jobs", "list")  # the lost one is written down, the index is made
    nemotron("jobs", "list")
    before = snapshot(project.folder, project.home)
    nemotron("jobs", *words).refuses(*said)
    assert snapshot(project.folder, project.home) == before


def test_show(jobs, nemotron):
    stored(
        jobs,
        record(
            "full-1121-ffffffff", FAILED, exit_code=3, cause="exit code 3", elapsed=61.0, group=SWEEP,
            overrides=("a=b c",), commit="c" * 40,
            retry_of="a-ended-1120-aaaaaaaa", metrics={"loss": 0.25}, container="c0ffee", outputs={"model": "/out"},
            argv=("nemotron", "x", "a=b c"),
            package={"kind": "git", "digest": "d" * 40, "root": "/r", "uncommitted": 2, "untracked": 1},
        ),
        log=b"x",
    )  # fmt: skip
    out = nemotron("jobs", "show", "ffffffff").succeeds().out
    for words in (
        "full-1121-ffffffff  failed", f"sweep +{SWEEP}", "overrides +'a=b c'", "retry of +a-ended-1120-aaaaaaaa",
        "metrics +loss=0.25",
        "code +git dddddddddddd of /r, 2 files uncommitted and left out, 1 file untracked and left out",
        "container +c0ffee",
        "exit code +3", "time +1:01", "output model +/out", "log +/.*/logs/job.log", "command +nemotron x 'a=b c'",
    ):  # fmt: skip
        assert re.search(words, out), (words, out)
    shown = nemotron("jobs", "show", "full", "--json").succeeds().json
    assert (shown["metrics"], shown["state"], shown["over"]) == ({"loss": 0.25}, "failed", True)


def test_show_of_a_job_that_is_not_over(jobs, nemotron):
    """Why it waits is no cause of anything, and there is no exit code yet."""
    stored(jobs, record("waits-1121-eeeeeeee", ("planned", ("queued", "Resources"))))
    for name, words in (
        ("waits", r"\n  waits for +Resources\n"),
        ("c-running", r"^c-running-1120-cccccccc  running\n"),
    ):
        out = nemotron("jobs", "show", name).succeeds().out
        assert re.search(words, out), out
        assert not re.search(r"^  (exit code|cause)", out, re.MULTILINE), out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["a-ended"], 0), (["b-failed"], 3), (["a-ended", "b-failed", "d-lost"], 3),
        (["d-lost", "b-failed"], 1), ([SWEEP], 1),
        (["c-running", "--timeout", "0.05"], 124), (["b-failed", "e-unknown", "--timeout", "0.05s"], 124),
    ],
)  # fmt: skip
def test_wait(jobs, nemotron, words, code):
    outcome = nemotron("jobs", "wait", *words)
    assert outcome.code == code
    assert nemotron("jobs", "wait", *words, "--json").code == code
    if words == ["d-lost", "b-failed"]:
        assert "d-lost-1120-dddddddd: lost: nemotron was killed" in outcome.out
    if code == 124:
        assert "the time is up" in outcome.err


def test_rm_removes_what_it_names_and_nothing_else(project, jobs, nemotron):
    outside = project.write("precious/file", "keep")
    (jobs.folder("a-ended-1120-aaaaaaaa") / "link").symlink_to(outside.parent)
    (jobs.folder("a-ended-1120-aaaaaaaa") / "closed").mkdir()
    (jobs.folder("a-ended-1120-aaaaaaaa") / "closed" / "file").write_text("x")
    (jobs.folder("a-ended-1120-aaaaaaaa") / "closed").chmod(0o500)
    before = {p.name for p in jobs.root.iterdir()}
    out = nemotron("jobs", "rm", "a-ended", "--dry-run").succeeds().out
    assert out == "a-ended-1120-aaaaaaaa\n1 job would be removed\n"
    assert {p.name for p in jobs.root.iterdir()} == before
    assert nemotron("jobs", "rm", "a-ended", "d-lost").succeeds().out.endswith("2 jobs removed\n")
    assert {p.name for p in jobs.root.iterdir()} == before - {"a-ended-1120-aaaaaaaa", "d-lost-1120-dddddddd"}
    assert outside.read_text() == "keep"


def test_rm_of_a_job_that_is_a_link_removes_the_link(project, jobs, nemotron):
    elsewhere = project.home / "moved"
    jobs.folder("b-failed-1120-bbbbbbbb").rename(elsewhere)
    jobs.folder("b-failed-1120-bbbbbbbb").symlink_to(elsewhere)
    nemotron("jobs", "rm", "b-failed").succeeds()
    assert not jobs.exists("b-failed-1120-bbbbbbbb")
    assert (elsewhere / "record.json").is_file()


def test_rm_by_conditions(jobs, nemotron):
    outcome = nemotron("jobs", "rm", "--recipe", "nano3", "--older-than", "10m", "--json").succeeds()
    assert outcome.json["removed"] == ["b-failed-1120-bbbbbbbb", "a-ended-1120-aaaaaaaa"]
    assert "1 job not over" in outcome.err
    assert nemotron("jobs", "rm", SWEEP).succeeds().out.endswith("3 jobs removed\n")
    assert nemotron("jobs", "rm", "--state", "succeeded").succeeds().out == "0 jobs removed\n"


def test_rm_by_force(jobs, nemotron):
    assert nemotron("jobs", "rm", "--force", "e-unknown", "z-damaged").succeeds().out.endswith("2 jobs removed\n")


def test_colour_only_on_a_terminal(jobs, nemotron, monkeypatch):
    assert "\x1b" not in nemotron("jobs", "list").out + nemotron("jobs", "show", "a-ended").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31mfailed 3\x1b[0m" in nemotron("jobs", "list").out


def test_what_drives_a_terminal_is_not_passed_on(jobs, nemotron):
    stored(jobs, record("evil", FAILED, cause="\x1b]0;title\x07\nsecond line", exit_code=1, recipe="\x1b[2J"))
    for words in (("list",), ("show", "evil"), ("wait", "evil")):
        assert "\x1b" not in nemotron("jobs", *words).out


def test_completion(jobs, project):
    from nemotron.cli.click import Context, TyperCommand
    from nemotron.cli.commands.jobs import complete

    shown = Context(TyperCommand("show"), info_name="show")
    assert [item.value for item in complete.jobs(shown, None, "a-")] == ["a-ended-1120-aaaaaaaa"]
    assert SWEEP in [item.value for item in complete.jobs_and_groups(shown, None, "mine-train")]
    assert complete.states(None, None, "f") == ["failed"]


SLEEPER = """
import pathlib, sys, time
print("started", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.02)
print("done")
"""


@pytest.mark.slow
def test_a_job_that_really_runs(project, nemotron, nemotron_process):
    """Detached, waited for, followed, run again, cancelled, removed."""
    project.recipe("mine/train", header=HEADER, body=SLEEPER)
    project.write("env.toml", '[here]\nexecutor = "local"\n')
    nemotron_process("mine", "train", "--batch", "here").succeeds()
    name = nemotron("jobs", "list", "--json").json[0]["name"]
    assert nemotron("jobs", "wait", name, "--timeout", "0.2").code == 124
    nemotron("jobs", "rm", name).refuses(f"nemotron jobs cancel {name}")
    cancelled = nemotron_process("jobs", "cancel", name, "--grace", "60").succeeds()
    assert f"{name}: cancelled" in cancelled.out
    assert f"{name}: already cancelled" in nemotron("jobs", "cancel", name).succeeds().out
    assert nemotron("jobs", "wait", name).code not in (0, 124)
    project.write("go", "")
    nemotron_process("jobs", "retry", name).succeeds()
    again = nemotron("jobs", "show", "last", "--json").json
    assert again["retry_of"] == name
    outcome = nemotron_process("jobs", "logs", "-f", again["name"]).succeeds()
    assert re.search(r"started\n.*done\n", outcome.out)
    assert "succeeded, exit code 0" in outcome.err
    assert nemotron("jobs", "wait", again["name"]).code == 0
    assert json.loads(nemotron("jobs", "rm", name, again["name"], "--json").out)["removed"] == [name, again["name"]]
    assert nemotron("jobs", "list").out == "No jobs yet.\n"

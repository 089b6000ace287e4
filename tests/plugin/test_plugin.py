"""A backend of another distribution has all that a built-in one has: in profiles, help and completion, on two nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint

import pytest
from behaviour.bench import Bench
from behaviour.test_artifacts import Chain
from support import REPOSITORY

from nemo_runspec import backends
from nemo_runspec.errors import UserError

TWO = """
    print(f"node {os.environ['NODE_RANK']} of {os.environ['NNODES']}", flush=True)
    sys.exit(int(sys.argv[1 + int(os.environ["NODE_RANK"])]))
"""


def test_a_backend_is_written_on_a_few_pages():
    files = (REPOSITORY / "tests/plugin/src").rglob("*.py")
    lines = [line for file in files for line in file.read_text("utf-8").splitlines() if line.strip()]
    assert len(lines) <= 150


def test_its_profile_keys_are_known(bench: Bench):
    assert "niceness" in bench.nemotron("env", "fields", "spool").succeeds().out
    schema = bench.nemotron("env", "schema").succeeds().json["$defs"]["profile"]["properties"]
    assert "niceness" in schema
    assert "spool" in schema["executor"]["enum"]
    bench.profile(nicenes=3)
    script = bench.script("print(1)")
    bench.nemotron("run", script, "--run", "target").refuses("unknown key 'nicenes'", "did you mean 'niceness'?")
    bench.profile(niceness="very")
    bench.nemotron("run", script, "--run", "target").refuses("niceness must be")


def test_its_keys_are_listed_by_topic(bench: Bench):
    found = {key["name"]: key["topic"] for key in bench.nemotron("env", "fields", "spool", "--json").succeeds().json}
    assert (found["niceness"], found["prologue"]) == ("How much, and how long", "Spool")
    lines = bench.nemotron("env", "fields").succeeds().out.splitlines()
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert titles[-3:] == ["Image builds", "Spool", "Other"]


def test_its_shell_text_is_run_as_it_stands(bench: Bench):
    """`<in >out` would be a placeholder anywhere else. Each node has a folder of its own: both run it at once."""
    bench.profile(prologue="mkdir n$SPOOL_NODE; cd n$SPOOL_NODE; echo b >in; echo a >>in; sort <in >out; cd ..")
    done = bench.attached(
        "print(open('{NEMOTRON_JOB_DIR}/n{NEMOTRON_NODE_RANK}/out'.format(**os.environ)).read().split())"
    )
    assert done.out.count("['a', 'b']") == 2, done.out + done.err


def test_its_platform_keeps_secrets(bench: Bench):
    """They are looked for nowhere here, come from its own place, and are in no log."""
    place = bench.project.write("of-the-spool", "s3cr3t-of-the-spool")
    bench.profile(secret_vars={"HF_TOKEN": str(place)})
    done = bench.attached("value = os.environ['HF_TOKEN']; print(len(value), value)")
    assert done.code == 0, done.err
    assert "19 " in done.out
    assert "s3cr3t" not in done.out
    bench.profile(secret_vars={"HF_TOKEN": str(place)}, env_vars={"HF_TOKEN": "x"})
    bench.nemotron("run", "./job.py", "--run", "target").refuses("secret_vars: the platform is to set HF_TOKEN")


def test_keys_of_others_are_ignored_and_said(bench: Bench):
    bench.profile(partition="batch")
    done = bench.nemotron("run", bench.script("print(1)"), "--run", "target", "--dry-run").succeeds()
    assert "partition is a key of slurm; executor 'spool' ignores it" in done.out + done.err
    bench.project.write("env.toml", '[t]\nexecutor = "local"\nniceness = 3\n')
    done = bench.nemotron("run", "./job.py", "--run", "t", "--dry-run").succeeds()
    assert "niceness is a key of spool; executor 'local' ignores it" in done.out + done.err


def test_a_misspelled_executor_is_told_its_name(bench: Bench):
    bench.project.write("env.toml", '[t]\nexecutor = "spol"\n')
    bench.nemotron("run", bench.script("print(1)"), "--run", "t").refuses("unknown executor 'spol'", "'spool'")


@pytest.mark.parametrize(
    ("words", "offered"),
    [("run ./job.py --run ta", "target"), ("env fields spool nic", "niceness"), ("sp", "spool"), ("spool jo", "jobs")],
)
def test_a_shell_completes_its_names(bench: Bench, words: str, offered: str):
    line = f"nemotron {words}"
    asked = {"_NEMOTRON_COMPLETE": "complete_bash", "_NEMOTRON_LINE": line}
    assert [row.split("\t")[1] for row in bench.nemotron(**asked).out.splitlines()] == [offered]


def test_its_listings_are_commands(bench: Bench):
    assert "Spool: its jobs." in bench.nemotron("--help").succeeds().out
    name = bench.detached("print(1)")
    assert bench.wait(name) == 0
    assert bench.nemotron("spool", "jobs", "--json").succeeds().json == [{"job": name, "nodes": 2}]


def test_its_jobs_are_shown_with_their_directory(bench: Bench):
    """Which its handle calls otherwise than those of other backends do."""
    name = bench.detached("print(1)")
    assert bench.wait(name) == 0
    shown = bench.nemotron("jobs", "show", name).succeeds().out
    assert re.search(rf"job id +{name} on .* in /\S+/{name}$", shown, re.MULTILINE), shown
    assert bench.show(name)["job_dir"].endswith(f"/{name}")


def test_the_doctor_looks_at_it(bench: Bench):
    assert "can be written" in bench.nemotron("doctor", "target").succeeds().out


@pytest.mark.parametrize(("codes", "expected"), [("00", 0), ("07", 7), ("30", 3)])
def test_two_nodes(bench: Bench, codes: str, expected: int):
    done = bench.attached(TWO, *codes)
    assert done.code == expected, done.err
    assert {line for line in done.out.splitlines() if line} == {f"[rank{n}] node {n} of 2" for n in range(2)}
    assert bench.show(bench.newest())["state"] == ("failed" if expected else "succeeded")


@pytest.mark.slow
def test_what_two_nodes_have_made_is_not_the_newest_where_only_the_first_has_ended_well(bench: Bench):
    chain = Chain(bench)
    good = chain.made()
    words = ("++run.env.env_vars.CODE='3'", "++run.env.env_vars.FAILS='1'")
    assert bench.nemotron("mine", "make", "--run", "target", *words).code == 3
    assert chain.latest.readlink().name == good


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """`installed("module:name")`: an entry point `odd` that leads there."""

    def install(value: str) -> None:
        point = EntryPoint("odd", value, backends.ENTRY_POINT_GROUP)
        monkeypatch.setattr(backends, "_plugins", lambda: {"odd": point})
        backends.get_backend.cache_clear()

    yield install
    backends.get_backend.cache_clear()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module:BACKEND", "No module named 'no_such_module'"),
        ("os:sep", "os:sep is no nemo_runspec.backends.base.Backend"),
        ("nemo_runspec.backends.local:BACKEND", "its backend calls itself 'local'"),
    ],
)
def test_one_that_cannot_be_used_is_named_and_stops_no_other(installed: Callable[[str], None], value: str, why: str):
    installed(value)
    with pytest.raises(UserError, match=f"executor 'odd' cannot be used: .*{re.escape(why)}"):
        backends.get_backend("odd")
    assert backends.find_backend("odd") is None
    assert backends.listed_executors() == backends.LISTED
    assert backends.get_backend("slurm").name == "slurm"


def test_the_help_names_the_built_in_backends_that_list_something():
    listing = {name for name in backends.BUILTIN if backends.get_backend(name).listings}
    assert listing == set(backends.LISTED)

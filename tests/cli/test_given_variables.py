"""`--env` and `--env-file`: over the profile's variables, shown with where they stand, secrets by name alone."""

from __future__ import annotations

import json
import re

import pytest

SECRET = "hT7kQ2zX9vB4nM1c"
BODY = """\
import json, os
names = ("A", "B", "C", "NCCL_DEBUG", "TEAM_API_KEY")
print("SEEN " + json.dumps({name: os.environ.get(name) for name in names}))
"""
FILE = f"""\
# of the team
A=of the file
export B="quoted # kept"

C='${{HOME}} and $HOME'
TEAM_API_KEY={SECRET}
"""


@pytest.fixture
def toy(project):
    project.recipe("toy", body=BODY)
    project.write(
        "env.toml", project.env_file.read_text() + '\n[laptop.env_vars]\nA = "profile"\nNCCL_DEBUG = "INFO"\n'
    )
    project.write("team.env", FILE)
    return project


def seen(outcome):
    return json.loads(re.search(r"SEEN (.*)", outcome.succeeds().out)[1])


def test_the_last_one_wins_and_the_rest_of_the_profile_stays(toy, nemotron_process):
    words = ("--run", "laptop", "--env-file", "team.env", "--env", "A=typed=twice", "--env", "FROM_HERE")
    assert seen(nemotron_process("toy", *words, FROM_HERE="x")) == {
        "A": "typed=twice",
        "B": "quoted # kept",
        "C": "${HOME} and $HOME",
        "NCCL_DEBUG": "INFO",
        "TEAM_API_KEY": "******",  # in the log; the job itself has it
    }


def test_without_a_profile_too(toy, nemotron_process):
    assert seen(nemotron_process("toy", "--env", "A=1"))["A"] == "1"


def test_the_dry_run_names_where_each_stands_and_no_secret(toy, nemotron):
    words = (
        "toy",
        "--run",
        "laptop",
        "--env-file",
        "team.env",
        "--env",
        f"MY_TOKEN={SECRET}x",
        "--env",
        "A=typed",
        "-d",
    )
    page = nemotron(*words).succeeds().out
    assert re.search(r"run\.env\.env_vars\.A += typed +command line", page)
    assert re.search(r"run\.env\.env_vars\.B += .*team\.env:3", page)
    assert re.search(r"run\.env\.env_vars\.NCCL_DEBUG += INFO +env\.toml:\d+ \[laptop\]", page)
    for more in ((), ("--full",), ("--script",), ("--json",)):
        assert SECRET not in nemotron(*words, *more).succeeds().out
    secrets = {each["name"]: each for each in nemotron(*words, "--json").json["plan"]["secrets"]}
    assert secrets["TEAM_API_KEY"]["origin"] == "env-file"
    assert secrets["TEAM_API_KEY"]["detail"].endswith("/team.env")
    assert secrets["MY_TOKEN"]["origin"] == "override"


def test_no_secret_is_written_down_and_a_retry_reads_the_file_again(toy, nemotron_process):
    nemotron_process("toy", "--run", "laptop", "--env-file", "team.env").succeeds()
    kept = [path for path in toy.state.rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
    nemotron_process("jobs", "retry", "last").succeeds()
    toy.write("team.env", "A=1\n")
    nemotron_process("jobs", "retry", "last").refuses("TEAM_API_KEY is no longer where it was found", "team.env")


def test_a_sweep_gives_them_to_every_run(toy, nemotron_process):
    nemotron_process("toy", "--run", "laptop", "-m", "value=1,2", "--env", "A=swept").succeeds()
    logs = [path.read_text() for path in toy.state.rglob("logs/job.log")]
    assert len(logs) == 2
    assert all('"A": "swept"' in log for log in logs)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--env", "A B=1"), ["'A B' is not the name of an environment variable"]),
        (("--env", "GONE_FROM_HERE"), ["there is no such variable here", "--env GONE_FROM_HERE=VALUE"]),
        (("--env", "NEMOTRON_JOB_NAME=x"), ["NEMOTRON_JOB_NAME cannot be set for a job"]),
        (("--env-file", "gone.env"), ["cannot read gone.env: No such file"]),
        (("--env-file", "bad.env"), ["this line is no NAME=VALUE", "bad.env:2"]),
        (("--env-file", "."), ["cannot read .: Is a directory"]),
    ],
)
def test_what_is_no_variable_is_refused(toy, nemotron, words, said):
    toy.write("bad.env", f"A=1\n{SECRET}\n")
    outcome = nemotron("toy", *words)
    outcome.refuses(*said)
    assert SECRET not in outcome.err

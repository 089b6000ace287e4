"""What a job is given: arguments, environment, a place to start in, startup commands."""

from __future__ import annotations

import hashlib
import shlex

import pytest

from behaviour.bench import Ended

ODD = (
    "two words", " lead and trail ", "", "'", '"', "it's \"so\"", "$HOME", "${HOME}", "$(id)", "`id`", "a\nb\n", "\n",
    "tab\there", "back\\slash\\", "*", "?", "~", "!x", "#", ";", "&", "|", ">", "{a,b}", "--", "-x", "--run", "a=b",
    "ünï ☃ 漢字", "\u202e", "%s", "$$", "\x01",
)  # fmt: skip


def test_arguments(bench):
    """Arguments arrive unchanged: spaces, quotes, `$`, newlines, unicode, empty ones."""
    ended = bench.attached("tell(argv=sys.argv[1:])", *ODD)
    assert (ended.code, ended.told["argv"]) == (0, list(ODD))


def test_variables(bench):
    """Variables of the profile arrive unchanged, whatever their value holds."""
    values = {f"ODD_{number}": value for number, value in enumerate(ODD)}
    bench.profile(env_vars=values)
    ended = bench.attached("tell(**{name: os.environ.get(name) for name in sys.argv[1:]})", *values)
    assert (ended.code, ended.told) == (0, values)


def test_large_environment(bench):
    """A megabyte of environment arrives whole."""
    values = {f"LARGE_{number}": f"{number} ü" * 25_000 for number in range(10)}
    bench.profile(env_vars=values)
    ended = bench.attached(
        "import hashlib\ntell(**{n: hashlib.sha256(os.environ[n].encode()).hexdigest() for n in sys.argv[1:]})", *values
    )
    assert ended.code == 0, ended.err
    assert ended.told == {name: hashlib.sha256(value.encode()).hexdigest() for name, value in values.items()}


HEADER = """\
# /// script
# dependencies = []
# [tool.runspec]
# schema = "1"
# [tool.runspec.run]
# launch = "direct"
# [tool.runspec.env]
# FROM_HEADER = "header"
# FROM_BOTH = "header"
# ///
import json, os
print("TOLD " + json.dumps(dict(os.environ)), flush=True)
"""


def test_recipes_variables(bench):
    """A recipe's own variables arrive, and the profile's win over them."""
    bench.profile(env_vars={"FROM_BOTH": "profile"})
    bench.project.write("job.py", HEADER)
    done = bench.nemotron("run", "./job.py", "--run", "target").succeeds()
    for told in Ended(done.code, done.out, done.err, bench.rig.nodes).told_by_node:
        assert (told["FROM_HEADER"], told["FROM_BOTH"]) == ("header", "profile")


def test_world_size_counts_nodes(bench):
    """`WORLD_SIZE` counts nodes where a profile says so, and the GPUs of each are told beside it."""
    bench.profile(world_size="nodes", nproc_per_node=2)
    nodes = str(bench.rig.nodes)
    for told in bench.attached("tell(**os.environ)").told_by_node:
        assert (told["WORLD_SIZE"], told["NUM_GPU_PER_NODE"], told["NNODES"]) == (nodes, "0", nodes)


def test_working_directory(bench):
    """A job starts in the directory that the profile names, whatever characters its name has."""
    folder = f"{bench.project.state}/run/it's a $x ü"
    bench.profile(workdir=folder, startup_commands=[f"mkdir -p {shlex.quote(folder)}"])
    ended = bench.attached("tell(cwd=os.getcwd())")
    assert (ended.code, ended.told["cwd"]) == (0, folder), ended.err


def test_startup_commands(bench):
    """Startup commands run in the command's own shell: what they export, source and define is there."""
    bench.profile(
        startup_commands=["export FIRST='a  b'", 'SECOND="$FIRST c"', "export SECOND; cd /", "ulimit -c 0; umask 027"]
    )
    ended = bench.attached("tell(first=os.environ['FIRST'], second=os.environ['SECOND'], umask=os.umask(0))")
    assert (ended.code, ended.told) == (0, {"first": "a  b", "second": "a  b c", "umask": 0o027})


@pytest.mark.slow
def test_failing_startup_command(bench):
    """A failing startup command fails the job at once, with its exit code, and is named."""
    for command, code in (("exit 5", 5), ("false", 1), ("false | cat", 1), ("no-such-program", 127)):
        bench.profile(startup_commands=["true", command, "echo not reached"])
        ended = bench.attached("tell(reached=True)")
        assert (ended.code, "TOLD" in ended.out, "not reached" in ended.out) == (code, False, False)
        assert "startup command 2 of 3" in ended.err, ended.err

"""`-v`, `-q`, `version` and `help`."""

from __future__ import annotations

import pytest

from nemo_runspec.console import note
from nemotron import __version__
from nemotron.cli.builtin import COMMANDS


def test_the_version(nemotron):
    assert nemotron("version").succeeds().out == f"nemotron {__version__}\n" == nemotron("--version").succeeds().out
    long = nemotron("version", "-v").succeeds().out
    assert long.startswith(f"nemotron {__version__}\n  python ")
    assert "nemo-run" in long
    assert nemotron("version", "--json").succeeds().json["nemotron"] == __version__


@pytest.mark.parametrize("words", ["", "jobs", "jobs list", "nano3 pretrain", "env show", "lepton"])
def test_help_is_what_help_shows(nemotron, words):
    assert nemotron("help", *words.split()).succeeds().out == nemotron(*words.split(), "--help").succeeds().out


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "help"])
def test_every_command_can_be_quiet_and_verbose(nemotron, name):
    out = nemotron(name, "--help").succeeds().out
    assert "--verbose" in out
    assert "--quiet" in out


def test_quiet_says_results_and_errors_only(project, nemotron):
    project.write("train.py", "print('out of the job')")
    loud, quiet = nemotron("run", "./train.py"), nemotron("run", "./train.py", "-q")
    assert loud.succeeds().err
    assert (quiet.succeeds().err, "out of the job" in quiet.out) == ("", True)
    assert "no profile" in nemotron("-q", "run", "./train.py", "--run", "gone").err
    assert nemotron("run", "./train.py").err, "the next command is as it was"


def test_who_called_it_from_python_is_not_left_quiet(nemotron, capsys):
    nemotron("-q", "list").succeeds()
    note("heard")
    assert capsys.readouterr().err == "heard\n"


def test_where_an_option_stands_does_not_matter(nemotron):
    assert nemotron("-q", "list").succeeds().out == nemotron("list", "-q").succeeds().out


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--help", "env --help", "nano3 pretrain --help", "list"])
def test_no_colour_is_none(terminal, words):
    """Neither bold nor dim, and no code that is shown as text."""
    for environment in ({"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"TERM": "dumb"}):
        seen = terminal(*words.split(), rows=500, **{"NO_COLOR": "", **environment})[1]
        assert "\x1b" not in seen
        assert "u001b" not in seen
    assert "\x1b[" in terminal(*words.split(), rows=500, NO_COLOR="")[1]

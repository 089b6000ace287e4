"""Shell completion, in the shells themselves where they are installed, and through what each of them asks.

A shell is driven on a terminal: a line is typed, TAB is pressed, and what stands on the line then is what it offers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from job_records import record, stored
from typer._completion_shared import get_completion_script

from nemo_runspec.records import JobStore
from nemotron.cli.shells import register

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def complete(project):
    """What a shell would be offered after these words; the last one is incomplete."""

    def ask(*words, shell="zsh", breaks=""):
        asked = {
            "_NEMOTRON_COMPLETE": f"complete_{shell}",
            "_NEMOTRON_LINE": " ".join(["nemotron", *words]),
            "_NEMOTRON_BREAKS": breaks,
        }
        done = subprocess.run(
            [sys.executable, "-m", "nemotron"],
            cwd=project.folder,
            env=project.environment(**asked),
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return [tuple(row.split("\t")) for row in done.stdout.splitlines() if row]

    return ask


def words(rows):
    return {row[1] for row in rows}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell(complete, shell):
    assert words(complete("nano3", "pretrain", "--run", "my", shell=shell)) == {"my-cluster"}


@pytest.mark.slow
def test_commands_and_recipes(complete):
    assert {"list", "env", "nano3", "help"} <= words(complete(""))
    assert {"data", "pretrain"} <= words(complete("nano3", ""))
    assert words(complete("nano3", "data", "prep", "p")) == {"pretrain"}
    assert {"list", "cancel"} <= words(complete("help", "jobs", ""))


@pytest.mark.parametrize("option", ["--run", "-r", "--batch", "-b"])
def test_profiles(complete, option):
    found = words(complete("nano3", "pretrain", option, ""))
    assert {"base-slurm", "my-cluster", "laptop", "box", "runai", "lepton"} <= found
    assert "wandb" not in found


def test_an_option_with_its_value_in_one_word(complete):
    """bash begins a word behind the `=`; for the others it is one word."""
    line = ("nano3", "pretrain", "--run=my")
    assert complete(*line, shell="bash", breaks=" =:") == [("plain", "my-cluster", "")]
    assert complete(*line, shell="fish") == [("plain", "--run=my-cluster", "")]


def test_configs(complete, project):
    assert words(complete("nano3", "pretrain", "-c", "")) == {"default", "small", "tiny"}
    assert words(complete("nano3", "pretrain", "--config", "t")) == {"tiny"}
    project.write("mine/own.yaml", "a: 1\n")
    assert complete("nano3", "pretrain", "-c", "mine/") == [("file", "mine/own.yaml", "")]


def test_options(complete):
    assert {"--run", "--dry-run", "--config", "--verbose"} <= words(complete("nano3", "pretrain", "--"))


@pytest.mark.slow
def test_override_keys(complete):
    found = complete("nano3", "pretrain", "-c", "tiny", "train.")
    assert ("open", "train.train_iters=", "") in found, "no space behind it"
    assert all(word.startswith("train.") for word in words(found))
    slurm = words(complete("nano3", "pretrain", "--run", "my-cluster", "run.env.p"))
    assert {"run.env.partition=", "run.env.packager="} <= slurm
    assert "run.env.partition=" not in words(complete("nano3", "pretrain", "run.env.p"))
    assert words(complete("run", "./x.py", "run.env.pack")) >= {"run.env.packager="}
    assert complete("nano3", "pretrain", "train.train_iters=") == []


@pytest.mark.slow
def test_values_of_profile_keys(complete):
    line = ("nano3", "pretrain", "--run", "my-cluster")
    assert words(complete(*line, "run.env.packager=")) == {
        f"run.env.packager={kind}" for kind in ("git", "pattern", "hybrid", "none")
    }
    assert words(complete(*line, "run.env.packager=", shell="bash", breaks=" =")) == {
        "git",
        "pattern",
        "hybrid",
        "none",
    }
    assert words(complete(*line, "run.env.resume=t", shell="bash", breaks=" =")) == {"true"}
    assert words(complete(*line, "run.env.stall_action=r")) == {"run.env.stall_action=requeue"}
    assert complete(*line, "run.env.partition=") == []


def test_keys_of_a_profile_that_is_changed(complete):
    assert words(complete("env", "set", "my-cluster", "part")) == {"partition="}
    assert words(complete("env", "set", "my-cluster", "node_g")) == set()
    assert words(complete("env", "set", "lepton", "node_g")) == {"node_group="}
    assert words(complete("env", "set", "my-cluster", "dirty=")) == {"dirty=warn", "dirty=refuse", "dirty=include"}
    assert words(complete("env", "add", "new", "--extends", "lepton", "can_be")) == {"can_be_preempted="}
    assert words(complete("env", "set", "wandb", "en")) == {"entity="}
    assert words(complete("env", "unset", "my-cluster", "run_")) == {"run_partition"}
    assert words(complete("env", "rm", "my-")) == {"my-cluster"}


def test_files(complete, project):
    for name in ("train.py", "notes.txt", "src/other.py", ".hidden/x.py", "a plan.json"):
        project.write(name, "")
    assert words(complete("run", "")) == {"train.py", "src/"}
    assert words(complete("run", "./t")) == {"./train.py"}
    assert words(complete("run", "src/")) == {"src/other.py"}
    assert words(complete("run", f"{project.folder}/tr")) == {f"{project.folder}/train.py"}
    assert words(complete("apply", "")) == {"a plan.json", "src/"}
    assert words(complete("env", "check", "env")) == {"env.toml"}
    assert complete("run", "gone/") == []


@pytest.fixture
def jobs(project):
    store = JobStore(project.state / "jobs")
    far = {"executor": "slurm", "profile": "my-cluster", "handle": {"host": "h", "id": "7"}}
    live = ("planned", "starting", "running")
    stored(store, record("a-far-1120-aaaaaaaa", live, age=400, **far))
    stored(store, record("b-over-1120-bbbbbbbb", (*live, "succeeded"), age=300, exit_code=0))
    stored(store, record("c-failed-1120-cccccccc", (*live, ("failed", "why")), age=200, exit_code=1, group="s-1"))
    return store


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "offered"),
    [
        ("cancel", "a"), ("stop", "a"), ("wait", "a"), ("ssh", "a"), ("forward", "a"), ("events", "a"), ("rm", "bc"),
        ("retry", "bc"), ("logs", "abc"), ("show", "abc"), ("diagnose", "ac"), ("compare", "abc"),
    ],
)  # fmt: skip
def test_jobs_that_a_command_is_for(complete, jobs, verb, offered):
    found = words(complete("jobs", verb, ""))
    assert "last" in found
    assert {word[0] for word in found - {"last", "s-1"}} == set(offered)
    assert ("s-1" in found) is ("c" in offered and verb not in ("logs", "diagnose")), "a sweep stands for its jobs"


def test_a_job_that_stands_on_the_line_is_not_offered_again(complete, jobs):
    assert words(complete("jobs", "rm", "b-over-1120-bbbbbbbb", "b")) == set()
    assert complete("jobs", "show", "b") == [("plain", "b-over-1120-bbbbbbbb", "succeeded, nano3/pretrain")]


def test_executors_and_forms(complete):
    assert {"slurm", "docker", "stall_timeout"} <= words(complete("env", "fields", ""))
    assert words(complete("jobs", "list", "-o", "")) == {"wide", "yaml", "csv", "json"}
    assert words(complete("jobs", "cost", "--by", "re")) == {"recipe"}


def test_steps_and_profiles_elsewhere(complete, project):
    project.recipe("steps/sft/automodel", default="value: 1\nlong_name: 2\n")
    assert words(complete("steps", "run", "sft/a")) == {"sft/automodel"}
    assert words(complete("steps", "run", "sft/automodel", "long")) == {"long_name="}
    assert "my-cluster" in words(complete("env", "show", "my"))


def test_steps_of_a_pipe(complete, project):
    project.recipe("family/dig")
    header = '# /// script\n# [tool.runspec]\n# schema = "1"\n# kind = "pipe"\n# [tool.runspec.config]\n'
    project.write("recipes/family/all/pipe.py", f'{header}# dir = "./config"\n# default = "small"\n# ///\n')
    text = "name: x\nsteps:\n  - {step: family/dig, id: dig}\n  - {step: family/dig, id: {last}}\n"
    project.write("recipes/family/all/config/small.yaml", text.replace("{last}", "dug"))
    project.write("recipes/family/all/config/other.yaml", text.replace("{last}", "done"))
    project.write("recipes/family/all/config/broken.yaml", "steps: 1\n")
    assert words(complete("family", "all", "--from", "")) == {"dig", "dug"}
    assert words(complete("family", "all", "-c", "other", "--to", "do")) == {"done"}
    assert words(complete("family", "all", "-c", "broken", "--to", "d")) == set()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["x = [", "[a]\nextends = 'a'\n", "[a]\nexecutor = 'slrum'\n"])
def test_a_broken_env_file_offers_less_and_says_nothing(complete, project, text):
    project.write("env.toml", text)
    complete("nano3", "pretrain", "--run", "")
    complete("nano3", "pretrain", "--run", "a", "run.env.")
    complete("nano3", "pretrain", "--run", "a", "run.env.packager=")
    complete("nano3", "pretrain", "-c", "gone", "x")


@pytest.mark.slow
def test_a_broken_recipe_and_no_recipe(complete, project):
    project.recipe("mine/train", header="# /// script\n# [tool.runspec]\n# x = 1\n# ///\n")
    complete("mine", "train", "-c", "")
    complete("mine", "train", "a")
    complete("mine", "gone", "")


@pytest.fixture(params=SHELLS)
def shell(request, project):
    """`shell(line)`: the line after TAB, in a shell that has the script that --install-completion installs."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"no {request.param} here")
    register()
    names = {"prog_name": "nemotron", "complete_var": "_NEMOTRON_COMPLETE"}
    script = project.write("completion", get_completion_script(shell=request.param, **names))
    tools = project.folder / "bin"
    tools.mkdir()
    (tools / "nemotron").write_text(f'#!/bin/sh\nexec {sys.executable} -m nemotron "$@"\n')
    (tools / "nemotron").chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    return Shell(request.param, script, project.environment(PATH=path), project.folder)


class Shell:
    """A shell of one kind, asked without a terminal where it can be."""

    def __init__(self, name, script, environment, folder):
        self.name, self._script, self._environment, self._folder = name, script, environment, folder

    def offers(self, line, program=None):
        """The words that it would show, or complete with."""
        program = program or {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[self.name]
        done = subprocess.run(
            [self.name, *(["-f"] if self.name == "zsh" else []), "-c", program, "x", str(self._script), line]
            if self.name != "fish"
            else ["fish", "--no-config", "-c", program, str(self._script), line],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert not done.stderr.strip(), done.stderr
        return [row.split("\t")[0] for row in done.stdout.splitlines() if row]


_BASH = r"""
compopt() { :; }
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
_nemotron_completion "$(type -P nemotron)"
printf '%s\n' "${COMPREPLY[@]}"
"""
_ZSH = r"""
compadd() { local -a found; while [[ $1 != -a ]]; do shift; done; found=(${(P)2}); print -l -- $found; }
compdef() { :; }
source "$1"
words=(${(z)2}); [[ $2 = *' ' ]] && words+=('')
CURRENT=${#words}; PREFIX=${words[-1]}
_nemotron_completion
"""
_FISH = r"""
source $argv[1]
complete --do-complete $argv[2]
"""


@pytest.mark.slow
def test_in_the_shell_itself(shell, project, jobs):
    project.write("my train.py", "")
    project.write("train.py", "")
    assert shell.offers("nemotron nano3 pretrain --run my") == ["my-cluster"]
    assert shell.offers("nemotron jobs cancel a") == ["a-far-1120-aaaaaaaa"]
    assert sorted(shell.offers("nemotron nano3 pretrain run.env.packager_sub")) == [
        "run.env.packager_sub_packagers=", "run.env.packager_subpath=",
    ]  # fmt: skip
    value = shell.offers("nemotron nano3 pretrain run.env.packager=hy")
    assert value == (["hybrid"] if shell.name == "bash" else ["run.env.packager=hybrid"])
    assert {"train.py", "my train.py"} <= {word.replace("\\", "") for word in shell.offers("nemotron run ")}


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash"], indirect=True)
def test_bash_3_2_as_macos_has_it(shell, project):
    """It has no compopt: words that go on get no space behind them as all others bring theirs."""
    project.write("src/x.py", "")
    project.write("train.py", "")
    old = "enable -n compopt\n" + _BASH.replace("compopt() { :; }", "")
    assert shell.offers("nemotron nano3 pretrain --run my", old) == ["my-cluster "]
    assert shell.offers("nemotron nano3 pretrain run.env.packager_subpa", old) == ["run.env.packager_subpath="]
    assert {"train.py ", "src/"} <= set(shell.offers("nemotron run ", old))


def test_the_script_for_an_unknown_shell(nemotron_process):
    done = nemotron_process("--show-completion", "tcsh", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_a_pipeline(complete, project):
    """Steps, and the files of pipelines; of a step its configs; of a profile its keys and their values."""
    project.write("pipes/mine.yaml", "steps: []\n")
    project.write("top.yaml", "steps: []\n")
    assert {"data_prep/pretrain_prep", "sft/automodel", "top.yaml", "pipes/"} <= words(complete("pipe", ""))
    assert words(complete("pipe", "pipes/")) == {"pipes/mine.yaml"}
    assert words(complete("pipe", "./top")) == {"./top.yaml"}
    assert words(complete("pipe", "sft/automodel", "-c", "")) == {"default", "tiny"}
    assert words(complete("pipe", "sft/automodel@")) == {"sft/automodel@default", "sft/automodel@tiny"}
    on = ("pipe", "sft/automodel", "--run", "my-cluster")
    assert words(complete(*on, "run.env.tunnel=")) == {"run.env.tunnel=local", "run.env.tunnel=ssh"}
    assert words(complete("artifacts", "check", "to")) == {"top.yaml"}

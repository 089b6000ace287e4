"""What a profile says about signals, retries and resuming, as sbatch and the batch shell get it."""

from __future__ import annotations

import subprocess

import pytest

from nemo_runspec.backends.slurm.render import render, render_sbatch
from nemo_runspec.errors import UserError


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ("TERM@120", "B:TERM@120"),
        ("B:USR1@300", "B:USR1@300"),
        ("SIGUSR2", "B:USR2"),
        ("10@30", "B:USR1@30"),
        ("r:int@7", "RB:INT@7"),
        ("", None),
    ],
)
def test_a_signal_always_goes_to_the_batch_shell(make_plan, given, option):
    plan = make_plan("slurm", {"signal": given})
    assert plan.target.signal == option
    assert (f"#SBATCH --signal={option}\n" in render_sbatch(plan)) == (option is not None)


@pytest.mark.parametrize("signal", ["KILL@60", "9", "TERM@", "B:", "TERM@5 x", "X:TERM", "B:TERM@123456", "QUIT@60"])
def test_what_no_command_could_save_upon_is_refused(make_target, signal):
    with pytest.raises(UserError, match="is no signal to send"):
        make_target("slurm", {"signal": signal})


@pytest.mark.parametrize(
    ("env", "option"),
    [
        ({}, "B:TERM@120"),
        ({"time": "00:03:00"}, "B:TERM@60"),
        ({"time": 0}, "B:TERM@120"),
        ({"time": "CHANGE_ME"}, "B:TERM@120"),
        ({"signal": "USR1@600"}, "B:USR1@600"),
    ],
)
def test_with_resume_there_is_a_signal(make_target, env, option):
    assert make_target("slurm", {"resume": True, **env}).signal == option


def test_a_signal_that_comes_at_once_is_warned_of(make_target):
    assert make_target("slurm", {"signal": "TERM@600", "time": "00:10:00"}).warnings
    assert not make_target("slurm", {"signal": "TERM@599", "time": "00:10:00"}).warnings
    assert not make_target("slurm", {"signal": "TERM@600", "time": 0}).warnings


@pytest.mark.parametrize(
    ("env", "warned"),
    [
        ({"time": "00:02:00"}, True),
        ({"time": "00:03:00"}, False),
        ({"time": "00:06:00", "signal": "TERM@300"}, True),
        ({"time": "00:02:00", "resume": False}, False),
        ({"time": 0}, False),
        ({"time": "CHANGE_ME"}, False),
    ],
)
def test_a_time_limit_that_leaves_nothing_to_resume_is_warned_of(make_target, env, warned):
    warnings = make_target("slurm", {"resume": True, **env}).warnings
    assert [text for text in warnings if "little or no progress" in text] == list(warnings)
    assert bool(warnings) == warned


def test_a_job_may_run_once_more_for_every_retry_and_restart(make_target):
    env = {"retries": 2, "max_restarts": 3}
    assert make_target("slurm", env).runs() == 3
    assert make_target("slurm", {**env, "resume": True}).runs() == 6
    assert make_target("slurm", {"resume": True}).max_restarts == 10


def test_the_batch_shells_functions_come_before_the_profiles_own_lines(make_plan):
    env = {"setup_lines": "module load x", "remote_job_dir": "/lustre/run", "container_image": "img", "retries": 4}
    plan = make_plan("slurm", env)
    files = {file.name: file.text for file in render(plan).files}
    source = f"{{ set +vx; }} 2> /dev/null; . {plan.job_dir}/batch.sh; set -vx\n"
    assert f"\n{source}module load x\n" in files[f"{plan.name}_sbatch.sh"]
    assert files["batch.sh"].splitlines()[1:5] == [
        f"nemotron_root={plan.job_dir}", "nemotron_own=$nemotron_root", f"nemotron_script=scripts/{plan.name}.sh",
        "nemotron_needs=retries",
    ]  # fmt: skip
    assert '"retries": 4,' in files["batch.sh"]
    subprocess.run(["bash", "-n"], input=files["batch.sh"], text=True, check=True)

"""From a Slurm profile to a target."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.slurm.fields import SlurmTarget, option
from nemo_runspec.backends.slurm.render import render, render_sbatch
from nemo_runspec.backends.slurm.values import HOME, directory_of, hours, shell_word
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.field import keys_of
from nemo_runspec.planning.codec import plan_from_json, plan_to_json

PARTITIONS = {
    "partition": "batch",
    "run_partition": "interactive",
    "batch_partition": "backfill",
    "build_partition": "cpu",
}


@pytest.mark.parametrize(
    ("mode", "kind", "without", "chosen"),
    [
        ("run", "", (), "interactive"),
        ("batch", "", (), "backfill"),
        ("run", "build", (), "cpu"),
        ("run", "", ("run_partition",), "batch"),
        ("batch", "", ("batch_partition",), "batch"),
        ("batch", "build", ("build_partition",), "backfill"),
        ("run", "", ("run_partition", "partition"), None),
    ],
)
def test_partition_for_the_mode(make_target, mode, kind, without, chosen):
    env = {key: value for key, value in PARTITIONS.items() if key not in without}
    assert make_target("slurm", env, mode=mode, kind=kind).partition == chosen


@pytest.mark.parametrize(
    ("given", "mode", "kind", "chosen"),
    [
        ({"partition"}, "run", "", "batch"),
        ({"partition"}, "batch", "build", "batch"),
        ({"partition", "run_partition"}, "run", "", "interactive"),
        ({"batch_partition"}, "run", "", "interactive"),
        ({"batch_partition"}, "batch", "build", "backfill"),
        (set(), "run", "", "interactive"),
    ],
)
def test_a_partition_of_the_command_line_wins(make_target, given, mode, kind, chosen):
    assert make_target("slurm", PARTITIONS, mode=mode, kind=kind, given=given).partition == chosen


def test_a_time_of_the_command_line_wins(make_target):
    env = {"time": "08:00:00", "build_time": "02:00:00"}
    assert make_target("slurm", env, kind="build", given={"time"}).time == "08:00:00"
    with pytest.raises(UserError, match=r"^time is not"):
        make_target("slurm", {**env, "time": "x"}, kind="build", given={"time"})


@pytest.mark.parametrize(
    ("env", "gpus"),
    [
        ({"nodes": 2, "gpus_per_node": 8}, 16),
        ({"nodes": 2, "additional_parameters": {"gpus": 12}}, 12),
        ({"nodes": 2, "additional_parameters": {"gpus": "h100:8,a100:4"}}, 12),
        ({"nodes": 2, "gpus_per_node": 8, "additional_parameters": {"gpus": "4"}}, 16),
        ({"additional_parameters": {"gpus": "many"}}, None),
        ({"additional_parameters": {"gpus": True}}, None),
        ({"additional_parameters": {"--gpus-per-socket": 2}}, None),
        ({"additional_parameters": {"tres_per_task": "gres/gpu:2"}}, None),
        ({"gpus_per_node": 1, "additional_parameters": {"gpu_bind": "none", "nice": 5}}, 1),
        ({"gres": "gpu:h100:4", "nodes": 2}, 8),
        ({}, 0),
    ],
)
def test_gpus_in_any_of_slurms_ways(make_plan, env, gpus):
    plan = make_plan("slurm", env)
    assert plan.target.gpus(plan.resources) == gpus


def test_builds_have_their_own_time_and_cache(make_target):
    env = {"time": "08:00:00", "build_time": "02:00:00", "build_cache_dir": "/lustre/cache"}
    build, train = make_target("slurm", env, kind="build"), make_target("slurm", env)
    assert (build.time, build.build_cache_dir) == ("02:00:00", "/lustre/cache")
    assert (train.time, train.build_cache_dir) == ("08:00:00", None)


@pytest.mark.parametrize(
    ("time", "expected"),
    [("90", 1.5), ("30:00", 0.5), ("04:00:00", 4), ("1-12", 36), ("1-12:30", 36.5), ("2-00:00:36", 48.01), (30, 0.5)],
)
def test_time_limits(make_target, time, expected):
    assert hours(make_target("slurm", {"time": time}).time) == pytest.approx(expected)


@pytest.mark.parametrize("time", ["0", 0, "00:00:00", "0-0", "UNLIMITED"])
def test_no_time_limit(make_target, time):
    assert hours(make_target("slurm", {"time": time}).time) is None


@pytest.mark.parametrize("time", ["CHANGE_ME", "YOUR-TIME-LIMIT", "<HH:MM:SS>"])
def test_a_time_still_to_be_written_lets_the_plan_be_seen(make_target, make_plan, time):
    target = make_target("slurm", {"time": time})
    assert (target.time, target.unfilled) == (time, (f"time is still a placeholder: {time!r}",))
    assert f"--time={shlex.quote(time)}" in render_sbatch(make_plan("slurm", {"time": time}))
    assert make_target("slurm", {"build_time": time}, kind="build").unfilled[0].startswith("build_time is")
    assert make_target("slurm", {"build_time": time}).unfilled == ()


@pytest.mark.slow
def test_a_login_node_still_to_be_named_lets_the_plan_be_seen(make_plan):
    from nemo_runspec.backends.slurm.executor import make_executor

    plan = make_plan("slurm", {"tunnel": "ssh", "user": "me"})
    assert plan.target.unfilled[0].startswith("host is not set")
    shown = render(plan)
    assert shown.command[:2] == ("ssh", "me@@HOST@")
    assert [hole.split(":")[0] for hole in shown.holes] == ["@HOME@", "@HOST@"]
    with pytest.raises(UserError, match="host is not set"):
        make_executor(plan)


@pytest.mark.parametrize("time", ["4h", "04:00:00:00", "1-", "-5", "four", "1-2-3", "04.5"])
def test_what_is_no_time_limit(make_target, time):
    with pytest.raises(UserError, match="time is not a time limit Slurm takes") as caught:
        make_target("slurm", {"time": time})
    assert "04:00:00" in caught.value.remedy


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        (False, None),
        (True, True),
        ("user", "user"),
        ("topo", "topo"),
        ("false", None),
        ("True", True),
        ("", None),
    ],
)
def test_exclusive_is_never_false(make_target, given, kept):
    assert make_target("slurm", {"exclusive": given}).exclusive == kept


def test_directory_for_jobs(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path / "own"))
    ssh = {"tunnel": "ssh", "host": "login"}
    run_dir = get_backend("slurm").run_dir
    assert run_dir({}) == f"{tmp_path}/own/run"
    assert run_dir(ssh) == "@HOME@/.nemotron/run"
    assert run_dir({"remote_job_dir": "~/runs"}) == f"{tmp_path}/runs"
    assert run_dir({"remote_job_dir": "~/runs", **ssh}) == "@HOME@/runs"
    assert run_dir({"remote_job_dir": "/lustre/me/run/", **ssh}) == "/lustre/me/run"
    monkeypatch.delenv("NEMOTRON_HOME")
    assert run_dir({}) == f"{tmp_path}/.nemotron/run"


@pytest.mark.parametrize(
    ("env", "wrong"),
    [
        ({"remote_job_dir": "runs"}, "must be absolute"),
        ({"remote_job_dir": "/lustre/$USER"}, "may hold letters"),
        ({"remote_job_dir": "/lustre/my runs"}, "may hold letters"),
        ({"remote_job_dir": "/pvc/nemo_run"}, "NeMo-Run replaces"),
        ({"tunnel": "ssh", "host": "-oProxyCommand=id"}, "^host may not begin with -"),
        ({"tunnel": "ssh", "host": "a b"}, "^host may not"),
        ({"tunnel": "ssh", "host": "login", "user": "-l"}, "^user may not"),
        ({"exclusive": "always"}, "^exclusive = 'always' is no word of Slurm's"),
        ({"host": "login"}, "no tunnel"),
        ({"job_name_prefix": "a b"}, "job_name_prefix"),
        ({"dependencies": ["last"]}, "not a Slurm job id"),
        ({"container_env": ["A B"]}, "not the name of a variable"),
        ({"additional_parameters": {"nodes": 2}}, "key of its own"),
        ({"additional_parameters": {"job-name": "x"}}, "key of its own"),
        ({"additional_parameters": {"mail type": "x"}}, "^additional_parameters: 'mail type' is not the name"),
        ({"additional_parameters": {"-p": "x"}}, "is not the name of an sbatch option"),
        ({"additional_parameters": {"J": "x"}}, "is not the name of an sbatch option"),
        ({"additional_parameters": {"x=1 --wrap": "x"}}, "is not the name of an sbatch option"),
        ({"additional_parameters": {"mail_type": "A", "--mail-type": "B"}}, "are the same option"),
        ({"comment": "a\nb"}, "line break"),
        ({"srun_args": ["--a\nrm x"]}, "line break"),
        ({"mounts": [{"path": "/data"}]}, r"mounts\[0\] is not a mount of executor 'slurm'"),
        ({"mounts": ["/data"]}, "is not a mount"),
        ({"mounts": ["/data:relative"]}, "is not a mount"),
        ({"mounts": ["/a:/b:ro:x"]}, "is not a mount"),
        ({"mounts": ["/a:/data", "/b:/data/"]}, "^mounts: '/a:/data' and '/b:/data/' have the same target /data"),
        ({"mounts": ["/a:/data", "/a:/data:ro"]}, "have the same target /data"),
        ({"mounts": ["/a:/nemo_run"]}, r"^mounts\[0\] takes the place of the job's own directory"),
        ({"mounts": ["/a:/r"], "container_image": "i", "remote_job_dir": "/r"}, "have the same target /r"),
        ({"mounts": ["data:/data"]}, "begins with"),
        ({"mounts": ["~/data:/data"]}, "begins with"),
    ],
)
def test_what_slurm_would_misread(make_target, env, wrong):
    with pytest.raises(UserError, match=wrong):
        make_target("slurm", env)


def test_the_same_directory_is_fine_in_a_container(make_target):
    env = {"remote_job_dir": "/pvc/nemo_run", "container_image": "img"}
    assert make_target("slurm", env).remote_job_dir == "/pvc/nemo_run"


def test_all_problems_at_once(make_target):
    with pytest.raises(Problems) as caught:
        make_target("slurm", {"host": "login", "time": "4h", "mounts": [{}]})
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/data:/data", "/data:/data"),
        ("nvcr.io#nvidia/nemo:25.04", "nvcr.io#nvidia/nemo:25.04"),
        ("$HOME/a b:/c", '"$HOME/a b:/c"'),
        ("/a;rm -r x:/c", '"/a;rm -r x:/c"'),
        ('/a$(id)`id`":/c', '"/a\\$(id)\\`id\\`\\":/c"'),
        ("/$nemo_run/a b:/c", '/$nemo_run"/a b:/c"'),
        ("#image", '"#image"'),
        ("/a{b,c}:/x", '"/a{b,c}:/x"'),
        ("${HOME}/x:/$1", '"${HOME}/x:/\\$1"'),
        ("~/nemo.sqsh", "$HOME/nemo.sqsh"),
    ],
)
def test_one_word_of_the_batch_script(text, word):
    assert shell_word(text) == word


@pytest.mark.slow
@given(st.text(st.characters(codec="utf-8", exclude_characters="$\0\r\n"), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_shell_reads_the_word_as_it_was_written(text):
    read = subprocess.run(["bash", "-c", f"printf %s {shell_word(text)}x"], capture_output=True, check=True).stdout
    assert read.decode() == f"{text}x" or text.startswith("~/")


def test_the_same_mount_twice_is_one(make_target):
    env = {"mounts": ["/data:/data", "/data:/data"], "container_image": "i", "remote_job_dir": "/data/run"}
    assert make_target("slurm", env).mounts == ("/data:/data",)


def test_what_is_odd_is_said(make_target):
    assert make_target("slurm", {"mounts": ["/data:/data"]}).warnings == (
        "mounts are not used: the job has no container_image",
    )
    assert make_target("slurm", {"cpus_per_gpu": 4}).warnings == ("cpus_per_gpu has no effect without gpus_per_task",)


def test_a_plan_survives_being_saved(make_plan):
    env = {"exclusive": "user", "additional_parameters": {"mail_type": "END"}, "container_image": "i", "retries": 2}
    plan = make_plan("slurm", env)
    assert plan_from_json(plan_to_json(plan), "plan.json") == plan


def test_executor(make_plan, monkeypatch, tmp_path):
    from nemo_runspec.backends.slurm.executor import make_executor

    monkeypatch.setenv("HOME", str(tmp_path))
    local = make_executor(make_plan("slurm", {}))
    assert (type(local.tunnel).__name__, local.tunnel.job_dir) == ("LocalTunnel", "")
    assert local.account is None
    env = {"tunnel": "ssh", "host": "login", "user": "me", "port": 22, "identity": "~/.ssh/key", "remote_job_dir": "/r"}
    tunnel = make_executor(make_plan("slurm", env)).tunnel
    assert (tunnel.host, tunnel.user, tunnel.port, tunnel.job_dir) == ("login", "me", 22, "/r")
    assert tunnel.identity == str(Path(tmp_path, ".ssh/key"))


def test_variables_only_on_request_and_quoted(make_plan):
    from nemo_runspec.backends.slurm.executor import make_executor

    plan = make_plan("slurm", {}, variables={"TITLE": "a b; echo x"})
    assert make_executor(plan).env_vars == {}
    assert make_executor(plan, environment=True).env_vars == {"TITLE": "'a b; echo x'"}
    with pytest.raises(UserError, match="NeMo-Run would export the variable lower as LOWER"):
        make_executor(make_plan("slurm", {}, variables={"lower": "x"}), environment=True)


HUGE = (
    "9" * 5000,
    "9" * 400,
    "9" * 20,
    "-1",
    "²",
    "١٢",
    "1e999",
    "nan",
    "0-" + "9" * 30,
    "TERM@" + "9" * 9,
    "0x10",
    ":",
    "%",
    "-",
)
NUMBERED = (
    "time",
    "build_time",
    "signal",
    "array",
    "mem",
    "mem_per_cpu",
    "mem_per_gpu",
    "gres",
    "stall_timeout",
    "exclude",
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(NUMBERED),
        st.sampled_from(HUGE) | st.text(st.sampled_from("0123456789:-@%,BRTERMgpu²"), min_size=1, max_size=12),
        max_size=4,
    ),
    st.dictionaries(st.sampled_from(["gpus", "nice", "gpus_per_socket"]), st.sampled_from(HUGE), max_size=1),
    st.sampled_from(["", "build"]),
)
def test_odd_numbers_are_said_to_be_odd(make_plan, profile, more, kind):
    """A plan that can be rendered, its cost told, or a `UserError` that is short enough to be read."""
    try:
        plan = make_plan("slurm", {**profile, "additional_parameters": more}, kind=kind)
    except (UserError, Problems) as error:
        assert len(str(error)) < 4000
        return
    assert render_sbatch(plan)
    plan.target.gpus(plan.resources)
    assert plan.target.runs() < 10**9


@pytest.mark.parametrize(
    "array", ["0-4000001", "9" * 30, "0-" + "9" * 5000, "5-1", "a", "1-2-3", "0-7%", "0-7%x", "²", ","]
)
def test_an_array_that_slurm_does_not_take(make_target, array):
    with pytest.raises(UserError, match="array is not one that Slurm takes") as caught:
        make_target("slurm", {"array": array})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("array", ["0", "0-7", "0-7%2", "1,3,5", "0-15:4", "1-3,9-12:2%4", 5])
def test_an_array_that_slurm_takes(make_target, array):
    assert make_target("slurm", {"array": array}).array == str(array)


@pytest.mark.parametrize("option", ["wait", "test-only", "wrap", "help"])
def test_options_that_are_none_of_a_jobs(make_target, option):
    with pytest.raises(UserError, match="is not for a job"):
        make_target("slurm", {"additional_parameters": {option: True}})


@pytest.mark.parametrize(
    "asked", [{"retries": 2}, {"resume": True}, {"stall_timeout": "30m", "stall_action": "requeue"}]
)
def test_a_job_that_may_not_be_requeued_is_not_to_be(make_target, asked):
    env = {**asked, "additional_parameters": {"no-requeue": True}}
    with pytest.raises(UserError, match="no_requeue forbids what"):
        make_target("slurm", env)
    assert make_target("slurm", {**env, "additional_parameters": {"no_requeue": False}})


@dataclass(frozen=True, kw_only=True)
class WithReservation(SlurmTarget):
    """Slurm with one more key: an option that NeMo-Run 0.11.1 has no argument for."""

    reservation: str | None = option("str", "Reservation the job runs in.", nemo_run=None)


def test_a_new_option_of_sbatch_is_one_line(make_plan):
    plan = make_plan("slurm", {"constraint": "a", "additional_parameters": {"nice": 5}})
    assert "reservation" in {field.name for field in keys_of(WithReservation) if field.one_line}
    values = {field.name: getattr(plan.target, field.name) for field in fields(plan.target)}
    text = render_sbatch(replace(plan, target=WithReservation(**values, reservation="mine of may")))
    added = "#SBATCH --reservation='mine of may'\n"
    assert added in text
    assert text.replace(added, "") == render_sbatch(plan)


def test_a_dot_in_a_directory_of_a_cluster_is_left_out_as_nemo_run_does_it():
    named = ("/lustre/me/.", "/lustre/./me//", "~/.", "~", "~//run", "")
    found = [directory_of({"tunnel": "ssh", "remote_job_dir": name}, "remote_job_dir") for name in named]
    assert found == ["/lustre/me", "/lustre/me", HOME, HOME, f"{HOME}/run", ""]

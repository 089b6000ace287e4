"""From a Slurm profile to a target."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.slurm.arguments import shell_word
from nemo_runspec.backends.slurm.time import hours
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.plan.codec import plan_from_json, plan_to_json

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


@pytest.mark.parametrize("time", ["4h", "04:00:00:00", "1-", "-5", "four", "1-2-3", "04.5"])
def test_what_is_no_time_limit(make_target, time):
    with pytest.raises(UserError, match="time is not a time limit Slurm takes") as caught:
        make_target("slurm", {"time": time})
    assert "04:00:00" in caught.value.remedy


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, None), (False, None), (True, True), ("user", "user"), ("false", None), ("True", True), ("", None)],
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
        ({"tunnel": "ssh"}, "needs host"),
        ({"host": "login"}, "no tunnel"),
        ({"job_name_prefix": "a b"}, "job_name_prefix"),
        ({"dependencies": ["last"]}, "not a Slurm job id"),
        ({"container_env": ["A B"]}, "not the name of a variable"),
        ({"additional_parameters": {"nodes": 2}}, "key of its own"),
        ({"additional_parameters": {"job-name": "x"}}, "key of its own"),
        ({"comment": "a\nb"}, "line break"),
        ({"srun_args": ["--a\nrm x"]}, "line break"),
        ({"mounts": [{"path": "/data"}]}, r"mounts\[0\] is not a mount of executor 'slurm'"),
        ({"mounts": ["/data"]}, "is not a mount"),
        ({"mounts": ["/data:relative"]}, "is not a mount"),
        ({"mounts": ["/a:/b:ro:x"]}, "is not a mount"),
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
        make_target("slurm", {"tunnel": "ssh", "time": "4h", "mounts": [{}]})
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


@given(st.text(st.characters(codec="utf-8", exclude_characters="$\0\r\n"), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_shell_reads_the_word_as_it_was_written(text):
    read = subprocess.run(["bash", "-c", f"printf %s {shell_word(text)}x"], capture_output=True, check=True).stdout
    assert read.decode() == f"{text}x" or text.startswith("~/")


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

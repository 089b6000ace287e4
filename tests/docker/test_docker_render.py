"""The request that makes a container: against docker-py, and against what NeMo-Run itself hands to docker-py."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import pytest
from docker_plans import make_target
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.docker.arguments import REFUSED, body_of
from nemo_runspec.backends.docker.render import DIFFERENCES, plain_body, request_body, request_query, run_arguments
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Package

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)
SIZES = st.builds("{}{}".format, st.integers(1, 999), st.sampled_from(["", "b", "k", "m", "g", "mb", "G"]))
PROFILES = st.fixed_dictionaries(
    {},
    optional={
        "num_gpus": st.integers(-1, 8),
        "runtime": NAMES,
        "shm_size": SIZES,
        "ipc_mode": st.sampled_from(["host", "private", "shareable"]),
        "ulimits": st.lists(
            st.builds("{}={}{}".format, st.sampled_from(["memlock", "nofile"]), st.integers(-1, 9), st.just(":10")),
            max_size=2,
        ),
        "network": NAMES,
        "privileged": st.booleans(),
        "healthcheck": st.fixed_dictionaries({"test": st.text(min_size=1)}, optional={"retries": st.integers(1, 9)}),
        "mounts": st.lists(NAMES.map(lambda name: f"{name}:/mnt/{name}:ro"), max_size=3, unique=True),
        "user": st.sampled_from(["root", "0:0", f"{os.getuid()}:77"]),
    },
)


@given(env=PROFILES, packaged=st.booleans())
def test_the_request_is_what_docker_py_makes_of_the_same_arguments(make_plan, env, packaged):
    plan = replace(make_plan(**env), package=Package("git") if packaged else Package())
    arguments = run_arguments(plan)
    assert plain_body(arguments) == body_of(arguments)
    assert json.loads(json.dumps(request_body(plan))) == request_body(plan)


def nemo_run_body(plan: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What NeMo-Run's `DockerContainer.run` sends for the same executor, caught where docker-py would send it."""
    import docker
    from nemo_run.core.execution import docker as theirs

    executor = get_backend("docker").make_executor(plan)
    executor.experiment_id, executor.job_dir = plan.name, plan.job_dir
    executor.volumes = [*executor.volumes, f"{plan.job_dir}:/nemo_run"]  # their scheduler's, torchx_backend/docker.py
    client = docker.DockerClient(base_url="tcp://127.0.0.1:1", version="1.44")
    sent: list[dict[str, Any]] = []

    def catch(config: dict[str, Any], name: str | None = None, platform: str | None = None) -> Any:
        sent.append({**config, "name": name})
        raise InterruptedError

    monkeypatch.setattr(client.api, "create_container_from_config", catch)
    monkeypatch.setattr(theirs, "ensure_network", lambda **_: None)
    container = theirs.DockerContainer(name=plan.name, command=["true"], executor=executor, extra_env={})
    with pytest.raises(InterruptedError):
        container.run(client, plan.name)
    return sent[0]


def flat(body: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys; what is unset, empty or False is left out, as the engine reads it all the same."""
    found: dict[str, Any] = {}
    for key, value in body.items():
        if key == "HostConfig":
            found |= flat(value, "HostConfig.")
        elif value not in (None, False, "", [], {}):
            found[prefix + key] = flat(value) if isinstance(value, dict) else value
    return found


FULL = {
    "num_gpus": -1,
    "runtime": "nvidia",
    "shm_size": "1.5g",
    "ipc_mode": "host",
    "ulimits": ["memlock=-1", "nofile=512:1024"],
    "network": "mine",
    "privileged": True,
    "healthcheck": {"test": "true", "interval": 1000000000, "retries": 3},
    "mounts": ["data:/data", "/tmp:/mnt/tmp:ro"],
    "user": "root",
    "additional_kwargs": {"mem_limit": "50m", "cap_add": ["SYS_PTRACE"], "tmpfs": {"/scratch": "size=1m"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("env", [{}, FULL, {**FULL, "additional_kwargs": {}}], ids=["plain", "additional", "full"])
def test_all_but_the_named_differences_is_as_nemo_run_has_it(make_plan, monkeypatch, env):
    plan = make_plan(**env)
    ours, theirs = flat(request_body(plan)), flat(nemo_run_body(plan, monkeypatch))
    assert theirs.pop("name") == request_query(plan)["name"]
    different = {key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)}
    assert different <= set(DIFFERENCES)
    assert {"Entrypoint", "Cmd", "HostConfig.AutoRemove", "HostConfig.Init"} <= different, "the table has no dead rows"
    assert ours["Labels"].items() >= theirs["Labels"].items()


def test_with_a_code_package_the_working_directory_is_nemo_runs_too(make_plan, monkeypatch):
    plan = replace(make_plan(), package=Package("git"))
    assert request_body(plan)["WorkingDir"] == "/nemo_run/code"


def test_the_dry_run_shows_the_request(make_plan):
    plan = make_plan(additional_kwargs={"platform": "linux/amd64"})
    rendering = get_backend("docker").make_rendering(plan)
    script, request = rendering.files
    assert script.name == "job.sh"
    assert request.title == f"POST /containers/create?name={plan.name}&platform=linux%2Famd64"
    assert json.loads(request.text) == request_body(plan)


def test_the_renderer_does_not_import_docker_py(make_plan):
    import subprocess
    import sys

    code = (
        "import sys\nfrom nemo_runspec.backends.docker import render, worker, fields\n"
        "sys.exit('docker' in sys.modules or 'requests' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# additional_kwargs

JOB = ["bash", "-c", ". /nemo_run/job.sh 2>&1"]


def body(make_plan, **arguments: Any) -> dict[str, Any]:
    return request_body(make_plan(user="root", additional_kwargs=arguments))


def test_an_entry_point_of_the_profiles_gets_the_job_script(make_plan):
    made = body(make_plan, entrypoint="/opt/start.sh --quiet")
    assert (made["Entrypoint"], made["Cmd"]) == (["/opt/start.sh", "--quiet"], JOB)
    made = body(make_plan, entrypoint="")
    assert (made["Entrypoint"], made["Cmd"]) == (JOB, [])


def test_environment_labels_and_volumes_are_joined_with_ours(make_plan):
    plan = make_plan(
        user=f"{os.getuid()}:5" if os.getuid() else "root",
        additional_kwargs={"environment": ["A=b=c", "B"], "labels": {"l": "1"}, "volumes": {"/x": {"bind": "/y"}}},
    )
    made = request_body(plan)
    assert {"A=b=c", "B="} <= set(made["Env"])
    assert made["Labels"].items() > {"l": "1", "nemotron/job": plan.name}.items()
    assert made["HostConfig"]["Binds"][-2:] == [f"{plan.job_dir}:/nemo_run", "/x:/y:rw"]


def test_the_others_win_over_ours(make_plan):
    made = body(make_plan, user="77", working_dir="/w", init=False, network_mode="host", hostname="h", shm_size="1m")
    assert (made["User"], made["WorkingDir"], made["Hostname"]) == ("77", "/w", "h")
    host = made["HostConfig"]
    assert (host["Init"], host["NetworkMode"], host["ShmSize"]) == (False, "host", 2**20)


EVERY = {
    "blkio_weight": 10, "cap_drop": ["ALL"], "cpu_shares": 5, "cpuset_cpus": "0", "devices": ["/dev/null:/dev/x:r"],
    "device_requests": [{"count": 1, "capabilities": [["gpu"]]}], "dns": ["1.1.1.1"], "domainname": "d",
    "extra_hosts": {"a": "1.2.3.4"}, "group_add": ["audio", 5], "log_config": {"type": "none"}, "mac_address": "02::1",
    "mem_limit": "1g", "mem_swappiness": 0, "mounts": [{"target": "/t", "source": "v"}], "nano_cpus": 10**9,
    "networking_config": {"n": {}}, "oom_kill_disable": True, "pid_mode": "host", "pids_limit": 9,
    "ports": {"80/tcp": 8080}, "read_only": True, "security_opt": ["seccomp=unconfined"], "stop_signal": "INT",
    "stdin_open": True, "sysctls": {"net.core.somaxconn": 9}, "tmpfs": {"/s": ""}, "tty": True, "userns_mode": "host",
    "ulimits": [{"name": "core", "soft": 0}], "volumes_from": ["c"], "cgroupns": "host", "storage_opt": {"size": "1G"},
}  # fmt: skip


@pytest.mark.parametrize("key", EVERY)
def test_every_argument_changes_the_request(make_plan, key):
    assert body(make_plan, **{key: EVERY[key]}) != body(make_plan, init=True)


@pytest.mark.parametrize("key", REFUSED)
def test_what_nemotron_needs_for_itself_is_refused(make_plan, key):
    with pytest.raises(UserError, match=f"additional_kwargs.{key} cannot be set"):
        body(make_plan, **{key: True})


def test_an_unknown_argument_and_a_wrong_value_are_refused(make_plan):
    with pytest.raises(UserError, match="memory_limit: docker-py has no such argument") as caught:
        body(make_plan, memory_limit="1g")
    assert "mem_limit" in (caught.value.remedy or "")
    with pytest.raises(UserError, match=r"additional_kwargs: .*cpu_shares"):
        body(make_plan, cpu_shares="many")


# the target


def test_a_mount_that_is_not_there_is_said(tmp_path, state):
    gone = tmp_path / "gone"
    target = make_target({"mounts": [f"{gone}:/data", "volume:/v", f"{tmp_path}:/here"]})
    assert target.unfilled == (f"mounts: {gone} of '{gone}:/data' is not there",)
    assert make_target({"mounts": [f"{gone}:/data"]}, provided=frozenset({str(gone)})).unfilled == ()


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"shm_size": "lots"}, "shm_size: 'lots' is no size"),
        ({"healthcheck": {"tests": "x"}}, "healthcheck has no"),
        ({"user": "two words"}, "user: 'two words' is no user"),
        ({"ulimits": ["memlock"]}, "ulimits"),
    ],
)
def test_wrong_values_are_refused(state, env, words):
    with pytest.raises(UserError, match=words):
        make_target(env)


def test_the_user_is_the_caller(state, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    monkeypatch.setattr(os, "getgid", lambda: 99)
    target = make_target({})
    assert (target.user, target.login, target.home) == ("4321:99", "user4321", str(state / "run" / "home"))
    with pytest.raises(UserError, match="user: 1:1 is not you"):
        make_target({"user": "1:1"})
    assert make_target({"user": "root"}).home == make_target({"user": "app"}).home == ""


@pytest.mark.parametrize("network", ["bad name/", "-x", "a:b", "container:", "a\nb", "/"])
def test_what_no_network_can_be_called_is_refused(network):
    with pytest.raises(UserError, match="network") as caught:
        make_target({"network": network})
    assert "control character" in str(caught.value) or "is no name of a Docker network" in str(caught.value)


@pytest.mark.parametrize("network", ["host", "none", "my_net.2-x", "container:theirs", "0a1b2c"])
def test_names_of_networks_are_taken(network):
    assert make_target({"network": network}).network == network

"""Every argument of NeMo-Run's executors has a profile key or a reason, and every key reaches its argument."""

from __future__ import annotations

import dataclasses

import pytest

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.nemorun import import_nemo_run, make_packager
from nemo_runspec.errors import UserError
from nemo_runspec.field import TYPES, problem_with
from nemo_runspec.plans.model import Package
from nemo_runspec.profiles.common import COMMON
from nemo_runspec.profiles.fieldset import fields_of

EXECUTORS = {
    "slurm": "SlurmExecutor",
    "docker": "DockerExecutor",
    "dgxcloud": "DGXCloudExecutor",
    "lepton": "LeptonExecutor",
}
PVC = {"claimName": "my-pvc", "path": "/pvc", "readOnly": False}
MOUNT = {"path": "/data", "mount_path": "/data", "from": "node-nfs:v"}
REQUIRED = {
    "dgxcloud": {"pvc_nemo_run_dir": "/pvc/run", "pvcs": [PVC]},
    "lepton": {"nemo_run_dir": "/data/run"},
}

EXCLUDED: dict[str, dict[str, str]] = {
    "local": {
        "env_vars": "the job script exports them",
        "packager": "NeMo-Run ignores it here; nemotron's own jobs run from the unpacked copy",
        "launcher": "the job script holds the launcher's command line",
        "retries": "NeMo-Run ignores it here",
        "experiment_id": "NeMo-Run's experiments set it",
        "job_dir": "NeMo-Run's experiments set it",
    },
    "slurm": {
        "env_vars": "the job script exports them: NeMo-Run writes all names in capitals and quotes no value",
        "launcher": "the job script holds the launcher's command line",
        "torchrun_nproc_per_node": "the job script's own torchrun line carries nproc_per_node",
        "experiment_id": "NeMo-Run's experiments set it",
        "job_dir": "NeMo-Run's experiments set it; a plan's job has its directory from remote_job_dir",
        "job_details": "set from the job's name",
        "heterogeneous": "for several tasks in one job; a plan is one task",
        "het_group_indices": "as heterogeneous",
        "wait_time_for_group_job": "as heterogeneous",
        "monitor_group_job": "as heterogeneous",
        "monitor_group_job_wait_time": "as heterogeneous",
        "ray_template": "the job script starts Ray",
        "poll_estimated_start_time": "a thread that prints in the middle of other output; always off",
    },
    "docker": {
        "env_vars": "the job script exports them",
        "launcher": "the job script holds the launcher's command line",
        "retries": "NeMo-Run asks for a restart policy and for removal at exit, which Docker refuses together",
        "experiment_id": "NeMo-Run's experiments set it",
        "job_dir": "NeMo-Run's experiments set it",
    },
    "dgxcloud": {
        "env_vars": "the job script exports them: NeMo-Run writes all names in capitals and quotes no value",
        "launcher": "the job script holds the launcher's command line",
        "experiment_id": "NeMo-Run's experiments set it",
        "job_dir": "NeMo-Run's experiments set it",
    },
    "lepton": {
        "env_vars": "the job script exports them",
        "launcher": "the job script holds the launcher's command line",
        "retries": "NeMo-Run does not hand it to Lepton; nemotron submits an evicted job again itself",
        "experiment_id": "NeMo-Run's experiments set it",
        "job_dir": "NeMo-Run's experiments set it",
    },
}
"""Arguments of NeMo-Run's executors that no profile key fills, and why."""

# executor → key → (what a profile says, what the executor gets)
VALUES = {
    "slurm": {
        "account": ("acct", "acct"), "partition": ("p", "p"), "run_partition": ("p", "p"),
        "batch_partition": ("p", None), "time": ("01:00:00", "01:00:00"), "qos": ("q", "q"),
        "job_name_prefix": ("x.", "x."), "retries": (3, 3), "dependency_type": ("afterany", "afterany"),
        "dependencies": (["12"], ["slurm_tunnel://nemo_run/12/job/0"]), "nodes": (4, 4), "gpus_per_node": (8, 8),
        "additional_parameters": ({"mail-type": "END", "hold": True, "x": False}, {"mail_type": "END", "hold": True}),
        "nproc_per_node": (8, 8), "cpus_per_task": (2, 2), "cpus_per_gpu": (2, 2), "gpus_per_task": (2, 2),
        "mem": (0, "0"), "mem_per_gpu": ("1G", "1G"), "mem_per_cpu": ("1G", "1G"), "exclusive": (True, True),
        "gres": ("gpu:8", "gpu:8"), "constraint": ("a", "a"), "exclude": ("n1", "n1"), "segment": (4, 4),
        "network": ("n", "n"), "array": (3, "3"), "signal": ("TERM", "B:TERM"), "comment": ("a b", "a b"),
        "open_mode": ("truncate", "truncate"), "container_image": ("img", "img"), "container_env": (["A"], ["A"]),
        "mounts": (["/data:/data:ro"], []), "srun_args": (["--mpi=pmix"], ["--wait=0", "--mpi=pmix"]),
        "setup_lines": ("a\nb", "a\nb"), "memory_measure": (True, True),
    },
    "docker": {
        "container_image": ("img", "img"), "nproc_per_node": (2, 2), "gpus_per_node": (4, 4), "num_gpus": (-1, -1),
        "mounts": (["/data:/data:ro", "cache:/cache"], ["/data:/data:ro", "cache:/cache"]),
        "runtime": ("nvidia", "nvidia"), "shm_size": ("16g", "16g"), "ipc_mode": ("host", "host"),
        "ulimits": (["memlock=-1", "stack:1:2"], ["memlock:-1", "stack:1:2"]), "network": ("host", "host"),
        "privileged": (True, True), "healthcheck": ({"retries": 1}, {"retries": 1}),
        "additional_kwargs": ({"entrypoint": ""}, {"entrypoint": ""}),
    },
    "dgxcloud": {
        "base_url": ("https://x/api/v1",) * 2, "kube_apiserver_url": ("https://k",) * 2, "client_id": ("id",) * 2,
        "client_secret": ("hidden", "from-the-vault"), "project_name": ("p", "p"), "container_image": ("img", "img"),
        "pvc_nemo_run_dir": ("/pvc/other", "/pvc/other"), "pvcs": ([PVC], [PVC]), "nodes": (2, 2),
        "gpus_per_node": (8, 8), "nproc_per_node": (4, 4), "distributed_framework": ("MPI", "MPI"),
        "custom_spec": ({"schedulerName": "s"}, {"schedulerName": "s"}), "launched_from_cluster": (True, True),
        "retries": (1, 1), "max_args_chars": (5000, 5000),
    },
    "lepton": {
        "container_image": ("img", "img"), "nemo_run_dir": ("/data/other", "/data/other"), "nodes": (2, 2),
        "gpus_per_node": (8, 8), "nproc_per_node": (4, 4), "resource_shape": ("gpu.h100.8",) * 2,
        "node_group": ("g", "g"), "node_reservation": ("r", "r"), "shared_memory_size": (1024, 1024),
        "mounts": ([MOUNT], [MOUNT]), "secret_vars": ({"A": "a"}, {"A": "a"}), "image_pull_secrets": (["s"], ["s"]),
        "pre_launch_commands": (["a"], ["a"]), "can_be_preempted": (True, True), "can_preempt": (True, True),
        "queue_priority": ("mid-4000",) * 2, "head_resource_shape": ("cpu.small",) * 2, "ray_version": ("2.50",) * 2,
        "custom_spec": ({"a": 1}, {"a": 1}), "launched_from_cluster": (True, True),
    },
}  # fmt: skip


def build(make_plan, executor, env, launch="direct", **more):
    plan = make_plan(executor, {**REQUIRED.get(executor, {}), **env}, launch=launch, **more)
    return get_backend(executor).make_executor(plan, {"client_secret": "from-the-vault"})


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXCLUDED)
def test_every_argument_has_a_key_or_a_reason(executor):
    cls = getattr(import_nemo_run(), {**EXECUTORS, "local": "LocalExecutor"}[executor])
    arguments = {f.name for f in dataclasses.fields(cls) if f.init}
    filled = {f.nemo_run for f in get_backend(executor).fields if f.nemo_run}
    excluded = set(EXCLUDED[executor])
    assert filled <= arguments
    assert excluded <= arguments
    assert not filled & excluded
    assert arguments - filled - excluded == set()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_key_of_an_argument_is_tried_below(executor):
    keys = {f.name for f in get_backend(executor).fields if f.nemo_run} - {"packager", "tunnel"}
    assert keys == set(VALUES[executor])


@pytest.mark.parametrize(("executor", "key"), [(e, key) for e, keys in VALUES.items() for key in keys])
def test_a_key_reaches_its_argument(make_plan, executor, key):
    given, expected = VALUES[executor][key]
    field = fields_of(executor).fields[key]
    assert problem_with(field, given) is None
    value = getattr(build(make_plan, executor, {key: given}), field.nemo_run)
    if executor == "docker" and key == "mounts":
        value = value[:-1]  # the last is the directory for jobs
    if executor == "slurm" and key == "setup_lines":
        value = value.partition("\n")[2]  # the first is ours
    assert value == expected


def test_slurm_mounts_reach_a_container(make_plan):
    env = {"container_image": "img", "mounts": ["/data:/data:ro"], "remote_job_dir": "/data/run"}
    assert build(make_plan, "slurm", env).container_mounts == ["/data:/data:ro"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_executor_survives_nemo_runs_cloning(make_plan, executor):
    env = {key: given for key, (given, _) in VALUES[executor].items()}
    made = build(make_plan, executor, env)
    assert made.clone() == made or executor == "slurm"
    assert made.launcher is None
    assert made.env_vars == {}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_declarations_are_sound(executor):
    fields = get_backend(executor).fields
    names = [spelling for f in (*COMMON, *fields) for spelling in (f.name, *f.aliases)]
    common = {f.name for f in COMMON}
    own = [f for f in fields if f.name not in common]
    assert len({f.name for f in fields}) == len(fields)
    assert len(names) - len({n for n in names}) == sum(1 + len(f.aliases) for f in fields if f.name in common)
    for field in (*COMMON, *own):
        assert field.type in TYPES
        assert problem_with(field, field.default) is None
        assert field.help.endswith(".")


def test_legacy_and_other_spellings():
    assert fields_of("dgxcloud").canonical("app_id") == "client_id"
    assert fields_of("dgxcloud").canonical("app_secret") == "client_secret"
    assert fields_of("lepton").canonical("nprocs_per_node") == "nproc_per_node"
    assert fields_of("slurm").canonical("container") == "container_image"
    assert fields_of("dgxcloud").fields["client_secret"].secret


def test_no_plan_holds_the_client_secret(make_plan):
    plan = make_plan("dgxcloud", {**REQUIRED["dgxcloud"], "client_secret": "hidden"})
    assert "hidden" not in repr(plan.target)
    with pytest.raises(UserError, match="needs client_secret"):
        get_backend("dgxcloud").make_executor(plan)


@pytest.mark.parametrize(
    ("executor", "env", "wrong"),
    [
        ("docker", {"mounts": [{"path": "/data"}]}, "mounts"),
        ("docker", {"mounts": ["$UNSET_VARIABLE_1/x:/x"]}, "UNSET_VARIABLE_1, which is not set"),
        ("docker", {"nodes": 2}, "^nodes = 2: executor 'docker' runs on one node"),
        ("docker", {"num_gpus": -2}, "^num_gpus = -2"),
        ("docker", {"mounts": ["/a:/data", "/b:/data/"]}, "^mounts: .* have the same target /data"),
        ("docker", {"mounts": ["/a:/nemo_run"]}, "takes the place of the job's own directory"),
        ("lepton", {"secret_vars": {"A-B": "x"}}, "^secret_vars: 'A-B'"),
        ("docker", {"ulimits": ["memlock"]}, "ulimits"),
        ("lepton", {"mounts": ["/data:/data"]}, r"mounts\[0\] is not a mount of executor 'lepton'"),
        ("lepton", {"mounts": [{"path": "/data"}]}, "absolute mount_path"),
        ("lepton", {"mounts": [{"path": "/data", "mount_path": "/data", "form": "x"}]}, "unknown key 'form'"),
        ("dgxcloud", {"pvcs": [{"path": "/pvc"}]}, "needs claimName"),
    ],
)
def test_wrong_shapes_are_named_with_an_example(make_target, executor, env, wrong):
    with pytest.raises(UserError, match=wrong) as caught:
        make_target(executor, env)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("env", "gpus"),
    [
        ({"gpus_per_node": 2}, 2), ({"gpus_per_node": 2, "num_gpus": 4}, 4), ({"num_gpus": -1}, None),
        ({"gpus_per_node": 2, "num_gpus": 0}, 0), ({}, 0), ({"additional_kwargs": {"device_requests": []}}, None),
    ],
)  # fmt: skip
def test_gpus_that_docker_gives(make_plan, env, gpus):
    plan = make_plan("docker", {**REQUIRED.get("docker", {}), **env})
    assert plan.target.gpus(plan.resources) == gpus


def test_gpu_hours_are_not_negative():
    field = fields_of("slurm").fields["max_gpu_hours"]
    assert [problem_with(field, value) for value in (0, 1.5, None)] == [None] * 3
    for value in (-1, -0.5, float("nan"), True, "5"):
        assert "a number, 0 or more" in problem_with(field, value)


def test_docker_fills_in_paths_of_this_machine(make_target, monkeypatch, tmp_path):
    monkeypatch.setenv("DATA", "/big")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    mounts = ["$DATA/x:/x", "~/y:/y:ro", "./z:/z", "/$nemo_run/w:/w"]
    assert make_target("docker", {"mounts": mounts}).volumes[:-1] == (
        "/big/x:/x", f"{tmp_path}/y:/y:ro", f"{tmp_path}/z:/z", "/$nemo_run/w:/w",
    )  # fmt: skip


def test_lepton_says_what_is_odd(make_target):
    env = {"nemo_run_dir": "/nemo_run", "mounts": [{"path": "/data", "mount_path": "/data"}]}
    assert [text.split(":")[0] for text in make_target("lepton", env).warnings] == [
        "mounts[0] names no volume", "nemo_run_dir '/nemo_run' is on none of mounts",
    ]  # fmt: skip


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_profile_without_required_keys_still_makes_a_plan(make_plan, executor):
    assert make_plan(executor, {}).target is not None


def test_packagers(tmp_path):
    for name in ("src/a/x.py", "src/b/y.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("1\n")
    assert type(make_packager(Package())).__name__ == "Packager"
    assert type(make_packager(Package("git", str(tmp_path)))).__name__ == "ArchivePackager"
    options = {"packager_include_pattern": ["a/*", "b/*"], "packager_relative_path": "src"}
    pattern = make_packager(Package("pattern", str(tmp_path), options))
    assert pattern.include_pattern == [f"{tmp_path}/src/a/*", f"{tmp_path}/src/b/*"]
    assert pattern.relative_path == [f"{tmp_path}/src", f"{tmp_path}/src"]
    parts = {"code": {"include_pattern": "src/a/*"}, "configs": {"include_pattern": "src/b/*"}}
    hybrid = make_packager(Package("hybrid", str(tmp_path), {"packager_sub_packagers": parts}))
    assert {name: type(p).__name__ for name, p in hybrid.sub_packagers.items()} == {
        "code": "PatternPackager", "configs": "PatternPackager",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "options", "wrong"),
    [
        ("pattern", {}, "needs packager_include_pattern"),
        ("pattern", {"packager_include_pattern": ["a", "b", "c"], "packager_relative_path": ["x", "y"]}, "3 patterns"),
        ("hybrid", {}, "needs packager_sub_packagers"),
        ("hybrid", {"packager_sub_packagers": {"a": {"packager": "zip"}}}, "must be git or pattern"),
    ],
)
def test_packagers_without_what_they_need(kind, options, wrong):
    with pytest.raises(UserError, match=wrong):
        make_packager(Package(kind, "/repo", options))


def test_dgxcloud_says_what_a_submission_would_lose(make_target):
    target = make_target("dgxcloud", {"pvc_nemo_run_dir": "/pvc/run", "mounts": ["/data:/data"]})
    assert "on none of pvcs" in target.unfilled[0]
    assert "mounts are not used" in target.warnings[0]
    claim = {"claimName": "c", "path": "/pvc"}
    assert make_target("dgxcloud", {"pvc_nemo_run_dir": "/pvc/run", "pvcs": [claim]}).unfilled == ()

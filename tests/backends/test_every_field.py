"""Every key of every backend changes what a job is sent with, or says why it is no part of that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support import HEADER, enter, git, make_project

import nemo_runspec
from nemo_runspec.backends import BUILTIN, get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.field import Field, problem_with
from nemo_runspec.profiles.fieldset import fields_of

CLAIM = {"claimName": "data", "path": "/pvc"}
VOLUME = {"path": "/", "mount_path": "/data", "from": "node-nfs:v"}
PROFILES: dict[str, dict[str, Any]] = {
    "local": {},
    "docker": {"container_image": "img"},
    "slurm": {"container_image": "img", "remote_job_dir": "/lustre/run"},
    "lepton": {
        "container_image": "img", "nemo_run_dir": "/data/run", "resource_shape": "cpu.large", "node_group": "g",
        "mounts": [VOLUME],
    },
    "dgxcloud": {
        "container_image": "img", "base_url": "https://x/api/v1", "kube_apiserver_url": "https://k", "client_id": "c",
        "project_name": "p", "pvc_nemo_run_dir": "/pvc/run", "pvcs": [CLAIM],
    },
}  # fmt: skip
"""What a profile of each executor says before one more key is set."""

OF_TYPE = {
    "str": "other", "int|str": "7", "bool|str": True, "int": 3, "count": 3, "positive": 3, "number": 3,
    "list[str]": ["other"], "table": {"other": "x"}, "table[str]": {"other": "x"}, "table[scalar]": {"OTHER": "x"},
}  # fmt: skip
"""A value for a key of a type, where none is given below."""

VALUES: dict[str, Any] = {
    "env_vars": {"NAME": "value"}, "secrets": ["A_TOKEN"], "workdir": "/work", "world_size": "nodes",
    "run_command": "echo {script}", "mounts": ["/lustre:/lustre"], "dirty": "include", "packager": "none",
    "packager_subpath": "src", "packager_include_pattern": ["src/*.py"], "packager_relative_path": "src",
    "packager_sub_packagers": {"there": {"packager": "pattern", "include_pattern": ["src/*.py"]}},
    "time": "01:00:00", "dependency_type": "afterany", "dependencies": ["12"], "exclusive": True, "array": "0-7",
    "signal": "USR1@300", "open_mode": "truncate", "stall_timeout": "30m", "stall_action": "requeue", "tunnel": "ssh",
    "remote_job_dir": "/lustre/other", "build_cache_dir": "/lustre/cache", "build_time": "01:00:00",
    "max_restarts": 4, "container_env": ["NAME"], "additional_parameters": {"nice": 7}, "gres": "gpu:2",
    "job_dir": "/tmp/runs", "num_gpus": 2, "shm_size": "16g", "ulimits": ["memlock=-1"], "healthcheck": {"retries": 3},
    "additional_kwargs": {"mem_limit": "32g"}, "nemo_run_dir": "/data/other", "custom_spec": {"other": 1},
    "queue_priority": "mid-4000", "ttl": "1h", "inputs": {"/x": "s3://bucket/x"}, "outputs": ["/out"],
    "output_url": "s3://bucket/results", "code_url": "s3://bucket/code", "secret_vars": {"NAME": "kept/NAME"},
    "queue_timeout": "20m", "pull_timeout": "20m", "start_timeout": "20m", "on_timeout": "stop",
    "run_dir_here": "/mnt/run", "s3_endpoint": "https://s3.example.com", "s3_region": "eu-1",
    "pvcs": [{**CLAIM, "claimName": "more"}], "distributed_framework": "MPI", "pvc_nemo_run_dir": "/pvc/other",
    "base_url": "https://other/api/v1", "kube_apiserver_url": "https://other", "max_args_chars": 5000,
    "code_transport": "volume", "build_registries": ["ghcr.io"], "ray_launcher": "platform", "ray_start_timeout": "20m",
    "ray_resources": {"tag": 1}, "ray_worker_resources": {"tag": 1}, "ray_port": 6379, "ray_dashboard_port": 8265,
}  # fmt: skip
OF_EXECUTOR: dict[tuple[str, str], Any] = {
    ("lepton", "mounts"): [VOLUME, {**VOLUME, "path": "/x", "mount_path": "/x"}],
    ("docker", "mounts"): ["cache:/cache"],
    ("docker", "user"): "root",
    ("lepton", "secret_vars"): {"NAME": "kept"},
    **{(executor, "packager"): "git" for executor in ("local", "lepton", "dgxcloud")},
}

DATA = {"inputs": {"/x": "s3://bucket/x"}}
SSH = {"tunnel": "ssh", "host": "login"}
BESIDE: dict[str, dict[str, Any]] = {
    "max_restarts": {"resume": True}, "dependency_type": {"dependencies": ["12"]}, "cpus_per_gpu": {"gpus_per_task": 1},
    "stall_action": {"stall_timeout": "30m"}, "host": {"tunnel": "ssh"}, "user": SSH, "port": SSH, "identity": SSH,
    "accept_new_host_key": SSH, "dirty": {"packager": "git"}, "packager_subpath": {"packager": "git"},
    "packager_include_submodules": {"packager": "git"}, "packager_include_pattern": {"packager": "git"},
    "packager_relative_path": {"packager": "pattern", "packager_include_pattern": ["*.py"]},
    "packager_sub_packagers": {"packager": "hybrid", "packager_sub_packagers": {"here": {"packager": "git"}}},
    "packager_extract_at_root": {
        "packager": "hybrid", "packager_sub_packagers": {"here": {"packager": "pattern", "include_pattern": ["*.toml"]}}
    },
    "output_url": {"outputs": ["/out"], "output_url": "s3://bucket/first"},
    "outputs": {"output_url": "s3://bucket/results"},
    "s3_endpoint": DATA, "s3_region": DATA, "cloud_metadata": DATA, "world_size": {"gpus_per_node": 2},
    "distributed_framework": {"nodes": 2},
}  # fmt: skip
"""What a profile says besides, so that a key means something."""

BUILDS = ("build_partition", "build_time", "build_image", "build_cache_dir", "build_registries")
"""Keys of container builds."""

RECIPES = {**dict.fromkeys(BUILDS, "omni3/build/sft"), "head_only": "demo/direct"}
"""Of keys that mean nothing to others."""

REFUSED = {("local", "nodes"), ("docker", "nodes"), *((executor, "ray_launcher") for executor in BUILTIN)}
"""Keys that have one value there."""

EVERY = [
    pytest.param(executor, name, marks=[] if executor == "slurm" else [pytest.mark.slow])
    for executor in BUILTIN
    for name in fields_of(executor).fields
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project to stand in: a git repository with a submodule, and with changes that are not committed."""
    with pytest.MonkeyPatch.context() as patch:
        project = make_project(tmp_path_factory.mktemp("every-field"))
        enter(project, patch, A_TOKEN="hidden", S3_BUCKET_NAME="")
        project.recipe("demo/hello", header=HEADER.replace("direct", "torchrun"))
        project.recipe("demo/ray", header=HEADER.replace("direct", "ray"))
        project.recipe("demo/direct", header=HEADER)
        project.write("src/own.py", "1\n")
        library = project.folder.parent / "library"
        library.mkdir()
        (library / "theirs.py").write_text("1\n")
        for place in (library, project.folder):
            git(place, "init", "--quiet")
            git(place, "add", "--all")
            git(place, "commit", "--quiet", "--message=first")
        git(project.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "theirs")
        git(project.folder, "commit", "--quiet", "--message=second")
        project.write("src/own.py", "2\n")
        yield project.folder


@pytest.mark.parametrize(("executor", "name"), EVERY)
def test_a_key_changes_what_is_sent_or_says_why_not(folder: Path, executor: str, name: str):
    field = fields_of(executor).fields[name]
    if name in ("executor", "extends"):
        assert field.never_sent
        return
    beside = {**PROFILES[executor], **BESIDE.get(name, {})}
    given = value_of(executor, field)
    assert problem_with(field, given) is None
    assert given != beside.get(name, field.default)
    if (executor, name) in REFUSED:
        with pytest.raises(UserError, match=f"^{name} = "):
            sent(folder, executor, {**beside, name: given}, name)
        return
    before, after = sent(folder, executor, beside, name), sent(folder, executor, {**beside, name: given}, name)
    changed = before != after
    assert changed or field.never_sent, f"{name} is accepted, and nothing that is sent changes: {before[:300]}"
    assert not (changed and field.never_sent), f"{name} is sent: its declaration says '{field.never_sent}'"


def value_of(executor: str, field: Field) -> Any:
    """A value that is not the key's default."""
    if (executor, field.name) in OF_EXECUTOR:
        return OF_EXECUTOR[executor, field.name]
    return VALUES.get(field.name, not field.default if field.type == "bool" else OF_TYPE.get(field.type))


def sent(folder: Path, executor: str, profile: dict[str, Any], name: str) -> str:
    """Everything that a job of this profile is made of elsewhere, as text: what is rendered, how it is submitted."""
    recipe = "demo/ray" if name.startswith("ray_") else RECIPES.get(name, "demo/hello")
    mode = "run" if name == "run_partition" else "batch"
    return _sent(folder, executor, json.dumps(profile), recipe, mode)


@cache
def _sent(folder: Path, executor: str, profile: str, recipe: str, mode: str) -> str:
    lines = (f"{key} = {as_toml(value)}" for key, value in {"executor": executor, **json.loads(profile)}.items())
    (folder / "env.toml").write_text("\n".join(("[p]", *lines, "")))
    plan = nemo_runspec.plan(recipe, profile="p", mode=mode)
    rendering = get_backend(executor).make_rendering(plan)
    assert rendering is not None
    code = plan.package.digest, plan.package.kind != "none", [problem.what for problem in plan.package.problems]
    files = [(file.name, file.text) for file in rendering.files]
    found = [
        files,
        rendering.command,
        rendering.holes,
        code,
        [(each.name, each.value) for each in plan.env],
        plan.launch.args,
    ]
    return json.dumps([*found, [each.name for each in plan.secrets]]).replace(plan.name, "a-job")


def as_toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {as_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return json.dumps(value)

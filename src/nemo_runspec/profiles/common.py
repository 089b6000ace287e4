"""The profile keys every executor has. A backend that maps one of them to NeMo-Run says so with `adopt`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nemo_runspec.backends import BUILTIN, DEFAULT_EXECUTOR
from nemo_runspec.field import Field
from nemo_runspec.plans import defaults
from nemo_runspec.topics import CODE, COMMAND, CONTAINER, FILES, PLACE, SIZE, SWEEPS

_WHERE = (
    Field(
        "executor",
        "str",
        f"Where the job runs: {', '.join(BUILTIN)}, or what another package brings.",
        default=DEFAULT_EXECUTOR,
        never_sent="it says which backend sends the job",
        topic=PLACE,
    ),
    Field(
        "extends",
        "str",
        "Parent profile; its keys hold unless this profile sets them.",
        never_sent="the profile has its parent's keys by then",
        topic=PLACE,
    ),
    Field(
        "container_image",
        "str",
        "Container image, by default the recipe's own.",
        aliases=("container",),
        of_builds=False,
        topic=CONTAINER,
        in_help=True,
    ),
    Field(
        "mounts",
        "list[str|table]",
        "What the container sees, as the executor takes it. Joined with the recipe's own.",
        default=[],
        topic=FILES,
        in_help=True,
    ),
)

_JOB = (
    Field(
        "env_vars",
        "table[scalar]",
        "Environment variables of the job. Joined with the recipe's own, key by key.",
        topic=COMMAND,
    ),
    Field(
        "secrets",
        "list[str]",
        "Names of environment variables that hold secrets. They reach the job by reference and are shown nowhere.",
        default=[],
        of_builds=False,
        topic=COMMAND,
        verbatim=True,
    ),
    Field(
        "startup_commands",
        "list[str]",
        "Shell commands that run on every node, in the script's own shell, before it.",
        default=[],
        of_builds=False,
        topic=COMMAND,
        verbatim=True,
    ),
    Field(
        "head_startup_commands",
        "list[str]",
        "Shell commands that run on node 0 alone; startup_commands begin on all nodes once they have ended.",
        default=[],
        of_builds=False,
        topic=COMMAND,
        verbatim=True,
    ),
    Field(
        "head_only",
        "bool",
        "Run the command on node 0 alone, such as mpirun; the others run their startup_commands and stay until it has "
        "ended. For recipes whose launcher is direct.",
        of_builds=False,
        topic=COMMAND,
    ),
    Field(
        "run_command",
        "str",
        "Replaces the recipe's command; {script} and {config} stand for the two paths.",
        of_builds=False,
        topic=COMMAND,
        verbatim=True,
    ),
    Field(
        "workdir",
        "str",
        "Directory the job changes to before the script; by default the recipe's own.",
        of_builds=False,
        topic=COMMAND,
    ),
)

_RESOURCES = (
    Field(
        "nodes",
        "positive",
        "Number of nodes.",
        default=defaults.NODES,
        of_builds=False,
        topic=SIZE,
        of_one_job=True,
        in_help=True,
    ),
    Field(
        "gpus_per_node",
        "count",
        "GPUs per node; 0 for none. By default what the recipe declares.",
        of_builds=False,
        topic=SIZE,
        asks_gpus=True,
        of_one_job=True,
        in_help=True,
    ),
    Field(
        "nproc_per_node",
        "positive",
        "Processes per node; by default gpus_per_node, else 1.",
        aliases=("ntasks_per_node", "nprocs_per_node"),
        of_builds=False,
        topic=SIZE,
        of_one_job=True,
        in_help=True,
    ),
    Field(
        "world_size",
        "str",
        "What WORLD_SIZE counts: processes, as in PyTorch, or nodes, as containers of NVIDIA's TAO Toolkit read it; "
        "they have their NUM_GPU_PER_NODE then, too. Under torchrun each process has torchrun's own.",
        default=defaults.WORLD_SIZE,
        choices=(defaults.WORLD_SIZE, "nodes"),
        topic=SIZE,
    ),
    Field(
        "max_gpu_hours",
        "number",
        "Refuse a plan that may use more GPU-hours (nodes x GPUs x time limit).",
        never_sent="a plan that may use more is refused",
        topic=SIZE,
    ),
)

_RAY = (
    Field(
        "ray_launcher",
        "str",
        "Who makes the cluster of a recipe that is launched by Ray: job, its own nodes among themselves; platform is "
        "refused, as nothing tells how such a job has ended.",
        default="job",
        choices=("job", "platform"),
        of_builds=False,
    ),
    Field(
        "ray_resources",
        "table[scalar]",
        "Ray: custom resources of every node, such as { nrl_tag_ALL = 1 }.",
        of_builds=False,
    ),
    Field(
        "ray_worker_resources",
        "table[scalar]",
        "Ray: custom resources of every node but the first, such as { worker_units = 1 }.",
        of_builds=False,
    ),
    Field(
        "ray_runtime_env",
        "table",
        'Ray: the runtime_env of the command\'s tasks and actors, such as { env_vars = { OMP_NUM_THREADS = "1" } }; '
        "ray.init(runtime_env=...) adds to it. Code travels with the job, and secrets are in its environment: neither "
        "stands here.",
        of_builds=False,
    ),
    Field(
        "ray_start_timeout",
        "str",
        "Ray: how long the nodes have to join the first, such as 15m; then the job fails and says which are missing.",
        default=defaults.RAY_START_TIMEOUT,
        of_builds=False,
    ),
    Field(
        "ray_tolerate_lost",
        "bool",
        "Ray: go on without a node that is lost in the middle; else the job fails, and says which it was.",
        default=False,
        of_builds=False,
    ),
    Field(
        "ray_venv",
        "str",
        "Ray: the virtual environment that has it, or its bin, such as /opt/ray/bin; by default that of the "
        "job's own python.",
        of_builds=False,
    ),
    Field("ray_port", "positive", "Ray: the port of its head; by default a free one.", of_builds=False),
    Field(
        "ray_dashboard_port",
        "count",
        "Ray: the dashboard's port on the first node's loopback; 0 for no dashboard. By default a free one where the "
        "job has several nodes, else none.",
        of_builds=False,
    ),
)

_PART = (
    Field("packager", "str", "How this part is made.", choices=("git", "pattern")),
    Field("subpath", "str", "git: package only this folder of the repository."),
    Field("include_submodules", "bool", "git: package submodules too.", default=True),
    Field("include_pattern", "str|list[str]", "pattern: what to package. git: files to add as they are now."),
    Field("relative_path", "str|list[str]", "The folder that include_pattern is relative to."),
    Field(
        "dirty",
        "str",
        "git: what becomes of changes that are not committed.",
        default=defaults.DIRTY,
        choices=defaults.DIRTY_CHOICES,
    ),
    Field("merge", "str", "Another folder of the package, or . for its root."),
)

_SHIPPED = "How your own code is shipped: git (the last commit), pattern (files that match), hybrid (several), none."

_PACKAGING = (
    Field(
        "packager",
        "str",
        f"{_SHIPPED} By default none.",
        choices=("git", "pattern", "hybrid", "none"),
        of_builds=False,
        topic=CODE,
    ),
    Field(
        "packager_subpath",
        "str",
        "git: package only this folder of the repository.",
        of_builds=False,
        of_here=True,
        topic=CODE,
    ),
    Field(
        "packager_include_submodules",
        "bool",
        "git: package submodules too.",
        default=True,
        aliases=("packager_submodules", "include_submodules"),
        of_builds=False,
        topic=CODE,
    ),
    Field(
        "packager_include_pattern",
        "str|list[str]",
        "pattern: what to package, such as src/**/*.py. git: files to add as they are now. * leaves hidden files out, "
        "** goes into folders, a folder brings all its files; links stay links.",
        of_builds=False,
        of_here=True,
        topic=CODE,
    ),
    Field(
        "packager_relative_path",
        "str|list[str]",
        "The folder that packager_include_pattern and the paths in the package are relative to, itself relative to the "
        "project's root, which is the default: the git repository, else the env.toml's folder. One for all patterns, "
        "or one each.",
        of_builds=False,
        of_here=True,
        topic=CODE,
    ),
    Field(
        "packager_sub_packagers",
        "table",
        'hybrid: folder in the package = how it is made, such as code = { packager = "git", subpath = "src" }. '
        "The tables take the packager_ keys without that prefix, dirty, and merge: another folder, or . for the root.",
        of_builds=False,
        inner=_PART,
        each=True,
        of_here=True,
        topic=CODE,
    ),
    Field(
        "dirty",
        "str",
        "git: what becomes of changes that are not committed: warn (they stay behind and are named), refuse "
        "(nothing is submitted), include (they travel, new files too unless git ignores them).",
        default=defaults.DIRTY,
        choices=defaults.DIRTY_CHOICES,
        of_builds=False,
        topic=CODE,
    ),
    Field(
        "packager_extract_at_root",
        "bool",
        "hybrid: put everything at the root of the package instead of one folder each.",
        default=False,
        of_builds=False,
        topic=CODE,
    ),
)

_OF_SWEEPS = "sweeps are led by it, whatever each of their jobs is sent with"

_SWEEPS = (
    Field(
        "max_parallel",
        "positive",
        "Runs of a sweep (-m) that go on at the same time.",
        default=defaults.MAX_PARALLEL,
        never_sent=_OF_SWEEPS,
        topic=SWEEPS,
        of_one_job=True,
    ),
    Field(
        "sweep_metric",
        "str",
        "The metric that a sweep is sorted by and that a sweeper such as Optuna is told; by default val_loss, else "
        "loss. Lower is better, unless it ends in :max, as in accuracy:max.",
        never_sent=_OF_SWEEPS,
        topic=SWEEPS,
        of_one_job=True,
    ),
    Field(
        "stop_on_failure",
        "bool",
        "End a sweep (-m) as soon as one of its runs fails: start no more, and end those that run.",
        default=False,
        never_sent=_OF_SWEEPS,
        topic=SWEEPS,
    ),
)

_AFTERWARDS = (
    Field(
        "on_end",
        "str",
        "A command that is run by bash on this side, once, when it is learnt that a job has ended: NEMOTRON_JOB, "
        "NEMOTRON_STATE, NEMOTRON_EXIT_CODE and others say which and how. Its own failure is told and changes nothing.",
        of_here=True,
        never_sent="it is run where the job was submitted",
    ),
)

COMMON: tuple[Field, ...] = (*_WHERE, *_JOB, *_RESOURCES, *_RAY, *_PACKAGING, *_SWEEPS, *_AFTERWARDS)

_BY_NAME = {field.name: field for field in COMMON}


def ships_repository(**changes: Any) -> Field:
    """The key `packager` of a backend that has the fact of that name."""
    return adopt("packager", help=f"{_SHIPPED} By default git inside a git repository, else none.", **changes)


def adopt(name: str, **changes: Any) -> Field:
    """A common key as one backend has it, such as with the argument of its NeMo-Run executor."""
    return replace(_BY_NAME[name], **changes)


def nodes_of(env: Mapping[str, Any]) -> int:
    """How many nodes a merged profile asks for."""
    return int(env.get("nodes") or defaults.NODES)


def processes_per_node(env: Mapping[str, Any]) -> int:
    """The explicit spelling, else `gpus_per_node`, else 1."""
    return int(env.get("nproc_per_node") or env.get("gpus_per_node") or 1)

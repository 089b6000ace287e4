"""What a Slurm profile may say. `target.py` makes of it what a plan carries.

The arguments of NeMo-Run's `SlurmExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from nemo_runspec.backends.stall import STALL_TIMEOUT
from nemo_runspec.field import Field
from nemo_runspec.profiles.common import adopt

_SUBMISSION = (
    Field("account", "str", "Account the job is billed to. Sites without accounts need none.", nemo_run="account"),
    Field("partition", "str", "Partition; by default the cluster's.", nemo_run="partition"),
    Field("run_partition", "str", "Partition for attached jobs (--run); by default partition.", nemo_run="partition"),
    Field(
        "batch_partition", "str", "Partition for detached jobs (--batch); by default partition.", nemo_run="partition"
    ),
    Field(
        "time",
        "int|str",
        "Time limit as sbatch takes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; 0 means no limit.",
        default="04:00:00",
        nemo_run="time",
    ),
    Field("qos", "str", "Quality of service.", nemo_run="qos"),
    Field(
        "job_name_prefix",
        "str",
        "Put before nemotron's own job name, such as myaccount-team.",
        nemo_run="job_name_prefix",
    ),
    Field(
        "retries",
        "count",
        "How often the job is requeued after its command failed. A cancelled job, and one that its time limit or a "
        "preemption ended, is not: see resume.",
        default=0,
        nemo_run="retries",
    ),
    Field(
        "resume",
        "bool",
        "Requeue the job each time its time limit or a preemption ends it, until it ends by itself: it is done when "
        "its command ends with 0 before the signal. Without a signal of yours it gets TERM two minutes before the "
        "time limit, to write its checkpoint. NEMOTRON_ATTEMPT counts, from 0.",
        default=False,
    ),
    Field("max_restarts", "count", "How often resume requeues the job at most.", default=10),
    Field("dependencies", "list[str]", "Slurm job ids that this job waits for.", default=[], nemo_run="dependencies"),
    Field(
        "dependency_type",
        "str",
        "How it waits for dependencies.",
        default="afterok",
        choices=("after", "afterany", "afterburstbuffer", "aftercorr", "afternotok", "afterok"),
        nemo_run="dependency_type",
    ),
    Field(
        "additional_parameters",
        "table[scalar]",
        'Further sbatch options, such as { mail_type = "END", reservation = "name" }; true for one without a value.',
        nemo_run="additional_parameters",
    ),
)

_RESOURCES = (
    adopt("nodes", nemo_run="nodes"),
    adopt("gpus_per_node", nemo_run="gpus_per_node"),
    adopt(
        "nproc_per_node",
        help="Processes per node; by default gpus_per_node, else 1. Under torchrun and ray they share one Slurm task "
        "per node; under direct each is a task.",
        nemo_run="ntasks_per_node",
    ),
    Field(
        "cpus_per_task",
        "positive",
        "CPU cores per task. Under torchrun and ray a node has one task, so this counts a whole node's cores.",
        nemo_run="cpus_per_task",
    ),
    Field("cpus_per_gpu", "positive", "CPU cores per GPU; Slurm wants gpus_per_task with it.", nemo_run="cpus_per_gpu"),
    Field("gpus_per_task", "positive", "GPUs per task.", nemo_run="gpus_per_task"),
    Field("mem", "int|str", 'Memory per node, such as "200G"; "0" for all of it.', nemo_run="mem"),
    Field("mem_per_gpu", "int|str", "Memory per GPU.", nemo_run="mem_per_gpu"),
    Field("mem_per_cpu", "int|str", "Memory per CPU core.", nemo_run="mem_per_cpu"),
    Field("exclusive", "bool|str", 'Have nodes to yourself: true, "user", "mcs" or "topo".', nemo_run="exclusive"),
    Field("gres", "str", "Generic resources, such as gpu:h100:8.", nemo_run="gres"),
    Field("constraint", "str", "Node features the job needs.", nemo_run="constraint"),
    Field("exclude", "str", "Nodes to stay away from.", nemo_run="exclude"),
    Field("segment", "positive", "Nodes per block of a block topology (Slurm 23.11 or later).", nemo_run="segment"),
    Field("network", "str", "Network or switch options.", nemo_run="network"),
    Field("array", "int|str", "Job array, such as 0-7%2.", nemo_run="array"),
    Field(
        "signal",
        "str",
        "What the command is sent before the time limit, such as TERM@300 or USR1@300 (seconds; Slurm may send it a "
        "minute early): HUP, INT, TERM, USR1 or USR2, on every rank, once. With or without B: it goes by the batch "
        "shell, not to torchrun.",
        nemo_run="signal",
    ),
    Field("comment", "str", "Comment on the job.", nemo_run="comment"),
    Field(
        "open_mode",
        "str",
        "What a requeued job does with its log.",
        default="append",
        choices=("append", "truncate"),
        nemo_run="open_mode",
    ),
)

_TASKS = (
    adopt("container_image", nemo_run="container_image"),
    adopt(
        "mounts",
        help='What the container sees: "source:target[:flags]", the source a path on the cluster. $NAME is filled in '
        "there; a source that begins with /$nemo_run lies in the job's own directory. Joined with the recipe's own.",
        nemo_run="container_mounts",
    ),
    Field(
        "container_env",
        "list[str]",
        "Variables of setup_lines or the cluster that win over the image's own. The job's variables always do.",
        default=[],
        nemo_run="container_env",
    ),
    Field(
        "srun_args",
        "list[str]",
        "Further srun options, such as --mpi=pmix, as the batch script's shell should read them.",
        default=[],
        nemo_run="srun_args",
    ),
    Field("setup_lines", "str", "Shell lines of the batch script, run once before srun.", nemo_run="setup_lines"),
    Field(
        "memory_measure",
        "bool",
        "Run nvidia-smi on the job before it starts.",
        default=False,
        nemo_run="memory_measure",
    ),
    adopt("packager", nemo_run="packager"),
)

_CARE = (
    Field(
        "health_check",
        "bool",
        "Before the command, ask every node whether it is fit: the job's directory and the mounts, python (torch under "
        "torchrun), GPUs, connections to the other nodes and an all-reduce. The job is requeued without a bad node, at "
        "most three times. Takes some 20 s, and starts the container once more.",
        default=False,
    ),
    STALL_TIMEOUT,
    Field(
        "stall_action",
        "str",
        "What becomes of a job that stall_timeout has ended: stop, or requeue (at most three times).",
        default="stop",
        choices=("stop", "requeue"),
    ),
)

_TUNNEL = (
    Field(
        "tunnel",
        "str",
        "How sbatch is reached: local (this machine is a login node; the default) or ssh.",
        choices=("local", "ssh"),
        nemo_run="tunnel",
    ),
    Field("host", "str", "ssh: login node, or an alias of ~/.ssh/config."),
    Field("user", "str", "ssh: user name there; by default what ssh itself would use."),
    Field("port", "positive", "ssh: port."),
    Field("identity", "str", "ssh: private key file on this machine; ~ is your home."),
    Field(
        "accept_new_host_key",
        "bool",
        "ssh: accept and remember the key of a host that no known_hosts file names. A key that has changed never is.",
        default=False,
    ),
    Field(
        "remote_job_dir",
        "str",
        "Directory for jobs, outputs and caches, as the cluster names it; ~ is your home there. By default "
        "$NEMOTRON_HOME/run, else ~/.nemotron/run, without ssh, and ~/.nemotron/run there with it.",
    ),
)

_BUILD = (
    Field("build_partition", "str", "Partition of container builds; by default the job's partition."),
    Field("build_time", "int|str", "Time limit of container builds; by default time."),
    Field(
        "build_image",
        "str",
        "Image that container builds run in, with podman; by default the one that the recipe of the build names.",
    ),
    Field(
        "build_cache_dir",
        "str",
        "Directory on the cluster where container builds and squash files are left, which every node sees; ~ is your "
        "home there. By default cache in the directory for jobs.",
    ),
    Field(
        "build_registries",
        "list[str]",
        "Registries besides nvcr.io whose logins, of enroot's credentials on the cluster, a container build gets.",
        default=[],
    ),
)

FIELDS: tuple[Field, ...] = (*_SUBMISSION, *_RESOURCES, *_TASKS, *_CARE, *_TUNNEL, *_BUILD)

EXCLUDED: Mapping[str, str] = {
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
}
"""Arguments of NeMo-Run's executor that no profile key fills, and why."""

"""The keys of a Slurm profile, and what a plan carries of them: each is declared once, as an attribute of the target.

A declaration says how its key reaches sbatch and NeMo-Run; the checks of a profile, what NeMo-Run's executor is given
and the `#SBATCH` lines are derived from it. The arguments of NeMo-Run's `SlurmExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from nemo_runspec.backends.checks import JOB_DIR, MOUNTED
from nemo_runspec.backends.slurm.values import HOME, array_size, gpus_of_job
from nemo_runspec.backends.stall import STALL_TIMEOUT
from nemo_runspec.field import SAME_NAME, Field, argument, key, keys_of, plain, text
from nemo_runspec.plans.storage import Storage, mounts_of_words
from nemo_runspec.plans.target import Cores, Target
from nemo_runspec.profiles.common import adopt, ships_repository
from nemo_runspec.topics import BUILDS, COMMAND, CONTAINER, FILES, PLACE, SIZE, SWEEPS, TROUBLE

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Resources

STALLS = 3
"""How often a job is requeued after it stalled, at most; `jobside/stall.py` has it too."""

_IMAGE = "Container image, by default the recipe's own; also the path of a .sqsh file."


def option(type: str, help: str, **facts: Any) -> Any:
    """A key that is an option of sbatch, and an argument of NeMo-Run's executor, under its own name.

    With `nemo_run=None` it is an option that NeMo-Run has no argument for, and is handed over as a further one.
    """
    return argument(type, help, **{"sbatch": SAME_NAME, "one_line": "str" in type, **facts})


size = partial(option, topic=SIZE)
size_of_jobs = partial(size, of_builds=False)
place = partial(option, "str", topic=PLACE)
trouble = partial(argument, topic=TROUBLE)
trouble_of_jobs = partial(trouble, nemo_run=None, of_builds=False)
of_ssh = partial(text, topic=PLACE)
partition_of = partial(Field, "", "str", nemo_run="partition", one_line=True, topic=PLACE)
words_of_srun = partial(argument, "list[str]", default=[], one_line=True, of_builds=False, verbatim=True)
of_container_builds = partial(Field, "", topic=BUILDS)


@dataclass(frozen=True, kw_only=True)
class SlurmTarget(Target):
    """A Slurm job beyond what every plan says. Empty strings are None here; `time` and `partition` are the final ones.

    What is declared for the class alone are keys that decide about others, or that stand elsewhere in a plan.

    Args:
        mounts: `source:target[:flags]` for the container, `remote_job_dir` among them.
        store: the folder of artifacts where it is one of them only because the job needs it; None where it is not.
        resume: requeue the job after its time limit or a preemption; at most `max_restarts` times.
        signal: as sbatch gets it, always with `B:`; there is one with `resume`.
        gpus_untold: whole nodes are asked for with all they have, and nothing says how many GPUs that is.
        exclusive: True, a word, or None; never False, which NeMo-Run would hand to Slurm as a word.
        additional_parameters: in snake case; True for an option without a value.
        stall_timeout: seconds.
        tunnel: `local` or `ssh`.
        remote_job_dir: absolute, or below `HOME`.
        build_cache_dir, build_registries: only for container builds.
        host: None without ssh, and where the profile must still name it.
        warnings: what is odd but not wrong.
        unfilled: what must be mended before a submission.
    """

    array_key, dependencies_key = "array", "dependencies"

    account: str | None = place("Account the job is billed to. Sites without accounts need none.", in_help=True)
    partition: str | None = place("Partition; by default the cluster's.", in_help=True)
    run_partition: ClassVar[Field] = partition_of("Partition for attached jobs (--run); by default partition.")
    batch_partition: ClassVar[Field] = partition_of("Partition for detached jobs (--batch); by default partition.")
    time: str = size(
        "int|str",
        "Time limit as sbatch takes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; 0 means no limit.",
        default="04:00:00",
        one_line=False,
        in_help=True,
    )
    qos: str | None = place("Quality of service.")
    job_name_prefix: str | None = argument(
        "str", "Put before nemotron's own job name, such as myaccount-team.", one_line=True, topic=PLACE
    )
    retries: int = trouble(
        "count",
        "How often the job is requeued after its command failed. A cancelled job, and one that its time limit or a "
        "preemption ended, is not: see resume.",
        default=0,
        of_one_job=True,
    )
    resume: bool = trouble_of_jobs(
        "bool",
        "Requeue the job each time its time limit or a preemption ends it, until it ends by itself: it is done when "
        "its command ends with 0 before the signal. Without a signal of yours it gets TERM two minutes before the "
        "time limit, to write its checkpoint. NEMOTRON_ATTEMPT counts, from 0.",
        default=False,
        of_one_job=True,
    )
    max_restarts: int = trouble_of_jobs("count", "How often resume requeues the job at most.", default=10)
    dependencies: tuple[str, ...] = trouble(
        "list[str]", "Slurm job ids that this job waits for.", default=[], of_builds=False, of_one_job=True
    )
    dependency_type: str = trouble(
        "str",
        "How it waits for dependencies.",
        default="afterok",
        choices=("after", "afterany", "afterburstbuffer", "aftercorr", "afternotok", "afterok"),
        of_builds=False,
        of_one_job=True,
    )
    additional_parameters: dict[str, Any] = argument(  # noqa: RUF009 (it is a dataclass field)
        "table[scalar]",
        'Further sbatch options, such as { mail_type = "END", reservation = "name" }; true for one without a value.',
        one_line=True,
        verbatim=True,
    )

    nodes: ClassVar[Field] = adopt("nodes", nemo_run="nodes", sbatch="nodes")
    gpus_per_node: ClassVar[Field] = adopt("gpus_per_node", nemo_run="gpus_per_node", sbatch="gpus_per_node")
    nproc_per_node: ClassVar[Field] = adopt(
        "nproc_per_node",
        help="Processes per node; by default gpus_per_node, else 1. Under torchrun and ray they share one Slurm task "
        "per node; under direct each is a task.",
        nemo_run="ntasks_per_node",
        sbatch="ntasks_per_node",
    )
    cpus_per_task: int | None = size(
        "positive",
        "CPU cores per task. Under torchrun and ray a node has one task, so this counts a whole node's cores.",
    )
    cpus_per_gpu: int | None = size_of_jobs("positive", "CPU cores per GPU; Slurm wants gpus_per_task with it.")
    gpus_per_task: int | None = size_of_jobs("positive", "GPUs per task.", asks_gpus=True)
    mem: str | None = size("int|str", 'Memory per node, such as "200G"; "0" for all of it.')
    mem_per_gpu: str | None = size_of_jobs("int|str", "Memory per GPU.")
    mem_per_cpu: str | None = size("int|str", "Memory per CPU core.")
    exclusive: bool | str | None = size_of_jobs(
        "bool|str", 'Have nodes to yourself: true, "user", "mcs" or "topo".', one_line=False
    )
    gres: str | None = size_of_jobs("str", "Generic resources, such as gpu:h100:8.", asks_gpus=True)
    constraint: str | None = size_of_jobs("str", "Node features the job needs.")
    exclude: str | None = size("str", "Nodes to stay away from.")
    segment: int | None = size_of_jobs("positive", "Nodes per block of a block topology (Slurm 23.11 or later).")
    network: str | None = option("str", "Network or switch options.", of_builds=False, topic=CONTAINER)
    array: str | None = option("int|str", "Job array, such as 0-7%2.", of_builds=False, topic=SWEEPS, of_one_job=True)
    signal: str | None = option(
        "str",
        "What the command is sent before the time limit, such as TERM@300 or USR1@300 (seconds; Slurm may send it a "
        "minute early): HUP, INT, TERM, USR1 or USR2, on every rank, once. With or without B: it goes by the batch "
        "shell, not to torchrun.",
        of_builds=False,
        topic=TROUBLE,
        of_one_job=True,
    )
    comment: str | None = option("str", "Comment on the job.")
    open_mode: str = option(
        "str",
        "What a requeued job does with its log.",
        default="append",
        choices=("append", "truncate"),
        one_line=False,
        topic=TROUBLE,
    )

    container_image: str | None = key(adopt("container_image", help=_IMAGE, nemo_run="container_image", one_line=True))
    mounts: tuple[str, ...] = key(
        adopt(
            "mounts",
            help='What the container sees: "source:target[:flags]", the source a path on the cluster. $NAME is filled '
            f"in there; a source that begins with {JOB_DIR} lies in the job's own directory. Joined with the recipe's "
            "own.",
            nemo_run="container_mounts",
            one_line=True,
        )
    )
    container_env: tuple[str, ...] = words_of_srun(
        "Variables of setup_lines or the cluster that win over the image's own. The job's variables always do.",
        topic=CONTAINER,
    )
    srun_args: tuple[str, ...] = words_of_srun(
        "Further srun options, such as --mpi=pmix, as the batch script's shell should read them.",
        topic=COMMAND,
    )
    setup_lines: str | None = argument(
        "str", "Shell lines of the batch script, run once before srun.", topic=COMMAND, verbatim=True
    )
    memory_measure: bool = trouble(
        "bool", "Run nvidia-smi on the job before it starts.", default=False, of_builds=False
    )
    packager: ClassVar[Field] = ships_repository(nemo_run="packager")

    health_check: bool = trouble_of_jobs(
        "bool",
        "Before the command, ask every node whether it is fit: the job's directory and the mounts, python (torch under "
        "torchrun), GPUs, connections to the other nodes and an all-reduce. The job is requeued without a bad node, at "
        "most three times. Takes some 20 s, and starts the container once more.",
        default=False,
    )
    stall_timeout: int | None = key(STALL_TIMEOUT)
    stall_action: str = trouble_of_jobs(
        "str",
        "What becomes of a job that stall_timeout has ended: stop, or requeue (at most three times).",
        default=Target.stall_action,
        choices=(Target.stall_action, "requeue"),
    )

    tunnel: str = key(
        Field(
            "tunnel",
            "str",
            "How sbatch is reached: local (this machine is a login node; the default) or ssh.",
            choices=("local", "ssh"),
            nemo_run="tunnel",
            topic=PLACE,
        ),
        unset="local",
    )
    host: str | None = of_ssh("ssh: login node, or an alias of ~/.ssh/config.")
    user: str | None = of_ssh("ssh: user name there; by default what ssh itself would use.")
    port: int | None = plain("positive", "ssh: port.", topic=PLACE)
    identity: str | None = of_ssh("ssh: private key file on this machine; ~ is your home.", of_here=True)
    accept_new_host_key: bool = plain(
        "bool",
        "ssh: accept and remember the key of a host that no known_hosts file names. A key that has changed never is.",
        default=False,
        never_sent="ssh reads it, on this machine",
        topic=PLACE,
    )
    remote_job_dir: str = text(
        "Directory for jobs, outputs and caches, as the cluster names it; ~ is your home there. By default "
        "$NEMOTRON_HOME/run, else ~/.nemotron/run, without ssh, and ~/.nemotron/run there with it.",
        topic=FILES,
    )

    build_partition: ClassVar[Field] = of_container_builds(
        "str", "Partition of container builds; by default the job's partition.", one_line=True
    )
    build_time: ClassVar[Field] = of_container_builds("int|str", "Time limit of container builds; by default time.")
    build_image: ClassVar[Field] = of_container_builds(
        "str", "Image that container builds run in, with podman; by default the one that the recipe of the build names."
    )
    build_cache_dir: str | None = plain(
        "str",
        "Directory on the cluster where container builds and squash files are left, which every node sees; ~ is your "
        "home there. By default cache in the directory for jobs.",
        topic=BUILDS,
    )
    build_registries: tuple[str, ...] = plain(
        "list[str]",
        "Registries besides nvcr.io whose logins, of enroot's credentials on the cluster, a container build gets.",
        default=[],
        never_sent="the logins are put on the cluster before the build is submitted",
        topic=BUILDS,
    )

    store: str | None = None
    gpus_untold: bool = False
    warnings: tuple[str, ...] = ()
    unfilled: tuple[str, ...] = ()

    def gpus(self, resources: Resources) -> int | None:
        """GPUs of the whole job, whichever option asks for them; None for an option this does not read."""
        return gpus_of_job(self, resources)

    def cores(self, resources: Resources) -> Cores | None:
        """As `Target.cores`: Slurm gives a task one core, unless it is asked for more or for the whole node."""
        if self.cpus_per_task:
            return Cores(self.cpus_per_task, "cpus_per_task")
        if self.cpus_per_gpu:
            return Cores(self.cpus_per_gpu * resources.gpus_per_node, "cpus_per_gpu")
        return None if self.exclusive else Cores(1, "cpus_per_task", told=False)

    def attempts(self) -> int:
        """How often a job may be started: retries after failures, and continuations of what was cut short."""
        return 1 + self.retries + (self.max_restarts if self.resume else 0)

    def storage(self, job_dir: str) -> Storage:
        """As `Target.storage`: without a container, the file systems that login and compute nodes share."""
        if not self.container_image:
            return Storage(whole=True)
        mounts = [word.replace(JOB_DIR, job_dir, 1) if word.startswith(JOB_DIR) else word for word in self.mounts]
        given = [word.partition("=")[2] for word in self.srun_args if word.startswith("--container-mounts=")]
        more = (word for text in given for word in text.split(","))
        return Storage(mounts_of_words((*mounts, *more, f"{job_dir}:{MOUNTED}")), homes=(HOME,))

    def runs(self) -> int:
        """Tasks of the array, each once more per retry and restart."""
        stalls = STALLS if self.stall_timeout and self.stall_action == "requeue" else 0
        return array_size(self.array) * (self.attempts() + stalls)


FIELDS: tuple[Field, ...] = keys_of(SlurmTarget)

"""The plan: everything a job is, as one frozen value. Nothing after it reads argv, env.toml or a recipe's YAML.

Its JSON form (`planning/codec.py`) is versioned by `PLAN_SCHEMA`: a plan can be saved, compared, applied and retried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_runspec.duration import whole_seconds
from nemo_runspec.plans import defaults
from nemo_runspec.plans.labels import Labels
from nemo_runspec.plans.target import Target
from nemo_runspec.runspec import KnownError
from nemo_runspec.source import Source

PLAN_SCHEMA = 1

MODES = ("run", "batch")
"""Attached and detached."""


@dataclass(frozen=True, slots=True)
class RecipeRef:
    """Which recipe. `path` is the command (`nano3/pretrain`), `script` the file on the submitting machine.

    Args:
        errors: what its jobs may fail with, kept with each of them.
    """

    path: str
    name: str
    script: str
    kind: str | None = None
    errors: tuple[KnownError, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """How the script is started on each node.

    Args:
        kind: `torchrun`, `direct` or `ray`.
        script: path of the script inside the bundle.
        cmd: the recipe's own command template with `{script}` and `{config}`; None for the launcher's default.
        workdir: directory to change to before the command; None for the job's working directory.
        args: arguments for the script, as given after `--`; `******` stands for each secret among them.
        secret_args: names of the variables that hold those, in the order in which they stand there.
        beside: where in the code package the folder of a script of one's own may lie, the likeliest place first.
        takes_config: True where the script gets `--config <train.yaml>`.
        setup: shell commands that run on every node, in the command's own shell, before the command.
        world_size: what `WORLD_SIZE` counts, `processes` or `nodes`.
        head_setup: shell commands that run on node 0 alone before `setup`, which all nodes wait for.
        head_only: True where the command runs on node 0 alone, and the other nodes are there until it has ended.
    """

    kind: str
    script: str
    cmd: str | None = None
    workdir: str | None = None
    args: tuple[str, ...] = ()
    takes_config: bool = True
    setup: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    world_size: str = defaults.WORLD_SIZE
    secret_args: tuple[str, ...] = ()
    head_setup: tuple[str, ...] = ()
    head_only: bool = False


@dataclass(frozen=True, slots=True)
class PythonEnv:
    """What the recipe's PEP 723 block asks for; used where no container image brings the environment.

    Args:
        download: how large it is, in words.
        uv: the lines of `[tool.uv]`, '' without one.
    """

    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    download: str | None = None
    uv: str = ""


@dataclass(frozen=True, slots=True)
class Resources:
    """`time` is a wall-clock limit as Slurm writes it (`[D-]HH:MM:SS`), None where the executor has none."""

    nodes: int = defaults.NODES
    gpus_per_node: int = 0
    nproc_per_node: int = 1
    time: str | None = None


@dataclass(frozen=True, slots=True)
class RayCluster:
    """The Ray that a job's nodes make among themselves.

    Args:
        cpus: CPU cores of each node where the profile says how many; None: the job finds out where it runs.
        resources: custom ones of every node.
        worker_resources: of all but node 0.
        start_timeout: seconds that the other nodes have to join the head.
        tolerate_lost: True where the job goes on without a node that is lost in the middle.
        venv: where Ray's virtual environment lies, '' for the one of the job's `python`.
        port: of Ray's head; None for a free one.
        dashboard_port: on node 0's loopback; 0 for no dashboard, None for a
            free one where there are several nodes.
        runtime_env: Ray's own, of the command's tasks and actors; it holds no secret.
    """

    cpus: int | None = None
    resources: dict[str, float] = field(default_factory=dict)
    worker_resources: dict[str, float] = field(default_factory=dict)
    start_timeout: int = whole_seconds(defaults.RAY_START_TIMEOUT)
    tolerate_lost: bool = False
    venv: str = ""
    port: int | None = None
    dashboard_port: int | None = None
    runtime_env: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One variable of the job's environment, never a secret, and what set it."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A secret by reference. The value is looked up again at submission and never stored.

    Args:
        name: the variable the job sees.
        origin: `environment`, `netrc`, `token-file`, `profile`, `override`, `env-file` or `missing`.
        detail: where exactly, for a person: a file, a section and key. Never the value.
    """

    name: str
    origin: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of the job bundle: its path in the bundle, where it lies here, its size in bytes."""

    path: str
    source: str
    size: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """The job bundle: recipe, family code. `digest` is sha256 over the sorted (path, content) pairs."""

    files: tuple[BundleFile, ...] = ()
    bytes: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class PackageProblem:
    """What keeps a package from being packed, in one line, and how to mend it."""

    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Package:
    """The code package: what the profile's packager makes of the user's repository; `none` is empty.

    Args:
        kind: `git`, `pattern`, `hybrid` or `none`.
        root: the directory packaged, on the submitting machine: what all its paths are relative to.
        files: how many files, `bytes`: their size before compression.
        digest: git's tree id where the package is exactly a git tree, else sha256 over modes, paths and contents; ''
            where there was too much to read for it.
        commit: the commit checked out around the working directory, if any; what a git package is made of.
        uncommitted: tracked files whose changes would NOT travel.
        untracked: files git does not know.
        included: changes that travel without being in a commit.
        pointers: files of Git LFS, sent as pointers.
        bundled: files of the job bundle that are not as `commit` has them; they travel as they are, with any kind.
        problems: what keeps it from being packed.
        filters: the repository's own filters, which a plan does not run: what they would change is not seen in it.
    """

    kind: str = "none"
    root: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    digest: str = ""
    commit: str | None = None
    uncommitted: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    pointers: tuple[str, ...] = ()
    bundled: tuple[str, ...] = ()
    problems: tuple[PackageProblem, ...] = ()
    filters: tuple[str, ...] = ()

    @property
    def digest_kind(self) -> str:
        """`tree` for git's id of a tree, else `sha256`. A tree's id in a repository of git's newer kind is as long."""
        return "tree" if self.commit and self.kind == "git" and len(self.digest) == len(self.commit) else "sha256"


@dataclass(frozen=True, slots=True)
class AutoMount:
    """A repository that is cloned and mounted into the job: `${auto_mount:git+URL@ref,target}`.

    Args:
        path: where it is checked out on this machine.
        target: where the job sees it.
        commit: what `ref` stood for; None until it was cloned.
        there: where it lies below the job's directory of another machine; None for this machine.
    """

    url: str
    ref: str
    path: str
    target: str
    commit: str | None = None
    there: str | None = None


BUNDLED = "bundle:"
"""How the path of an input begins that travels with the job: `bundle:examples/chat.jsonl`."""

HUB = "hf://"
"""How the path of an input begins that its script fetches from the Hugging Face hub: `hf://Qwen/Qwen3-0.6B`."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """An input or output of the recipe.

    Args:
        name: the recipe's own name for it (`data`), `type` its type, `artifact` its name in the store.
        path: where it is read or written, as the job sees it, `bundle:REL` or `hf://NAME`; None: not known yet.
        ready: for an input on this machine: True if it is there, None where that cannot be known from here.
        recipe, config: what makes it.
        make: `if-missing` where nemotron makes it by itself.
        version: which one is read, as `v3`, a tag or a job's name; None for the newest one, or where nobody knows.
        check: the checker by which the job looks at it, '' for none.
    """

    name: str
    type: str
    artifact: str | None = None
    path: str | None = None
    ready: bool | None = None
    required: bool = True
    recipe: str | None = None
    config: str | None = None
    make: str | None = None
    version: str | None = None
    check: str = ""

    @property
    def is_bundled(self) -> bool:
        """True for an input that is a file of the job bundle: its script finds it there."""
        return bool(self.path and self.path.startswith(BUNDLED))


@dataclass(frozen=True, slots=True)
class MissingValue:
    """A secret or a variable that nobody has given. `line`: that of `Plan.unfilled` about it. `remedy`: its mend."""

    line: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One job, whole. `target` is the frozen value of the backend's own `fields.py`.

    Args:
        name: unique job name, a valid RFC 1123 label of at most 34 characters.
        mode: `run` (attached) or `batch` (detached).
        profile: the profile's name, None for a plain local run.
        env_file: where it was read.
        job_dir: the job's directory as the submitting side names it.
        run: the merged `run` section, without secrets.
        config: what the script reads.
        sources: dotted path of every leaf of `run` (prefixed `run.`) and `config` → where it came from.
        unfilled: what must be mended before a submission, a line each.
        missing_secrets: secrets that the profile
            lists, and variables that the recipe requires, and nobody has given.
        labels: what a person calls it.
        ray: the cluster of `launch.kind` ray, None under other launchers.
    """

    name: str
    recipe: RecipeRef
    config_name: str | None
    executor: str
    mode: str
    profile: str | None
    env_file: str | None
    job_dir: str
    launch: Launch
    python: PythonEnv
    resources: Resources
    env: tuple[EnvVar, ...]
    secrets: tuple[SecretRef, ...]
    bundle: Bundle
    package: Package
    consumes: tuple[Artifact, ...]
    produces: tuple[Artifact, ...]
    run: dict[str, Any]
    config: dict[str, Any]
    sources: dict[str, Source]
    target: Target
    overrides: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unfilled: tuple[str, ...] = ()
    missing_secrets: dict[str, MissingValue] = field(default_factory=dict)
    auto_mounts: tuple[AutoMount, ...] = ()
    labels: Labels = field(default_factory=Labels)
    ray: RayCluster | None = None
    schema: int = PLAN_SCHEMA

    @property
    def waits_for_jobs(self) -> bool:
        """True if its profile names jobs that end before it begins, and may make what it reads."""
        return bool(self.run["env"].get(self.target.dependencies_key))

    def save(self, path: str | Path) -> Path:
        """Writes the plan as JSON, without the values of secrets; where it lies.

        Args:
            path: the file; `~` is the home directory. One that is there is replaced.

        Raises:
            UserError: it cannot be written.
        """
        from nemo_runspec.planning.codec import save_plan

        return save_plan(self, path)

    def __hash__(self) -> int:
        return hash(self.name)  # what has tables has no hash of its own; plans that are equal have one name

    def __repr__(self) -> str:
        return f"<Plan {self.name}: {', '.join(text for _, text in self._facts())}>"

    def _repr_html_(self) -> str:
        from nemo_runspec.html import facts_table

        return facts_table(self.name, self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """What a person looks for first."""
        shape = self.resources
        gpus = f", {shape.gpus_per_node} GPUs per node" if shape.gpus_per_node else ""
        facts = {
            "recipe": self.recipe.path,
            "config": f"config {self.config_name}" if self.config_name else "",
            "where": f"{self.profile} ({self.executor})" if self.profile else f"this machine ({self.executor})",
            "shape": f"{shape.nodes} {'node' if shape.nodes == 1 else 'nodes'}{gpus}",
            "time": shape.time or "",
            "overrides": " ".join(self.overrides),
            "to fill in": " ".join(self.unfilled),
        }
        return [(key, text) for key, text in facts.items() if text]

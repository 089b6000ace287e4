"""What a Docker profile may say, and what a plan carries of it: a key is declared once, as an attribute of the target.

Pure: Docker is not asked for anything. The arguments of NeMo-Run's `DockerExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nemo_runspec import paths
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import (
    JOB_DIR,
    MOUNTED,
    Mount,
    control_characters,
    one_per_target,
    raise_problems,
    read_mounts,
)
from nemo_runspec.backends.docker.arguments import further_mounts, wrong_arguments
from nemo_runspec.backends.docker.health import HEALTH
from nemo_runspec.backends.docker.identity import identity
from nemo_runspec.backends.docker.sizes import size_in_bytes
from nemo_runspec.errors import Unfilled, UserError, did_you_mean
from nemo_runspec.field import SAME_NAME, Field, argument, carried_values, key, keys_of, text
from nemo_runspec.paths import below
from nemo_runspec.plans.storage import Storage, may_be_mounted_over, mounts_of_words
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.common import adopt, nodes_of, ships_repository
from nemo_runspec.topics import CONTAINER, PLACE, SIZE

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Resources

_ULIMIT = re.compile(r"(?P<name>[a-z]+)[=:](?P<soft>-?\d+)(:(?P<hard>-?\d+))?")
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NETWORK = re.compile(rf"(container:)?{_VOLUME.pattern}")
_UNSET = re.compile(r"\$(?:\{\w+\}|\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerTarget(Target):
    """A Docker job beyond what every plan says.

    What is declared for the class alone are keys that decide about others, or that stand elsewhere in a plan.

    Args:
        container_image: empty where the profile must still name one.
        num_gpus: None for none, -1 for all.
        ulimits: `name:soft[:hard]`, the form NeMo-Run takes apart.
        user: who the container's processes are, as Docker takes it.
        login: the name of a user that the image need
            not know, `home`: the folder that is home to it; both empty where the image says so itself.
        volumes: `source:target[:flags]` with the paths of this machine, the directory for jobs among them.
        store: the folder of artifacts where it is one of them only because the job needs it; '' where it is not.
        unfilled: what is still missing before the job can run, such as the host's side of a mount.
        warnings: what is odd but not wrong.
    """

    container_image: str = key(adopt("container_image", required=True, nemo_run=SAME_NAME, one_line=True), unset="")
    mounts: ClassVar[Field] = adopt(
        "mounts",
        help='What the container sees: "host:container[:ro]". $NAME, ~ and ./ are filled in on this machine; a name '
        "without a slash is a Docker volume. Joined with the recipe's own.",
        nemo_run="volumes",
        one_line=True,
    )
    nproc_per_node: ClassVar[Field] = adopt("nproc_per_node", nemo_run="ntasks_per_node")
    gpus_per_node: ClassVar[Field] = adopt("gpus_per_node", nemo_run="num_gpus")
    packager: ClassVar[Field] = ships_repository(nemo_run="packager")
    num_gpus: int | None = argument(
        "int", "GPUs the container sees, -1 for all; by default gpus_per_node.", topic=SIZE, asks_gpus=True
    )
    runtime: str | None = text("Container runtime, such as nvidia.", nemo_run=SAME_NAME, topic=CONTAINER)
    shm_size: str | None = text("Size of /dev/shm, such as 16g.", nemo_run=SAME_NAME, topic=SIZE)
    ipc_mode: str | None = text("IPC namespace, such as host.", nemo_run=SAME_NAME, topic=CONTAINER)
    ulimits: tuple[str, ...] = argument(
        "list[str]", "Limits, each name=soft[:hard], such as memlock=-1.", default=[], topic=CONTAINER
    )
    network: str = text(
        "Docker network; made if it does not exist.", default="nemo_run", nemo_run=SAME_NAME, topic=CONTAINER
    )
    privileged: bool = argument("bool", "Give the container all of the host's devices.", default=False, topic=CONTAINER)
    user: str = text(
        "User the container runs as: root, uid[:gid], or a name the image knows; by default you, so that what it "
        "writes is yours.",
        unset="",
        one_line=False,
        topic=PLACE,
    )
    healthcheck: dict[str, Any] = argument(  # noqa: RUF009 (a field)
        "table", "Health check, as docker-py takes it.", topic=CONTAINER
    )
    additional_kwargs: dict[str, Any] = argument(  # noqa: RUF009 (a field)
        "table",
        'Further arguments of docker-py\'s containers.run, such as { mem_limit = "32g" }; they win over all others.',
        verbatim=True,
    )

    login: str = ""
    home: str = ""
    volumes: tuple[str, ...] = ()
    store: str = ""
    unfilled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    gpus_key = "num_gpus"

    def gpus(self, resources: Resources) -> int | None:
        """GPUs the container sees; None for all of the machine's, and where docker-py's own argument asks for them.

        NVIDIA's runtime gives a container those that its image's NVIDIA_VISIBLE_DEVICES names, unless it is asked for
        some.
        """
        if self.num_gpus == -1 or "device_requests" in self.additional_kwargs:
            return None
        if self.runtime == "nvidia" and not self.num_gpus:
            return None
        return self.num_gpus or 0

    def storage(self, job_dir: str) -> Storage:
        """As `Target.storage`: what `additional_kwargs` mounts counts as `mounts` does."""
        words = [word.replace(JOB_DIR, job_dir, 1) for word in (*self.volumes, f"{job_dir}:{MOUNTED}")]
        return Storage((*mounts_of_words(words), *further_mounts(self.additional_kwargs)), link_of=_link)


FIELDS: tuple[Field, ...] = keys_of(DockerTarget)


def make_target(request: TargetRequest) -> DockerTarget:
    """The Docker part of a plan.

    Raises:
        UserError: values Docker or NeMo-Run would misread, all of them at once.
    """
    env = request.env
    problems = control_characters(env, (declared.name for declared in FIELDS if declared.one_line))
    if nodes_of(env) > 1:
        problems.append(
            UserError(
                f"nodes = {env['nodes']}: executor 'docker' runs on one node",
                remedy="set nodes = 1, or use Slurm",
                key="nodes",
            )
        )
    if (env.get("num_gpus") or 0) < -1:
        problems.append(
            UserError(
                f"num_gpus = {env['num_gpus']} is no number of GPUs",
                remedy="write 0 or more, or -1 for all",
                key="num_gpus",
            )
        )
    ulimits = _ulimits(env.get("ulimits") or (), problems)
    volumes = _volumes(env.get("mounts") or (), problems)
    store = _unmounted(request.store, volumes, env.get("additional_kwargs") or {})
    user = identity(env.get("user"), problems)
    problems += _wrong_network(env) + _wrong_sizes(env) + _wrong_health(env.get("healthcheck") or {})
    problems += wrong_arguments(env.get("additional_kwargs") or {})
    raise_problems("docker", problems)
    target = DockerTarget(**carried_values(DockerTarget, env))
    gpus = env.get("gpus_per_node") if target.num_gpus is None else target.num_gpus
    return replace(
        target,
        num_gpus=gpus or None,
        ulimits=ulimits,
        user=user.user,
        login=user.login,
        home=user.home,
        volumes=(f"{store}:{store}", *volumes) if store else volumes,
        store=store,
        unfilled=tuple(Unfilled(line, key="mounts") for line in missing_sources(volumes, request.provided)),
    )


def _ulimits(given: Any, problems: list[UserError]) -> tuple[str, ...]:
    found = []
    for limit in given:
        match = _ULIMIT.fullmatch(limit)
        if match is None:
            problems.append(
                UserError(f"ulimits: {limit!r} is not name=soft[:hard]", remedy='such as "memlock=-1"', key="ulimits")
            )
        else:
            found.append(":".join(part for part in match.group("name", "soft", "hard") if part))
    return tuple(found)


def _volumes(given: Any, problems: list[UserError]) -> tuple[str, ...]:
    mounts = [_here(mount, problems) for mount in read_mounts(given, "docker", problems)]
    folder = str(paths.run_dir())
    if ":" in folder:
        problems.append(
            UserError(
                f"Docker cannot mount a path with a colon: {folder}", remedy="set NEMOTRON_HOME to another folder"
            )
        )
        return ()
    seen = any(mount.source == mount.target and below(folder, mount.target) for mount in mounts)
    own = () if seen else (Mount(folder, folder),)
    return tuple(map(str, one_per_target((*mounts, *own), problems)))


def _unmounted(store: str, volumes: tuple[str, ...], more: Mapping[str, Any]) -> str:
    """The folder of artifacts where the container does not see it, and it can be mounted."""
    seen = Storage((*mounts_of_words(volumes), *further_mounts(more))).mount_of(store) if store else None
    return os.path.normpath(store) if store and not seen and may_be_mounted_over(store) else ""


def _link(path: str) -> str | None:
    try:
        return str(Path(path).readlink())
    except OSError:
        return None


def _here(mount: Mount, problems: list[UserError]) -> Mount:
    """The mount with its source as Docker wants it: absolute, or the name of a volume."""
    if mount.source.startswith(JOB_DIR) or _VOLUME.fullmatch(mount.source):
        return mount
    try:
        source = str(paths.expand_user(os.path.expandvars(mount.source), "mounts"))
    except UserError as error:
        problems.append(error)
        return mount
    unset = _UNSET.search(source)
    if unset:
        problems.append(
            UserError(
                f"mounts: '{mount}' needs the variable {unset[0]}, which is not set",
                remedy="set it, or write the path",
                key="mounts",
            )
        )
    return Mount(os.path.normpath(Path.cwd() / source), mount.target, mount.flags)


def missing_sources(volumes: Iterable[str], provided: Iterable[str] = ()) -> list[str]:
    """A line for every mount whose path is not there: Docker would make it, empty and owned by root.

    Args:
        provided: paths that are made before the job starts. The directory for jobs is one.
    """
    made = {*provided, str(paths.run_dir())}
    mounts = (Mount(*volume.split(":", 2)) for volume in volumes)
    return [
        f"mounts: {mount.source} of '{mount}' is not there"
        for mount in mounts
        if mount.source.startswith("/")
        and not mount.source.startswith(JOB_DIR)
        and mount.source not in made
        and not os.path.lexists(mount.source)
    ]


def _wrong_network(env: Mapping[str, Any]) -> list[UserError]:
    network = env.get("network")
    if not network or _NETWORK.fullmatch(network):
        return []
    return [
        UserError(
            f"network: {network!r} is no name of a Docker network",
            remedy='write letters, digits, "_", "." and "-"; or host, none, bridge, "container:NAME"',
            key="network",
        )
    ]


def _wrong_sizes(env: Mapping[str, Any]) -> list[UserError]:
    size = env.get("shm_size")
    if not size or size_in_bytes(size) is not None:
        return []
    return [
        UserError(
            f"shm_size: {size!r} is no size",
            remedy='write a number and a unit, such as "16g" or "512m"',
            key="shm_size",
        )
    ]


def _wrong_health(check: Mapping[str, Any]) -> list[UserError]:
    unknown = [key for key in check if key not in HEALTH]
    if not unknown:
        return []
    known = ", ".join(HEALTH)
    return [
        UserError(
            f"healthcheck has no '{unknown[0]}'",
            remedy=did_you_mean(unknown[0], HEALTH) or f"keys: {known}",
            key="healthcheck",
        )
    ]

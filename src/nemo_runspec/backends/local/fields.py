"""What a local profile may say, and what a plan carries of it: keys are declared as attributes of the target. Pure."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.errors import UserError
from nemo_runspec.field import Field, carried_values, keys_of, plain
from nemo_runspec.plans.storage import Storage
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.common import adopt, nodes_of
from nemo_runspec.topics import FILES


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTarget(Target):
    """A local job beyond what every plan says.

    Args:
        job_dir: as the profile wrote it, None for the default.
        warnings: what is odd but not wrong.
    """

    job_dir: str | None = plain(
        "str", "Directory for outputs and caches (NEMO_RUN_DIR in the job); by default ~/.nemotron/run.", topic=FILES
    )
    nproc_per_node: ClassVar[Field] = adopt(
        "nproc_per_node",
        help="Processes that torchrun starts; by default gpus_per_node, else 1. Under direct and ray there is one.",
        nemo_run="ntasks_per_node",
    )
    nodes: ClassVar[Field] = adopt("nodes", help="A local run has one node.", nemo_run="nodes")
    mounts: ClassVar[Field] = adopt(
        "mounts",
        help="Not used: a local run sees this machine as it is.",
        never_sent="a warning says that it is not used",
    )
    warnings: tuple[str, ...] = ()

    def storage(self, job_dir: str) -> Storage:
        """As `Target.storage`: a job sees this machine as it is."""
        return Storage(whole=True)


FIELDS: tuple[Field, ...] = (
    *keys_of(LocalTarget),
    adopt(
        "container_image",
        help="Not used: a local run has no container.",
        never_sent="a local run has no container",
    ),
)
"""The image is no attribute of the target: there every target says which image its job has, and this one has none."""

_SYSTEMS = {"Darwin": "macOS"}


def check_system() -> str:
    """This machine's system, which has to be Linux: what runs beside a job looks its processes up as Linux has them.

    Raises:
        UserError: it is another one, such as macOS.
    """
    system = platform.system()
    if system != "Linux":
        raise UserError(
            f"a local job runs on Linux, and this machine's system is {_SYSTEMS.get(system, system)}",
            remedy="name a profile that runs elsewhere, or in a container: --run PROFILE",
        )
    return system


def make_target(request: TargetRequest) -> LocalTarget:
    """The local part of a plan.

    Raises:
        UserError: more than one node.
    """
    nodes = nodes_of(request.env)
    if nodes != 1:
        raise UserError(
            f"nodes = {nodes}: a local run has one node, this machine",
            remedy="run.env.nodes=1, a config made for one node (such as -c tiny), or a profile of another executor",
            key="nodes",
        )
    return LocalTarget(**carried_values(LocalTarget, request.env), warnings=tuple(_warnings(request)))


def _warnings(request: TargetRequest) -> Iterator[str]:
    env = request.env
    if env.get("mounts"):
        nor = ", and no repository is cloned for them" if request.provided else ""
        yield f"mounts: not used by executor 'local'{nor}"
    processes = env.get("nproc_per_node") or 1
    if request.launch == "direct" and processes > 1:
        yield f"nproc_per_node = {processes} is not used: the recipe's launch is direct, and a local run starts it once"

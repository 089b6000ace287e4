"""Whether a job's inputs are on the cluster, as its login node sees them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from nemo_runspec.backends.mounted import outside
from nemo_runspec.backends.slurm.client import connection_of, host_of
from nemo_runspec.backends.slurm.cluster.answer import run_script
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.paths import HOME
from nemo_runspec.backends.slurm.shell import PRELUDE, program
from nemo_runspec.errors import UserError
from nemo_runspec.paths import below
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of

_OF_A_NODE = ("/tmp", "/var/tmp", "/dev/shm", "/run")
"""What every node has of its own: the login node's tells nothing. Nor does it where it lacks a disk altogether."""

_ONLY_THERE = re.compile(r"\$(?:\{\w+\}|\w+)|(?:^|/)\.\.(?=[/ ]|$)")
"""What only the node can tell: a variable, and where `..` leads from a link."""


def present(plan: Plan, paths: Sequence[str]) -> Mapping[str, bool | None]:
    """Each path of the job → whether it is there; None for what only the container's image may hold. One round trip.

    Raises:
        UserError: the login node does not answer as it should. Unreachable: it does not answer.
    """
    cluster_paths = {path: _cluster_path(plan, path) for path in paths}
    wanted = [path_there for path_there in cluster_paths.values() if path_there is not None]
    if not wanted:
        return dict.fromkeys(paths)
    host = host_of(connection_of(target_of(plan, SlurmTarget)))
    answer = run_script(host, f"{PRELUDE}\nhome={HOME}\npaths=({shlex.join(wanted)})\n{program('cluster/inputs.sh')}")
    answers = [section.rows[0][0] for section in answer.sections.values() if section.rows]
    if len(answers) != len(wanted):
        raise UserError(f"the job's inputs cannot be looked at: {answer.said or 'no answer'}", where=host.name)
    states = {"there": True, "missing": False}
    found = dict(zip(wanted, map(states.get, answers), strict=True))
    return {path: found[path_there] if path_there is not None else None for path, path_there in cluster_paths.items()}


def _cluster_path(plan: Plan, path: str) -> str | None:
    """Where the login node has a path of the job; None where it cannot be said, as on a disk of the nodes' own."""
    target = target_of(plan, SlurmTarget)
    path_there = outside(path, target.mounts) if target.container_image else path
    if not path_there or not path_there.startswith(("/", HOME)) or _ONLY_THERE.search(f"{path} {path_there}"):
        return None
    shared = below(path_there, target.remote_job_dir)
    return path_there if shared or not any(below(path_there, folder) for folder in _OF_A_NODE) else None

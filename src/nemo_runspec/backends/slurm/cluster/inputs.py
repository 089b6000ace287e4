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

_NAME = re.compile(r"\$(?:\{\w+\}|\w+)")


def present(plan: Plan, paths: Sequence[str]) -> Mapping[str, bool | None]:
    """Each path of the job → whether it is there; None for what only the container's image may hold. One round trip.

    Raises:
        UserError: the login node does not answer as it should. Unreachable: it does not answer.
    """
    places = {path: _place(plan, path) for path in paths}
    asked = [place for place in places.values() if place is not None]
    if not asked:
        return dict.fromkeys(paths)
    host = host_of(connection_of(target_of(plan, SlurmTarget)))
    answer = run_script(host, f"{PRELUDE}\nhome={HOME}\npaths=({shlex.join(asked)})\n{program('cluster/inputs.sh')}")
    answers = [section.rows[0][0] for section in answer.sections.values() if section.rows]
    if len(answers) != len(asked):
        raise UserError(f"the job's inputs cannot be looked at: {answer.said or 'no answer'}", where=host.name)
    words = {"there": True, "missing": False}
    found = dict(zip(asked, map(words.get, answers), strict=True))
    return {path: found[place] if place is not None else None for path, place in places.items()}


def _place(plan: Plan, path: str) -> str | None:
    """Where the login node has a path of the job; None where it cannot be said, as on a disk of the nodes' own."""
    target = target_of(plan, SlurmTarget)
    place = outside(path, target.mounts) if target.container_image else path
    if not place or not place.startswith(("/", HOME)) or _NAME.search(place):
        return None
    shared = below(place, target.remote_job_dir)
    return place if shared or not any(below(place, folder) for folder in _OF_A_NODE) else None

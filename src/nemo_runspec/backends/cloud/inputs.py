"""Checks a cloud job's inputs: a volume can be asked only where this machine has it mounted too."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.paths import below, expanded
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of


def present(plan: Plan, paths: Sequence[str]) -> Mapping[str, bool | None]:
    """Each path of the job → whether it is there; None where that cannot be known from here.

    What the profile's `inputs` brings from S3 is none of it: the job itself fetches that.
    """
    here, there = target_of(plan, CloudTarget).run_dir_here, get_backend(plan.executor).run_dir(plan.run["env"])
    return {path: _is_there(path, there, here) for path in paths}


def _is_there(path: str, there: str, here: str) -> bool | None:
    if not here or not below(path, there):
        return None
    return expanded(posixpath.join(here, posixpath.relpath(path, there))).exists()

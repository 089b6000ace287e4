"""A plan with its holes filled by what the cluster has said of itself."""

from __future__ import annotations

from nemo_runspec.backends.slurm.places import HOME
from nemo_runspec.planning.model import Plan
from nemo_runspec.planning.rename import replaced


def fill(plan: Plan, home: str) -> Plan:
    """The same plan with the home directory of the login node in all its texts: paths, variables, configuration."""
    filled: Plan = replaced(plan, HOME, home.rstrip("/"))
    return filled

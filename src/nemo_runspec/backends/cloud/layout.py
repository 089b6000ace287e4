"""The layout of a cloud job's files, as its pods see them."""

from __future__ import annotations

import posixpath

from nemo_runspec.plans.model import Plan
from nemo_runspec.script.layout import JobLayout

PACKAGES = "packages"
"""Below the directory for jobs: code packages, each `<digest>.tar.gz`, there once for all jobs."""


def job_layout(plan: Plan) -> JobLayout:
    """The job directory as its pods see it: where it lies on the volume."""
    return JobLayout(plan.job_dir)


def run_dir(plan: Plan) -> str:
    """The directory for jobs, packages and caches, as pods see it: `<run dir>/jobs/<name>` is the job's."""
    return posixpath.dirname(posixpath.dirname(plan.job_dir)) or "/"

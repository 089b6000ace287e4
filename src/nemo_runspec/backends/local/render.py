"""Renders a local run: the job script's text and the process. Pure."""

from __future__ import annotations

from nemo_runspec.backends.base import Rendering
from nemo_runspec.plans.model import Plan
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.programs import programs_of
from nemo_runspec.script.render import job_file, render_job_script


def render(plan: Plan) -> Rendering:
    """The job script and the command that runs it."""
    layout = JobLayout(plan.job_dir)
    script = job_file("job.sh", render_job_script(plan, layout))
    return Rendering((script,), ("bash", layout.job_script), programs=programs_of(plan))

"""What a local run starts: the job script's text and the process. Pure."""

from __future__ import annotations

from typing import Any

from nemo_runspec.backends.base import RenderedFile, Rendering
from nemo_runspec.planning.model import Plan
from nemo_runspec.script import JobLayout, render_job_script


def layout_of(plan: Plan) -> JobLayout:
    """Where the job's files lie."""
    return JobLayout(plan.job_dir)


def render(plan: Plan) -> Rendering:
    """The job script and the command that runs it."""
    layout = layout_of(plan)
    script = RenderedFile("job script", "job.sh", render_job_script(plan, layout))
    return Rendering((script,), ("bash", layout.job_script))


def config_files(plan: Plan) -> dict[str, str]:
    """`train.yaml`, what the script reads, and `job.yaml`, the same with the `run` section."""
    return {"train.yaml": _yaml(plan.config), "job.yaml": _yaml({"run": plan.run, **plan.config})}


def _yaml(tree: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120)

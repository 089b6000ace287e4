"""The job side: one bash script for all backends, and the exit markers it leaves."""

from __future__ import annotations

from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.render import render_job_script

__all__ = ["JobLayout", "render_job_script"]

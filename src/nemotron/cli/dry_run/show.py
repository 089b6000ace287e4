"""Shows one plan in the view that was asked for."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import Rendering
from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import plan_to_dict
from nemo_runspec.planning.limits import gpu_hours
from nemo_runspec.plans.model import Plan
from nemo_runspec.text import clean
from nemotron.cli.pager import show, show_exactly, width_of_terminal
from nemotron.cli.views import View


def show_plan(plan: Plan, view: View, *, resolved: Rendering | None = None, saved_to: str | None = None) -> None:
    """Prints one plan and what it would send. Nothing else happens.

    Args:
        resolved: what would be sent, as far as its platform has been asked for what only it knows.
        saved_to: the file that the caller writes the plan to.

    Raises:
        UserError: its text alone is wanted, and there is none.
    """
    if view is View.CONFIG:
        _show_config(plan)
        return
    rendering = resolved or get_backend(plan.executor).make_rendering(plan)
    if view is View.JSON:
        print(json.dumps(as_json(plan, rendering), indent=2, ensure_ascii=False))
    elif view is View.SCRIPT:
        _show_script(plan, rendering)
    elif view is View.FULL:
        from nemotron.cli.dry_run.full import full

        show(full(plan, rendering, saved_to=saved_to))
    else:
        from nemotron.cli.dry_run.page import page

        show(page(plan, rendering, width=width_of_terminal(), saved_to=saved_to))


def as_json(plan: Plan, rendering: Rendering | None) -> dict[str, Any]:
    """A plan, what it may cost and what would be sent, as plain tables and lists."""
    return {
        "plan": plan_to_dict(plan),
        "gpu_hours": gpu_hours(plan),
        "rendering": asdict(rendering) if rendering else None,
    }


def _show_config(plan: Plan) -> None:
    """The composed configuration alone: `train.yaml`, byte for byte."""
    from nemo_runspec.submission.layout import config_text

    show_exactly(config_text(plan))


def _show_script(plan: Plan, rendering: Rendering | None) -> None:
    """The text alone that the platform gets; what keeps it from being sent as it is goes to the error stream."""
    sent = rendering.sent_file if rendering else None
    if rendering is None or sent is None:
        raise UserError(f"executor '{plan.executor}' has no text to show", remedy="leave --script out")
    open_lines = [f"before submission: {line}" for line in plan.unfilled]
    open_lines += [f"hole {hole}" for hole in rendering.holes]
    print("".join(f"nemotron: {clean(line)}\n" for line in open_lines), end="", file=sys.stderr)
    show_exactly(sent.text)

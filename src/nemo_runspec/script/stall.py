"""The watchdog of a job script: `stall.sh`, where the profile has a `stall_timeout`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from nemo_runspec.plans.model import Plan
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.node_identity import NodeIdentity


def stall_section(plan: Plan, layout: JobLayout, identity: NodeIdentity) -> Iterator[tuple[str, ...]]:
    """The part of a job script that ends a command which hangs; none where it is not asked for.

    A backend asks for it by its target's `stall_timeout` (seconds), where it can start a job again also by its
    `stall_action`, and names its log in its node identity.
    """
    seconds = plan.target.stall_timeout
    if not seconds:
        return
    yield (
        "# --- the watchdog",
        f"nemotron_stall_seconds={seconds}",
        f"nemotron_stall_action={plan.target.stall_action}",
        f"nemotron_stall_metrics={shlex.quote(layout.metrics)}",
        f'nemotron_stall_log={shlex.quote(layout.root)}"/{identity.log}"' if identity.log else "nemotron_stall_log=''",
        _program(),
    )


@lru_cache
def _program() -> str:
    return Path(__file__).with_name("stall.sh").read_text(encoding="utf-8").strip()

"""A sweep led by a process without a terminal."""

from __future__ import annotations

from collections.abc import Callable

from nemo_runspec.supervise.detach import Ready, detach
from nemo_runspec.sweeps.console import SweepCaller
from nemo_runspec.sweeps.life import Recorded
from nemo_runspec.sweeps.store import SweepStore


def detached_sweep(lead: Callable[[Recorded], int], caller: SweepCaller) -> int:
    """Lets a process lead a sweep without this terminal; says its name once it is written down. The exit code.

    Args:
        lead: does so, and calls what it is given once the sweep is written down.

    Raises:
        UserError: what `lead` raised before that.
    """
    group = start_detached(lead)
    caller.console.answer(group)
    caller.console.say(f"{group}: runs on without this terminal")
    caller.console.say(f"  nemotron jobs show {group}    nemotron jobs cancel {group}")
    return 0


def start_detached(lead: Callable[[Recorded], int]) -> str:
    """As `detached_sweep`, without a word; the sweep's name."""

    def work(ready: Ready) -> None:
        lead(lambda sweep: ready(sweep.group, SweepStore().folder(sweep.group) / "sweep.log"))

    return detach(work)

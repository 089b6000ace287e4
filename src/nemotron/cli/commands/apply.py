"""`nemotron apply plan.json`: runs exactly the plan that was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemotron.cli.click import Command
from nemotron.cli.commands.build import argument, command, option

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Plan


def make(help_text: str) -> Command:
    """The command."""
    return command(
        "apply",
        help_text,
        _call,
        argument("plan", "A plan saved with --dry-run --out FILE."),
        option("--dry-run", "Show the saved plan again; do nothing."),
        option("--resolve", "With --dry-run: ask the platform for what only it knows, and show that too."),
    )


def _call(plan: str, dry_run: bool, resolve: bool) -> int:
    from nemo_runspec.paths import expanded
    from nemo_runspec.planning.codec import load_plan
    from nemo_runspec.runner.apply import ready_saved
    from nemo_runspec.runner.run import run_plan
    from nemotron.cli.console import caller
    from nemotron.cli.resolve import check_resolve

    check_resolve(resolve, dry_run)
    saved = load_plan(expanded(plan))
    if dry_run:
        _show(saved, resolve)
        return 0
    who = caller()
    return run_plan(ready_saved(saved, who), who)


def _show(saved: Plan, resolve: bool) -> None:
    from nemo_runspec.planning.planned import Planned
    from nemo_runspec.planning.secrets_again import look_up
    from nemotron.cli.preview import print_preview
    from nemotron.cli.resolve import resolved, say_if_nothing

    rendering = resolved(Planned(saved, look_up(saved))) if resolve else None
    print_preview(saved, as_json=False, resolved=rendering)
    if resolve:
        say_if_nothing(saved, rendering)

"""`nemotron apply plan.json`: runs exactly the plan that was shown."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

from nemotron.cli.click import Command
from nemotron.cli.commands.build import argument, command, option

if TYPE_CHECKING:
    from nemo_runspec.planning.model import Plan


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
    from nemo_runspec.backends import get_backend
    from nemo_runspec.jobs import JobStore
    from nemo_runspec.paths import expanded, jobs_dir
    from nemo_runspec.planning.build import Planned
    from nemo_runspec.planning.codec import load_plan
    from nemo_runspec.planning.names import new_name
    from nemo_runspec.planning.rename import rename
    from nemo_runspec.planning.secrets_again import look_up
    from nemo_runspec.runner.client import ready_client
    from nemo_runspec.runner.inputs import looked_at, require_inputs
    from nemo_runspec.runner.retry import looked_at_again
    from nemo_runspec.runner.run import provide_inputs, run_plan
    from nemotron.cli.console import caller
    from nemotron.cli.resolve import check_resolve

    check_resolve(resolve, dry_run)
    saved = load_plan(expanded(plan))
    if dry_run:
        _show(saved, resolve)
        return 0
    if JobStore(jobs_dir()).exists(saved.name):
        fresh = rename(saved, new_name(saved.recipe.path))
        print(f"{saved.name} has been run before; this run is {fresh.name}", file=sys.stderr)
        saved = fresh
    saved = dataclasses.replace(saved, consumes=looked_at_again(saved.consumes))
    ready_client(saved)
    values = look_up(saved)
    if get_backend(saved.executor).remote:
        require_inputs(looked_at(saved))  # the plan that was shown is the one that is sent: nothing is made for it
    else:
        provide_inputs(saved, caller())
    return run_plan(Planned(saved, values), caller())


def _show(saved: Plan, resolve: bool) -> None:
    from nemo_runspec.planning.build import Planned
    from nemo_runspec.planning.secrets_again import look_up
    from nemotron.cli.preview import print_preview
    from nemotron.cli.resolve import resolved, say_if_nothing

    rendering = resolved(Planned(saved, look_up(saved))) if resolve else None
    print_preview(saved, as_json=False, resolved=rendering)
    if resolve:
        say_if_nothing(saved, rendering)

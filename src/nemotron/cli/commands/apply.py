"""`nemotron apply plan.json`: runs exactly the plan that was shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nemotron.cli.click import Command
from nemotron.cli.complete import plans
from nemotron.cli.options import label_parameters
from nemotron.cli.parameters import argument, command, option

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Plan
    from nemotron.cli.views import View


def make(help_text: str) -> Command:
    """The command."""
    return command(
        "apply",
        help_text,
        _call,
        argument("plan", "A plan saved with --dry-run --out FILE.", complete=plans),
        *label_parameters(),
        option("--dry-run", "Show the saved plan again; do nothing."),
        option("--full", "With --dry-run: show everything, every value and every text."),
        option("--script", "With --dry-run: show only the text that the platform gets, as for sbatch."),
        option("--json", "The job as JSON; all else on the error stream."),
        option("--resolve", "With --dry-run: ask the platform for what only it knows, and show that too."),
    )


def _call(
    plan: str,
    name: str | None,
    tag: Sequence[str],
    note: str | None,
    dry_run: bool,
    full: bool,
    script: bool,
    as_json: bool,
    resolve: bool,
) -> int:
    from nemo_runspec.paths import expanded
    from nemo_runspec.planning.codec import load_plan
    from nemo_runspec.plans.labels import labels_of
    from nemo_runspec.runner.apply import ready_saved, relabelled
    from nemo_runspec.runner.run import run_plan
    from nemotron.cli.as_json import run_job
    from nemotron.cli.resolve import check_resolve
    from nemotron.cli.views import View, check_views

    asked = {View.FULL: full, View.SCRIPT: script, View.JSON: as_json}
    view = check_views([each for each, given in asked.items() if given], dry_run)
    check_resolve(resolve, dry_run)
    saved = relabelled(load_plan(expanded(plan)), labels_of(name, tag, note))
    if dry_run:
        _show(saved, view, resolve)
        return 0
    return run_job(lambda caller: run_plan(ready_saved(saved, caller), caller), as_json=as_json)


def _show(saved: Plan, view: View, resolve: bool) -> None:
    from nemo_runspec.planning.planned import Planned
    from nemo_runspec.planning.secrets_again import look_up
    from nemotron.cli.dry_run.show import show_plan
    from nemotron.cli.resolve import resolved, say_if_nothing

    rendering = resolved(Planned(saved, look_up(saved))) if resolve else None
    show_plan(saved, view, resolved=rendering)
    if resolve:
        say_if_nothing(saved, rendering)

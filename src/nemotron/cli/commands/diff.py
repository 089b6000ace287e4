"""`nemotron diff A B`: what differs between two plans, or between a plan and the last run of its recipe."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.text import clean
from nemotron.cli.click import Command
from nemotron.cli.complete import plans
from nemotron.cli.parameters import argument, command, option
from nemotron.cli.text import paint


def make(help_text: str) -> Command:
    """The command."""
    return command(
        "diff",
        f"{help_text} With one plan: against the last run of its recipe. A and B are plan files, job names or 'last'.",
        _call,
        argument("a", "A plan file, a job's name or 'last'.", complete=_complete),
        argument("b", "The other one; by default the last run of the same recipe.", required=False, complete=_complete),
        option("--json", "Machine-readable output."),
    )


def _call(a: str, b: str | None, as_json: bool) -> int:
    from nemo_runspec.planning.diff import diff_plans

    if b is None:
        after = _plan(a)
        before = _last_run_of(after.recipe.path)
    else:
        before, after = _plan(a), _plan(b)
    differences = diff_plans(before, after)
    if as_json:
        print(json.dumps([asdict(d) for d in differences], indent=2, ensure_ascii=False))
        return 0
    print(paint(f"- {before.name}", "red"))
    print(paint(f"+ {after.name}", "green"))
    if not differences:
        print("No difference but the name.")
    for d in differences:
        print(d.path)
        if d.kind != "added":
            print(paint(f"  - {_text(d.before)}{_source(d.before_source)}", "red"))
        if d.kind != "removed":
            print(paint(f"  + {_text(d.after)}{_source(d.after_source)}", "green"))
    return 0


def _complete(ctx: Any, param: Any, incomplete: str) -> list[Any]:
    from nemotron.cli.commands.jobs import complete

    return [*complete.jobs(ctx, param, incomplete), *plans(ctx, param, incomplete)]


def _plan(name: str) -> Any:
    from nemo_runspec.paths import expanded, jobs_dir
    from nemo_runspec.planning.codec import load_plan
    from nemo_runspec.records import JobStore

    path = expanded(name)
    if path.is_file():
        return load_plan(path)
    if name.endswith(".json"):
        raise UserError(f"no such plan file: {name}", where=name)
    record = JobStore(jobs_dir()).get(name)
    return load_plan(jobs_dir() / record.name / "plan.json")


def _last_run_of(recipe: str) -> Any:
    from nemo_runspec.paths import jobs_dir
    from nemo_runspec.planning.codec import load_plan
    from nemo_runspec.records import JobStore

    record = JobStore(jobs_dir()).last_for(recipe)
    if record is None:
        raise UserError(f"no run of {recipe} is recorded yet", remedy="name a second plan: nemotron diff A B")
    return load_plan(jobs_dir() / record.name / "plan.json")


def _text(value: Any) -> str:
    return clean(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _source(label: str | None) -> str:
    return f"   {label}" if label else ""

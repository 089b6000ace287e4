"""`nemotron steps lint`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from nemo_runspec.planning.lint import LintFinding, lint
from nemo_runspec.steps import all_steps, find_step, step_id
from nemo_runspec.text import count
from nemotron.cli.forms import print_json
from nemotron.cli.text import paint


def call(ids: Sequence[str], as_json: bool) -> int:
    """Prints what is wrong with the steps of these identifiers, all of them without any; 1 where something is.

    Raises:
        UserError: there is no step of an identifier.
    """
    asked = list(dict.fromkeys(step_id(find_step(ident)) for ident in ids)) or None
    steps = all_steps()
    found = lint(steps, asked)
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        for each in found:
            print("\n".join(_lines(each)))
        looked_at = count(len(asked or steps), "step")
        print(f"{count(len(found), 'finding')} in {looked_at}" if found else f"nothing is wrong with {looked_at}")
    return 1 if found else 0


def _lines(finding: LintFinding) -> list[str]:
    lines = [f"{paint(finding.where, 'bold')}: {finding.what}"]
    return [*lines, f"  fix: {finding.remedy}"] if finding.remedy else lines

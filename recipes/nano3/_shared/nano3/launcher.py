"""Measures what a server offers, or what is deployed, on benchmarks: through nemo-evaluator-launcher 0.2.6.

`recipes/steps/_shared` has the same for steps, which travels with them alone.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nano3.files import write_text_atomic
from nano3.metrics import MetricsLog
from nano3.settings import SettingsError

ENDED = {"success", "failed", "killed", "error", "not_found"}
GROUPS = ("execution", "deployment")
POLL_SECONDS = 10.0
UNKNOWN_POLLS = 30
"""So often in a row nothing may be known of any benchmark; then it is not waited for any longer."""

NO_RESULT = 65
"""The exit status of a run that has measured nothing, as it is that of a job whose output is not whole."""


@dataclass(frozen=True)
class LauncherSettings:
    """`launcher` holds the launcher's own sections; with `dry_run`, it only writes the scripts that it would run."""

    output_dir: Path
    launcher: dict[str, Any]
    dry_run: bool = False


def evaluate(settings: LauncherSettings) -> int:
    """Run the benchmarks and write `results.json`.

    Returns:
        0; 1 where one of them has not ended well, or has left no results; NO_RESULT for a run that was a dry one.
    """
    file = write_config(settings)
    from nemo_evaluator_launcher.api import functional
    from nemo_evaluator_launcher.api.types import RunConfig

    invocation = functional.run_eval(RunConfig.from_hydra(config=str(file)), dry_run=settings.dry_run)
    if settings.dry_run:
        print(f"no result: {settings.output_dir}/launcher has the scripts that would be run")
        return NO_RESULT
    states = _wait(functional.get_status, invocation, settings) if invocation else {}
    made = sorted((settings.output_dir / "launcher").rglob("results.yml"))
    results = {each.parent.parent.name: yaml.safe_load(each.read_text(encoding="utf-8")) for each in made}
    found = {"results": results, "states": states}
    write_text_atomic(settings.output_dir / "results.json", json.dumps(found, indent=2, default=str) + "\n")
    wrong = failure(states, len(made))
    if wrong:
        print(f"{wrong}; see {settings.output_dir}/launcher")
    return int(bool(wrong))


def failure(states: Mapping[str, str], results: int) -> str:
    """What is wrong with a run, by the states of its benchmarks and how many have left results; '' for nothing."""
    if wrong := {job: state for job, state in states.items() if state != "success"}:
        return f"{len(wrong)} of {len(states)} benchmarks have not ended well: {wrong}"
    if not states:
        return "nothing is known of any benchmark"
    return f"{results} of {len(states)} benchmarks have left results" if results < len(states) else ""


def write_config(settings: LauncherSettings) -> Path:
    """The launcher's configuration file: its own groups by their `type`, with the sections laid over them.

    Raises:
        SettingsError: a group is not there, or has no type.
    """
    own = copy.deepcopy(settings.launcher)
    for group in GROUPS:
        if not isinstance(own.get(group), dict) or "type" not in own[group]:
            raise SettingsError(f"missing key 'launcher.{group}.type'")
    groups = [{group: own[group].pop("type")} for group in GROUPS]
    own["execution"]["output_dir"] = str(settings.output_dir / "launcher")
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    file = settings.output_dir / "launcher.yaml"
    write_text_atomic(file, yaml.safe_dump({"defaults": [*groups, "_self_"], **own}, sort_keys=False))
    return file


def _wait(status: Any, invocation: str, settings: LauncherSettings) -> dict[str, str]:
    """The state of every benchmark, when all have ended, or when for long nothing was known of any of them."""
    log, unknown = MetricsLog(settings.output_dir), 0
    while True:
        states = {str(job["job_id"]): str(job["status"]) for job in status([invocation])}
        ended = sum(state in ENDED for state in states.values())
        log.write({"step": ended, "total_steps": len(states)})
        unknown = 0 if set(states.values()) - {"unknown"} else unknown + 1
        if (states and ended == len(states)) or unknown >= UNKNOWN_POLLS:
            return states
        time.sleep(POLL_SECONDS)

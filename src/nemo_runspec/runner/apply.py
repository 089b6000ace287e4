"""A plan that was saved, made ready to run: exactly what was shown, under a new name where it has been run before."""

from __future__ import annotations

import dataclasses

from nemo_runspec.backends import get_backend
from nemo_runspec.planning.names import name_for
from nemo_runspec.planning.planned import Planned
from nemo_runspec.planning.rename import rename
from nemo_runspec.planning.secrets_again import look_up
from nemo_runspec.plans.labels import Labels
from nemo_runspec.plans.model import Plan
from nemo_runspec.records import JobStore
from nemo_runspec.runner.client import Caller, ready_client
from nemo_runspec.runner.inputs import require_inputs, unseen_inputs, with_inputs_checked
from nemo_runspec.runner.retry import with_paths_checked
from nemo_runspec.runner.run import provide_inputs
from nemo_runspec.runner.wandb_versions import refuse_unpinned


def fresh(plan: Plan, caller: Caller) -> Plan:
    """The plan, under a new name where there is a job of that name."""
    if not JobStore().exists(plan.name):
        return plan
    renamed = rename(plan, name_for(plan.labels, plan.recipe.path))
    caller.console.say(f"{plan.name} has been run before; this run is {renamed.name}")
    return renamed


def relabelled(plan: Plan, labels: Labels) -> Plan:
    """The plan with labels given now; those that are not given stay as they were saved."""
    given = {key: value for key, value in dataclasses.asdict(labels).items() if value}
    known = dataclasses.replace(plan, labels=dataclasses.replace(plan.labels, **given))
    return rename(known, name_for(known.labels, plan.recipe.path)) if labels.name else known


def ready_saved(saved: Plan, caller: Caller) -> Planned:
    """A saved plan with its secrets, looked up now. On this machine its missing inputs are made.

    Raises:
        UserError: it cannot be submitted, a secret is gone, or an input is missing.
    """
    refuse_unpinned(saved)
    plan = fresh(saved, caller)
    plan = dataclasses.replace(plan, consumes=with_paths_checked(plan.consumes))
    ready_client(plan)
    values = look_up(plan)
    if get_backend(plan.executor).remote:
        # The plan that was shown is the one that is sent: nothing is made for it.
        looked_at = with_inputs_checked(plan)
        for line in unseen_inputs(looked_at):
            caller.console.say(line)
        require_inputs(looked_at)
    else:
        provide_inputs(plan, caller)
    return Planned(plan, values)

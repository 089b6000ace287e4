"""A job elsewhere that makes an input, waited for: its platform starts no job after another one."""

from __future__ import annotations

from nemo_runspec.errors import UserError
from nemo_runspec.interrupts import Interrupted
from nemo_runspec.plans.model import Artifact, Plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.remote.cancel import end_makers
from nemo_runspec.remote.input_jobs import awaited
from nemo_runspec.remote.wait import exit_code_of, wait_for
from nemo_runspec.runner.client import Caller
from nemo_runspec.runner.inputs import not_made


def wait_for_input(plan: Plan, artifact: Artifact, record: JobRecord, caller: Caller) -> None:
    """Waits until the job has made its artifact; attached, with its log. With a sweep that is cancelled it is ended.

    Raises:
        UserError: it has not, or nobody waits any longer; it goes on then.
    """
    store = JobStore()
    try:
        with awaited(store, record):
            ended = _ended(store, plan, record, caller)
    except Interrupted:
        end_makers(store, [record.name], (), "the end of its sweep", caller.console.say)
        raise
    except KeyboardInterrupt:
        left = UserError(
            f"{plan.recipe.path} was not submitted; {record.name} goes on and makes '{artifact.artifact}'",
            remedy=f"the same command later; or nemotron jobs cancel {record.name}",
        )
        left.exit_code = 130
        raise left from None
    if ended.state != "succeeded":
        raise not_made(plan, artifact, exit_code_of(ended), ended.name)


def _ended(store: JobStore, plan: Plan, record: JobRecord, caller: Caller) -> JobRecord:
    if plan.mode == "batch" or not caller.attached:
        caller.console.say(f"{record.name}: waiting for its end, before {plan.recipe.path} is submitted")
        return wait_for(store, [record.name])[0]
    from nemo_runspec.records.log_view import make_view
    from nemo_runspec.remote.display import make_display
    from nemo_runspec.remote.follow import Follower

    display = make_display()
    ended = Follower(store, record, display, make_view()).run()
    display.ended(ended)
    return ended

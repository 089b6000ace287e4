"""Spool: each node of a job is a process of this machine, started once and left alone. What a backend at least is."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_runspec.backends.base import Backend, Rendering, TargetRequest
from nemo_runspec.field import Field
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.storage import Storage
from nemo_runspec.plans.target import Target, target_of
from nemo_runspec.profiles.common import adopt
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.node_identity import NodeIdentity
from nemo_runspec.script.programs import programs_of
from nemo_runspec.script.render import job_file, render_job_script

FIELDS = (
    Field("spool_dir", "str", "Directory for jobs, outputs and caches.", required=True),
    Field("niceness", "count", "What is added to the priority of its processes, as nice takes it.", default=0),
    adopt("nodes"),
)


@dataclass(frozen=True, slots=True)
class SpoolTarget(Target):
    """A job of the spool beyond what every plan says."""

    niceness: int = 0

    def storage(self, job_dir: str) -> Storage:
        """As `Target.storage`: a job sees this machine as it is."""
        return Storage(whole=True)


def make_target(request: TargetRequest) -> SpoolTarget:
    """The spool's part of a plan. Pure."""
    return SpoolTarget(niceness=request.env.get("niceness") or 0)


def render(plan: Plan) -> Rendering:
    """What each node runs. Pure."""
    script = job_file("job.sh", render_job_script(plan, JobLayout(plan.job_dir)))
    command = ("nice", "-n", str(target_of(plan, SpoolTarget).niceness), "bash", f"{plan.job_dir}/job.sh")
    return Rendering((script,), command, programs=programs_of(plan))


NODE = NodeIdentity(node="${SPOOL_NODE}", nodes="${SPOOL_NODES}", log="logs/*.log", publishes=True)

BACKEND = Backend(
    name="spool",
    remote=True,
    fields=FIELDS,
    target="nemotron_spool:make_target",
    target_type="nemotron_spool:SpoolTarget",
    render="nemotron_spool:render",
    provider="nemotron_spool.provider:SpoolProvider",
    node_identity="nemotron_spool:NODE",
    listings="nemotron_spool.listing:LISTINGS",
    summary="Spool: its jobs.",
    preflight="nemotron_spool.listing:checks",
    run_dir_key="spool_dir",
)

"""Spool: each node of a job is a process of this machine, started once and left alone. What a backend at least is."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from nemo_runspec.backends.base import Backend, RenderedFile, Rendering, TargetRequest
from nemo_runspec.field import carried_values, key, keys_of, plain, text
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.storage import Storage
from nemo_runspec.plans.target import Target, target_of
from nemo_runspec.profiles.common import adopt
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.node_identity import NodeIdentity
from nemo_runspec.script.programs import programs_of
from nemo_runspec.script.render import job_file, render_job_script
from nemo_runspec.topics import FILES, SIZE


@dataclass(frozen=True, slots=True)
class SpoolTarget(Target):
    """A job of the spool beyond what every plan says: the keys of its profile."""

    spool_dir: str = text("Directory for jobs, outputs and caches.", unset="", required=True, topic=FILES)
    nodes: int = key(adopt("nodes"))
    niceness: int = plain("count", "What is added to the priority of its processes.", default=0, topic=SIZE)
    prologue: str = plain("str", "Shell text before the job, on each node.", default="", topic="Spool", verbatim=True)
    secret_vars: Mapping[str, str] = plain("table[str]", "Variable = its file.", topic="Spool", keeps_secrets=True)

    def storage(self, job_dir: str) -> Storage:
        """As `Target.storage`: a job sees this machine as it is."""
        return Storage(whole=True)


def make_target(request: TargetRequest) -> SpoolTarget:
    """The spool's part of a plan. Pure."""
    return SpoolTarget(**carried_values(SpoolTarget, request.env))


def render(plan: Plan) -> Rendering:
    """What each node runs. Pure."""
    target, script = target_of(plan, SpoolTarget), job_file("job.sh", render_job_script(plan, JobLayout(plan.job_dir)))
    lines = [f'export {name}="$(cat {shlex.quote(file)})"' for name, file in target.secret_vars.items()]
    lines += [target.prologue, f"exec nice -n {target.niceness} bash {plan.job_dir}/job.sh"]
    node = RenderedFile("what each node runs", "node.sh", "\n".join(lines) + "\n")
    return Rendering((node, script), ("bash", f"{plan.job_dir}/node.sh"), programs=programs_of(plan))


NODE = NodeIdentity(node="${SPOOL_NODE}", nodes="${SPOOL_NODES}", log="logs/*.log", publishes=True)

BACKEND = Backend(
    name="spool",
    remote=True,
    fields=keys_of(SpoolTarget),
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

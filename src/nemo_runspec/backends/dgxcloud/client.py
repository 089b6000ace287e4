"""run:ai's errands: what `backends.capabilities.CloudProvider` asks for, done over its REST API.

NeMo-Run's `DGXCloudExecutor` 0.11.1 is not used for it: it calls a failed command a success, its cancel ends nothing,
and it takes a pod for every 7 kB of code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.capabilities import ForwardsPorts, OpensShells
from nemo_runspec.backends.cloud.api import AT_ONCE
from nemo_runspec.backends.cloud.observe import PodPlatform
from nemo_runspec.backends.cloud.prepare import Answers, PodProvider, refuse
from nemo_runspec.backends.cloud.render import PAYLOAD
from nemo_runspec.backends.dgxcloud import logs, payload, pods, prepare, resubmit, status, submit, workloads
from nemo_runspec.backends.dgxcloud.api import RunaiApi, connect
from nemo_runspec.backends.dgxcloud.diagnose import diagnose
from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget, claim_name, claim_of
from nemo_runspec.backends.dgxcloud.pods import Pod
from nemo_runspec.backends.provider import Handle
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.enter import ShellRequest
from nemo_runspec.submission.request import Submission
from nemo_runspec.transport.web import Refused


def _find_id(api: RunaiApi, handle: Handle) -> str:
    return str(handle.get("id") or "")


def _stop(api: RunaiApi, handle: Handle) -> None:
    """Suspends its workload, which ends its pods, TERM before KILL, and keeps its record."""
    id = str(handle.get("id") or workloads.workload_id(workloads.find(api, handle) or {}))
    try:
        if id:
            api.suspend(str(handle["kind"]), id)
    except Refused as error:
        if error.status != 409:
            raise


def _delete(api: RunaiApi, handle: Handle, id: str) -> str:
    """Deletes its workload; its files on the claim stay."""
    gone = f"workload {handle.get('workload') or handle['name']} ({id}) of project {handle['project']}"
    return gone if api.delete(str(handle["kind"]), id) else ""


class DgxCloudProvider(PodProvider[RunaiApi], ForwardsPorts, OpensShells):
    """One object without state; connections and the token are shared by the process."""

    platform = PodPlatform(
        "run:ai",
        connect=connect,
        find_id=_find_id,
        poll=status.poll,
        stop=_stop,
        delete=_delete,
        new_chunks=logs.new_chunks,
        last_lines=logs.last_lines,
        replicas=pods.replicas_of,
        events=pods.events_of,
        diagnose=diagnose,
        next_attempt=resubmit.next_attempt,
        explained=frozenset({"failed", "lost"}),
    )

    def check(self, plan: Plan) -> None:
        prepare.check(plan)

    def make_handle(self, plan: Plan) -> Handle:
        return prepare.place_of(plan)

    def longest_word(self, plan: Plan) -> int:
        """As `PodProvider.longest_word`: of a variable's value."""
        return int(target_of(plan, DgxCloudTarget).max_args_chars)

    def carried(self, words: Sequence[str]) -> Sequence[Any]:
        """As `PodProvider.carried`: as variables."""
        return payload.upload_variables(words)

    def ask(self, submission: Submission, say: Say) -> Answers:
        from nemo_runspec.backends.dgxcloud.preflight import fast_checks

        plan = submission.plan
        api = connect(self.make_handle(plan), submission.secrets, patience=AT_ONCE)
        refuse(fast_checks(api, plan), say)
        return Answers(plan, *prepare.asked(api, plan, say))

    def provide_secrets(self, answers: Answers, submission: Submission, say: Say) -> None:
        """As `PodProvider.provide_secrets`: run:ai's users make credentials themselves; what has none is warned of."""
        for line in prepare.travels_not(answers.plan):
            say(f"warning: {line}")

    def by_hand(self, answers: Answers, rendering: Rendering) -> Sequence[str]:
        plan = answers.plan
        claim = claim_of(target_of(plan, DgxCloudTarget).pvcs, plan.job_dir) or {}
        return (
            f"look:    its pods put the job's files to {plan.job_dir} on claim {claim_name(claim)}",
            f"submit:  {' '.join(rendering.command)} with {PAYLOAD} as the body, and the application's token",
            f"after:   nemotron jobs status {plan.name}, which finds the job by its name",
        )

    def create(self, handle: Handle, payload: Mapping[str, Any], say: Say) -> Handle:
        return submit.submit(connect(handle), handle, payload)

    def endpoint(self, handle: Handle) -> str:
        return "|".join(str(handle.get(key) or "") for key in ("base_url", "client_id", "project", "kube"))

    def resubmit(self, handle: Handle, avoid: Sequence[str], folder: Path, *, resumed: bool = False) -> Handle:
        """As `CloudProvider.resubmit`: a workload of another name, as the first one keeps its own."""
        return resubmit.resubmit(connect(handle), handle, avoid, folder)

    def shell(self, handle: Handle, entry: ShellRequest) -> Sequence[str]:
        """As `OpensShells.shell`: run:ai's own command-line tool does it, in the pod on `node`, or the first one."""
        pod = _pod_on(handle, entry.node) if entry.node else None
        entry = replace(entry, rank=pod.index) if pod and pod.index is not None else entry
        terminal = ("--tty",) if entry.terminal else ()
        return ("runai", "workload", "exec", *_words(handle, pod), "--stdin", *terminal, "--", *entry.words)

    def forward(self, handle: Handle, node: str, port: int, here: int) -> Sequence[str]:
        """As `ForwardsPorts.forward`: run:ai's own command-line tool does it, to the pod on `node`."""
        kind = _KINDS.get(str(handle["kind"]), "standard")
        return (
            "runai",
            "training",
            kind,
            "port-forward",
            *_words(handle, _pod_on(handle, node)),
            "--port",
            f"{here}:{port}",
        )


_KINDS = {payload.DISTRIBUTED: "pytorch"}
"""What run:ai's tool calls kinds of workloads, other than the usual one."""


def _words(handle: Handle, pod: Pod | None) -> Sequence[str]:
    """By which words run:ai's tool finds a job's workload and one of its pods; without one it chooses one."""
    words = (str(handle.get("workload") or handle["name"]), "--project", str(handle["project"]))
    return (*words, "--pod", pod.id) if pod else words


def _pod_on(handle: Handle, node: str) -> Pod:
    found = pods.pods_of(connect(handle), str(handle["id"]))
    pod = next((pod for pod in found if node in (pod.node, pod.id, str(pod.index))), None)
    if pod is None:
        there = ", ".join(f"{pod.index} ({pod.node or 'no machine yet'})" for pod in found) or "none"
        raise UserError(f"the job has no node '{node}'; there are: {there}")
    return pod

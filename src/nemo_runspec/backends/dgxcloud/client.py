"""run:ai's errands: what `backends.capabilities.CloudProvider` asks for, done over its REST API.

NeMo-Run's `DGXCloudExecutor` 0.11.1 is not used for it: it calls a failed command a success, its cancel ends nothing,
and it takes a pod for every 7 kB of code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.cloud.observe import with_id
from nemo_runspec.backends.cloud.prepare import Answers, PodProvider, refuse
from nemo_runspec.backends.cloud.render import PAYLOAD
from nemo_runspec.backends.dgxcloud import logs, payload, pods, prepare, resubmit, status, submit
from nemo_runspec.backends.dgxcloud.api import AT_ONCE, RunaiApi, connect
from nemo_runspec.backends.dgxcloud.diagnose import diagnose
from nemo_runspec.backends.dgxcloud.exit_status import with_ends
from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget, claim_name, claim_of
from nemo_runspec.backends.provider import Cursors, Event, Handle, LogChunk, Replica, Say
from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.records.status import JobStatus
from nemo_runspec.submission.request import Submission
from nemo_runspec.transport.web import Refused, Web


class DgxCloudProvider(PodProvider):
    """One object without state; connections and the token are shared by the process."""

    platform = "run:ai"
    explained = frozenset({"failed", "lost"})

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

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> Sequence[JobStatus]:
        """As `Provider.status`. Of a job that is over, its log's end is looked at once for its exit code."""
        if not handles:
            return []
        api = connect(handles[0])
        found = status.poll(api, handles)
        return with_ends(api, [with_id(*pair) for pair in zip(handles, found, strict=True)], found)

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        """As `Provider.stop`: suspends each, which ends its pods and keeps its record. TERM goes before KILL there.

        Where run:ai refuses one, the others are stopped all the same, and it is said of which.
        """
        refused: dict[str, Refused] = {}
        for handle in handles:
            try:
                _suspend(connect(handle), handle)
            except Refused as error:
                refused[str(handle["name"])] = error
        if refused:
            raise _joined(refused, len(handles))

    def webs(self, handle: Handle) -> Sequence[Web | None]:
        api = connect(handle)
        return (api.web, api.kube)

    def new_lines(self, handle: Handle, cursors: Cursors, limit: int) -> Sequence[LogChunk]:
        return logs.new_chunks(connect(handle), handle, cursors, limit)

    def last_lines(self, handle: Handle) -> bytes:
        return logs.last_lines(connect(handle), handle)

    def verdict(self, handle: Handle, status: JobStatus, log: bytes) -> Diagnosis | None:
        return diagnose(connect(handle), handle, status, log)

    def replicas(self, handle: Handle) -> Sequence[Replica]:
        return pods.replicas_of(connect(handle), str(handle["id"])) if handle.get("id") else []

    def events(self, handle: Handle) -> Sequence[Event]:
        return pods.events_of(connect(handle), str(handle["id"])) if handle.get("id") else []

    def delete_remote(self, handle: Handle) -> Sequence[str]:
        """As `CloudProvider.delete_remote`: deletes the workload; its files on the claim stay."""
        id = str(handle.get("id") or "")
        if not id or not connect(handle).delete(str(handle["kind"]), id):
            return []
        return [f"workload {handle.get('workload') or handle['name']} ({id}) of project {handle['project']}"]

    def next_attempt(self, handle: Handle) -> Handle:
        return resubmit.next_attempt(handle)

    def resubmit(self, handle: Handle, avoid: Sequence[str], folder: Path, *, resumed: bool = False) -> Handle:
        """As `CloudProvider.resubmit`: a workload of another name, as the first one keeps its own."""
        return resubmit.resubmit(connect(handle), handle, avoid, folder)

    def shell(self, handle: Handle, node: str | None = None) -> Sequence[str]:
        """As `Provider.shell`: run:ai's own command-line tool opens it, in the pod on `node`, or the first one."""
        found = pods.pods_of(connect(handle), str(handle["id"])) if node else []
        pod = next((pod.id for pod in found if node in (pod.node, pod.id, str(pod.index))), None)
        if node and pod is None:
            there = ", ".join(f"{pod.index} ({pod.node or 'no machine yet'})" for pod in found) or "none"
            raise UserError(f"the job has no node '{node}'; there are: {there}")
        name, which = str(handle.get("workload") or handle["name"]), ("--pod", pod) if pod else ()
        words = ("runai", "workload", "exec", name, "--project", str(handle["project"]), *which)
        return (*words, "--stdin", "--tty", "--", "bash")


def _suspend(api: RunaiApi, handle: Handle) -> None:
    """Stops one workload. One that is over or gone is left as it is."""
    id = str(handle.get("id") or status.workload_id(status.find(api, handle) or {}))
    try:
        if id:
            api.suspend(str(handle["kind"]), id)
    except Refused as error:
        if error.status != 409:
            raise


def _joined(refused: Mapping[str, Refused], of: int) -> Refused:
    """What was refused of several jobs as one error; that of the only one is given back as it is."""
    first = next(iter(refused.values()))
    if of > 1:
        said = "; ".join(dict.fromkeys(error.what for error in refused.values()))
        first.what = f"{len(refused)} of {of} jobs could not be stopped ({', '.join(refused)}): {said}"
        first.args = (first.what,)
    return first

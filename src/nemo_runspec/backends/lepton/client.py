"""Lepton's errands: what `backends.capabilities.CloudProvider` asks for, done with the modules beside this one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.cloud.api import AT_ONCE
from nemo_runspec.backends.cloud.handle import handle_of
from nemo_runspec.backends.cloud.observe import PodPlatform
from nemo_runspec.backends.cloud.prepare import Answers, PodProvider, refuse
from nemo_runspec.backends.cloud.render import PAYLOAD
from nemo_runspec.backends.lepton import logs, replicas, resubmit, status, submit
from nemo_runspec.backends.lepton.api import LeptonApi, connect, job_id
from nemo_runspec.backends.lepton.credentials import find_login
from nemo_runspec.backends.lepton.diagnose import diagnose
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.states import is_ending
from nemo_runspec.backends.provider import Cursors, Handle, LogChunk
from nemo_runspec.console import Say
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.records.status import JobStatus
from nemo_runspec.submission.request import Submission
from nemo_runspec.transport.web import Malformed

_TO_END = 10.0
"""Seconds in which a job that does not even begin to stop is told again."""

_LOG = 10.0
"""Seconds that a question for the log may take in all: who follows it wants to know how the job is, too."""


def _find_id(api: LeptonApi, handle: Handle) -> str:
    """The job's id, looked for by its name where the handle has none."""
    return str(handle.get("id") or job_id(submit.find(api, handle) or {}))


def _stop(api: LeptonApi, handle: Handle) -> None:
    if id := _find_id(api, handle):
        api.stop(id)


def _is_ending(handle: Handle) -> bool:
    """True if a job is over or on its way to it, as far as Lepton says how it is."""
    api = connect(handle)
    id = _find_id(api, handle)
    try:
        job = api.job(id) if id else None
    except Malformed:
        return False
    return job is None or is_ending(job)


def _delete(api: LeptonApi, handle: Handle, id: str) -> str:
    gone = f"job {id} of the Lepton workspace {handle.get('workspace')}, with its logs and events"
    return gone if api.delete(id) else ""


def _new_chunks(api: LeptonApi, handle: Handle, cursors: Cursors, limit: int) -> Sequence[LogChunk]:
    with api.web.within(_LOG):
        return logs.new_chunks(api, handle, cursors, limit)


def _diagnose(api: LeptonApi, handle: Handle, status: JobStatus, log: bytes) -> Diagnosis | None:
    return diagnose(api, handle, status, log) if handle.get("id") else None


class LeptonProvider(PodProvider[LeptonApi]):
    """One object without state; connections are shared by a thread."""

    platform = PodPlatform(
        "Lepton",
        connect=connect,
        find_id=_find_id,
        poll=status.poll,
        stop=_stop,
        delete=_delete,
        new_chunks=_new_chunks,
        last_lines=logs.last_lines,
        replicas=replicas.replicas_of,
        events=replicas.events_of,
        diagnose=_diagnose,
        next_attempt=resubmit.next_attempt,
    )

    def check(self, plan: Plan) -> None:
        try:
            find_login()
        except UserError as error:
            remedy = f"{error.remedy}; --dry-run shows the plan without one"
            raise UserError(f"{error.what}; nothing was submitted", where=error.where, remedy=remedy) from None

    def make_handle(self, plan: Plan) -> Handle:
        login = find_login()
        return {**handle_of(plan), "workspace": login.workspace, "url": login.url}

    def ask(self, submission: Submission, say: Say) -> Answers:
        from nemo_runspec.backends.lepton.preflight import fast_checks
        from nemo_runspec.backends.lepton.resolve import group_of, platform_facts, settled

        plan = submission.plan
        api = connect(self.make_handle(plan), patience=AT_ONCE, say=say)
        group = group_of(api, target_of(plan, LeptonTarget))
        facts = platform_facts(api, plan, submission.secrets, group)
        refuse(fast_checks(api, plan, group), say)
        found = settled(plan, facts)
        if found is not plan:
            say("warning: the node group has no volume: what the job writes is lost when it ends")
        return Answers(found, facts)

    def provide_secrets(self, answers: Answers, submission: Submission, say: Say) -> None:
        from nemo_runspec.backends.lepton.secrets import make_secrets

        make_secrets(connect(self.make_handle(answers.plan)), answers.plan, submission.secrets, say)

    def by_hand(self, answers: Answers, rendering: Rendering) -> Sequence[str]:
        name, (_, url) = answers.plan.name, rendering.command
        token = '-H "Authorization: Bearer $LEPTON_WORKSPACE_TOKEN"'
        curl = f"curl {token} -H 'Content-Type: application/json' -d @{name}/{PAYLOAD} {url}"
        return (f"look:    {PAYLOAD} in the job's folder is the request's body", f"submit:  {curl}")

    def create(self, handle: Handle, payload: Mapping[str, Any], say: Say) -> Handle:
        return submit.submit_once(connect(handle), handle, payload, say)

    def endpoint(self, handle: Handle) -> str:
        return f"lepton|{handle.get('workspace')}|{handle.get('url')}"

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        """As `Provider.stop`. Their records stay: only deleting ends a job that Lepton does not stop."""
        super().stop(handles, by)
        end = time.monotonic() + _TO_END
        while hard and (handles := [each for each in handles if not _is_ending(each)]) and time.monotonic() < end:
            super().stop(handles, by)
            time.sleep(1.0)

    def resubmit(self, handle: Handle, avoid: Sequence[str], folder: Path, *, resumed: bool = False) -> Handle:
        return resubmit.resubmit(connect(handle), handle, avoid, folder, resumed=resumed)

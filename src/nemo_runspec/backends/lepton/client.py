"""Lepton's errands: what `remote.capabilities.CloudProvider` asks for, done with the modules beside this one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.cloud.connections import kept_for_thread
from nemo_runspec.backends.cloud.prepare import Answers, PodProvider, refuse
from nemo_runspec.backends.cloud.render import PAYLOAD
from nemo_runspec.backends.lepton.api import LeptonApi
from nemo_runspec.backends.lepton.credentials import find_login
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.states import is_over, word_of
from nemo_runspec.backends.provider import Cursors, Event, Handle, LogChunk, Replica, Say
from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.records.status import JobStatus
from nemo_runspec.submission.request import Submission
from nemo_runspec.transport.web import Malformed, Web

_BEFORE = 15.0
"""Seconds that a question before a submission may take in all: somebody waits for it, and nothing is lost."""

_TO_END = 10.0
"""Seconds in which a job that does not even begin to stop is told again."""

_LOG = 10.0
"""Seconds that a question for the log may take in all."""

_ENDING = frozenset({"Stopping", "Terminating", "Deleting"})


class LeptonProvider(PodProvider):
    """One object without state; connections are shared by a thread."""

    platform = "Lepton"

    def check(self, plan: Plan) -> None:
        """As `Provider.check`: there is a login."""
        try:
            find_login()
        except UserError as error:
            remedy = f"{error.remedy}; --dry-run shows the plan without one"
            raise UserError(f"{error.what}; nothing was submitted", where=error.where, remedy=remedy) from None

    def make_handle(self, plan: Plan) -> Handle:
        """As `Provider.make_handle`."""
        from nemo_runspec.backends.cloud.handle import handle_of

        login = find_login()
        return {**handle_of(plan), "workspace": login.workspace, "url": login.url}

    def render(self, plan: Plan, values: Mapping[str, Any]) -> Rendering:
        """As `PodProvider.render`."""
        from nemo_runspec.backends.lepton.payload import render

        return render(plan, values)

    def ask(self, submission: Submission, say: Say) -> Answers:
        """As `PodProvider.ask`."""
        from nemo_runspec.backends.lepton.preflight import fast_checks
        from nemo_runspec.backends.lepton.resolve import group_of, platform_facts, settled

        plan = submission.plan
        api = _api(self.make_handle(plan), _BEFORE, say)
        group = group_of(api, target_of(plan, LeptonTarget))
        facts = platform_facts(api, plan, submission.secrets, group)
        refuse(fast_checks(api, plan, group), say)
        found = settled(plan, facts)
        if found is not plan:
            say("warning: the node group has no volume: what the job writes is lost when it ends")
        return Answers(found, facts)

    def provide_secrets(self, answers: Answers, submission: Submission, say: Say) -> None:
        """As `PodProvider.provide_secrets`."""
        from nemo_runspec.backends.lepton.secrets import make_secrets

        make_secrets(_api(self.make_handle(answers.plan)), answers.plan, submission.secrets, say)

    def by_hand(self, answers: Answers, rendering: Rendering) -> Sequence[str]:
        """As `PodProvider.by_hand`."""
        name, (_, url) = answers.plan.name, rendering.command
        token = '-H "Authorization: Bearer $LEPTON_WORKSPACE_TOKEN"'
        curl = f"curl {token} -H 'Content-Type: application/json' -d @{name}/{PAYLOAD} {url}"
        return (f"look:    {PAYLOAD} in the job's folder is the request's body", f"submit:  {curl}")

    def create(self, handle: Handle, payload: Mapping[str, Any], say: Say) -> Handle:
        """As `PodProvider.create`. Two requests: whether it is there, and the job itself."""
        from nemo_runspec.backends.lepton.submit import submit_once

        return submit_once(_api(handle), handle, payload, say)

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> Sequence[JobStatus]:
        """As `Provider.status`. Lepton tells nobody's place in a queue."""
        from nemo_runspec.backends.lepton.status import look

        return look(_api(handles[0]), handles) if handles else []

    def endpoint(self, handle: Handle) -> str:
        """As `Provider.endpoint`: the workspace."""
        return f"lepton|{handle.get('workspace')}|{handle.get('url')}"

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        """As `Provider.stop`. Their records stay: only `forget` ends a job that Lepton does not stop."""
        ids = [id for each in handles if (id := self._id(each))]
        for id in ids:
            _api(handles[0]).stop(id)
        if hard and ids:
            _insist(_api(handles[0]), ids)

    def webs(self, handle: Handle) -> Sequence[Web | None]:
        """As `PodObserver.webs`."""
        return (_api(handle).web,)

    def new_lines(self, handle: Handle, cursors: Cursors, limit: int) -> Sequence[LogChunk]:
        """As `PodObserver.new_lines`."""
        from nemo_runspec.backends.lepton.logs import tail

        api = _api(handle)
        with api.web.within(_LOG):  # who follows the log wants to know how the job is, too
            return tail(api, handle, cursors, limit)

    def last_lines(self, handle: Handle) -> bytes:
        """As `PodObserver.last_lines`."""
        from nemo_runspec.backends.lepton.logs import newest

        return newest(_api(handle), handle, 1000)

    def shell(self, handle: Handle, node: str | None = None) -> Sequence[str]:
        """Raises `UserError`: Lepton's API opens no shell in a job."""
        raise UserError(
            f"{handle['name']}: Lepton opens no shell in a job from outside",
            remedy="its dashboard has a terminal for each replica; nemotron jobs replicas shows them",
        )

    def replicas(self, handle: Handle) -> Sequence[Replica]:
        """As `CloudProvider.replicas`."""
        from nemo_runspec.backends.lepton.replicas import replicas_of

        id = self._id(handle)
        return replicas_of(_api(handle), id) if id else []

    def events(self, handle: Handle) -> Sequence[Event]:
        """As `CloudProvider.events`."""
        from nemo_runspec.backends.lepton.replicas import read_event

        id = self._id(handle)
        found = [read_event(each) for each in _api(handle).events(id)] if id else []
        return sorted(found, key=lambda event: event.time or 0.0)

    def verdict(self, handle: Handle, status: JobStatus, log: bytes) -> Diagnosis | None:
        """As `PodObserver.verdict`."""
        from nemo_runspec.backends.lepton.diagnose import diagnose

        return diagnose(_api(handle), handle, status, log) if handle.get("id") else None

    def delete_remote(self, handle: Handle) -> Sequence[str]:
        """As `CloudProvider.delete_remote`: the job with its logs and events. Where it still runs that ends it."""
        id = self._id(handle)
        if not id or not _api(handle).delete(id):
            return []
        return [f"job {id} of the Lepton workspace {handle.get('workspace')}, with its logs and events"]

    def next_attempt(self, handle: Handle) -> Handle:
        """As `CloudProvider.next_attempt`."""
        from nemo_runspec.backends.lepton.resubmit import next_attempt

        return next_attempt(handle)

    def resubmit(self, handle: Handle, avoid: Sequence[str], folder: Path, *, resumed: bool = False) -> Handle:
        """As `CloudProvider.resubmit`."""
        from nemo_runspec.backends.lepton.resubmit import resubmit

        return resubmit(_api(handle), handle, avoid, folder, resumed=resumed)

    def _id(self, handle: Handle) -> str:
        """The job's id, looked for by its name where the handle has none; '' where there is no such job."""
        from nemo_runspec.backends.lepton.api import job_id
        from nemo_runspec.backends.lepton.submit import find

        if handle.get("id"):
            return str(handle["id"])
        job = find(_api(handle), handle)
        return "" if job is None else job_id(job)


def _api(handle: Handle, patience: float = 60.0, say: Say | None = None) -> LeptonApi:
    """The workspace's API, one per thread and patience (seconds), so that its connection is used again.

    Args:
        say: told once that it does not answer, and is asked again.
    """
    login = find_login(handle)
    again = partial(find_login, handle)
    api = kept_for_thread((login, patience), lambda: LeptonApi(login, patience=patience, again=again))
    api.web.say = say
    return api


def _insist(api: LeptonApi, ids: Sequence[str]) -> None:
    """Tells jobs again to stop that do not begin to."""
    end, left = time.monotonic() + _TO_END, _unmoved(api, ids)
    while left and time.monotonic() < end:
        for id in left:
            api.stop(id)
        time.sleep(1.0)
        left = _unmoved(api, left)


def _unmoved(api: LeptonApi, ids: Sequence[str]) -> list[str]:
    """Those of the jobs that neither are over nor on their way to it, as far as Lepton says how they are."""
    return [id for id in ids if not _moves(api, id)]


def _moves(api: LeptonApi, id: str) -> bool:
    try:
        job = api.job(id)
    except Malformed:
        return False
    return job is None or is_over(job) or word_of(job) in _ENDING

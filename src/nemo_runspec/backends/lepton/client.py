"""Lepton's errands: what `remote.capabilities.CloudProvider` asks for, done with the modules beside this one."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.cloud.prepare import Answers, PodProvider, refuse
from nemo_runspec.backends.cloud.render import PAYLOAD
from nemo_runspec.backends.lepton.api import LeptonApi
from nemo_runspec.backends.lepton.credentials import Login, find_login
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.states import is_over, word_of
from nemo_runspec.backends.target import target_of
from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import Plan
from nemo_runspec.remote.provider import Cursors, Event, Handle, JobStatus, LogChunk, Replica, Results, Say
from nemo_runspec.submission.request import Submission
from nemo_runspec.transport.reading import text

_BEFORE = 15.0
"""Seconds that a question before a submission may take in all: somebody waits for it, and nothing is lost."""

_TO_END = 10.0
"""Seconds in which a job that does not even begin to stop is told again."""

_LOG = 10.0
"""Seconds that a question for the log may take in all."""

_ENDING = frozenset({"Stopping", "Terminating", "Deleting"})

_kept = threading.local()


class LeptonProvider(PodProvider):
    """One object without state; connections are shared by a thread."""

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

    def read_log(self, handle: Handle, cursors: Cursors, limit: int, *, platform: bool = False) -> Sequence[LogChunk]:
        """As `Provider.read_log`; what the platform itself has written are its events."""
        from nemo_runspec.backends.cloud.events import event_log
        from nemo_runspec.backends.cloud.pod.log_lines import shown
        from nemo_runspec.backends.lepton.logs import tail

        if not handle.get("id"):
            return []
        if platform:
            return event_log(self.events(handle), cursors)
        api = _api(handle)
        with api.web.within(_LOG):  # who follows the log wants to know how the job is, too
            return shown(tail(api, handle, cursors, limit))

    def collect(self, handles: Sequence[Handle], seen: Sequence[JobStatus]) -> Sequence[Results]:
        """As `Provider.collect`. Secrets stay: jobs that have the same ones share them."""
        return [self._rest(handle, each) for handle, each in zip(handles, seen, strict=True)]

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

    def diagnose(self, handle: Handle, seen: JobStatus) -> Diagnosis | None:
        """As `CloudProvider.diagnose`."""
        from nemo_runspec.backends.cloud.aside import SECONDS
        from nemo_runspec.backends.lepton.diagnose import diagnose

        id = text(seen.facts.get("id")) or self._id(handle)
        if not id:
            return None
        known = {**handle, "id": id}
        log = _known_log(seen)
        log = _log_end(handle, known) if log is None else log
        with _api(handle).web.within(SECONDS):
            found: Diagnosis | None = diagnose(_api(handle), known, seen, log)
        return found

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

    def _rest(self, handle: Handle, seen: JobStatus) -> Results:
        from nemo_runspec.backends.cloud.collect import results_of

        log = _known_log(seen)
        if log is None:
            return Results()
        return results_of(log, self.diagnose(handle, seen) if seen.state == "failed" else None)


def _api(handle: Handle, patience: float = 60.0, say: Say | None = None) -> LeptonApi:
    """The workspace's API, one per thread and patience (seconds), so that its connection is used again.

    Args:
        say: told once that it does not answer, and is asked again.
    """
    login = find_login(handle)
    apis: dict[tuple[Login, float], LeptonApi] = _kept.__dict__.setdefault("apis", {})
    api = apis.setdefault((login, patience), LeptonApi(login, patience=patience, again=partial(find_login, handle)))
    api.web.say = say
    return api


def _known_log(seen: JobStatus) -> bytes | None:
    """The log's end as it was just read, None where it was not."""
    from nemo_runspec.backends.cloud.status import JobDetail

    return seen.detail.log if isinstance(seen.detail, JobDetail) else None


def _log_end(handle: Handle, known: Handle) -> bytes:
    """The log's end, for a verdict; nothing where it cannot be read now."""
    from nemo_runspec.backends.cloud.aside import Aside
    from nemo_runspec.backends.lepton.logs import newest

    api = _api(handle)
    return Aside("Lepton", api.web).of("log", newest, api, known, 1000) or b""


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
    from nemo_runspec.transport.web import Malformed

    try:
        job = api.job(id)
    except Malformed:
        return False
    return job is None or is_over(job) or word_of(job) in _ENDING

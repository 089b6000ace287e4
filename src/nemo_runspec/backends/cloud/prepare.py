"""The submission side of platforms of pods: the platform is asked, the files are packed, the job is made."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.capabilities import KeepsFiles, KeptFiles
from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.observe import AskedApi, PodObserver
from nemo_runspec.backends.cloud.render import PAYLOAD, render
from nemo_runspec.backends.cloud.request import UPLOAD
from nemo_runspec.backends.provider import Handle, Parts, Policy, Prepared
from nemo_runspec.check import Check
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.submission.request import Submission


@dataclass(frozen=True, slots=True)
class Answers:
    """What a platform has said of a submission.

    Args:
        plan: as it is once that is known.
        values: of the payload's placeholders, by their names; all but the upload.
        handle: what the job's handle gains by it.
    """

    plan: Plan
    values: Mapping[str, Any]
    handle: Mapping[str, Any] = field(default_factory=dict)


class PodProvider(PodObserver[AskedApi], KeepsFiles):
    """The submission side of every platform of pods; what differs are the steps that a platform has to bring."""

    def files_of(self, handle: Handle, plan: Plan) -> KeptFiles:
        """As `KeepsFiles.files_of`: its directory where this machine sees it, else what it has uploaded."""
        from nemo_runspec.backends.cloud.storage.pulled import kept_files
        from nemo_runspec.transport.connect import connect
        from nemo_runspec.transport.tree import HostFiles

        here = PodHandle(handle).here
        return kept_files(plan) if here is None else KeptFiles(HostFiles(connect()), str(here))

    @abstractmethod
    def ask(self, submission: Submission, say: Say) -> Answers:
        """Asks the platform what only it knows, and refuses what it would refuse. Makes nothing there.

        Raises:
            UserError: the platform has not what the plan asks for. Unreachable: it does not say.
        """

    @abstractmethod
    def create(self, handle: Handle, payload: Mapping[str, Any], say: Say) -> Handle:
        """Makes the job once; the handle with its id."""

    @abstractmethod
    def by_hand(self, answers: Answers, rendering: Rendering) -> Sequence[str]:
        """How a person would submit it: lines for the job's folder."""

    def longest_word(self, plan: Plan) -> int:
        """Characters of one word of the upload that the platform takes; by default what Linux takes as an argument."""
        from nemo_runspec.backends.cloud.code.upload import LONGEST_WORD

        return LONGEST_WORD

    def carried(self, words: Sequence[str]) -> Sequence[Any]:
        """The words of the upload as the payload carries them."""
        return words

    @abstractmethod
    def provide_secrets(self, answers: Answers, submission: Submission, say: Say) -> None:
        """Makes the secrets that the payload refers to, as far as we may, and says which ones do not travel."""

    def policy(self, plan: Plan) -> Policy:
        """As `Provider.policy`."""
        from nemo_runspec.backends.cloud.handle import policy_of

        return policy_of(plan)

    def check_size(self, submission: Submission, texts: Mapping[str, str], parts: Parts) -> None:
        """As `CloudProvider.check_size`."""
        from nemo_runspec.backends.cloud.code.upload import check_fit

        check_fit(submission, texts, parts)

    def prepare(self, submission: Submission, parts: Parts, say: Say) -> Prepared:
        """As `Provider.prepare`. The job's files travel in the payload, or are put where its pods fetch them."""
        answers = self.ask(submission, say)
        upload = self.carried(self._load(answers.plan, submission, parts, say))
        self.provide_secrets(answers, submission, say)
        rendering = render(answers.plan, {**answers.values, UPLOAD: upload})
        if rendering.holes:
            what = f"not all of the job is known: {'; '.join(rendering.holes)}"
            raise UserError(what, remedy="nemotron doctor shows why")
        handle = {**self.make_handle(submission.plan), **answers.handle}
        return Prepared(handle, rendering, answers.plan, tuple(self.by_hand(answers, rendering)))

    def resolve(self, submission: Submission, parts: Parts, say: Say) -> Rendering:
        """As `CloudProvider.resolve`. The upload stays open: making it may mean to send it."""
        answers = self.ask(submission, say)
        return render(answers.plan, answers.values)

    def submit(self, prepared: Prepared, say: Say) -> Handle:
        """As `Provider.submit`: what was shown is read again, and sent."""
        text = next(file.text for file in prepared.rendering.files if file.name == PAYLOAD)
        return self.create(prepared.handle, json.loads(text), say)

    def delete_files(self, handle: Handle) -> None:
        """As `Provider.delete_files`, where this machine sees the job's storage."""
        from nemo_runspec.backends.cloud.removal import remove_directory

        remove_directory(handle)

    def _load(self, plan: Plan, submission: Submission, parts: Parts, say: Say) -> list[str]:
        """The words of the upload; what does not travel in the payload is sent.

        Raises:
            UserError: no way fits; the error names all of them and what each would need.
        """
        from nemo_runspec.backends.cloud.code.transports import transports_of
        from nemo_runspec.backends.cloud.code.upload import load, pod_arguments
        from nemo_runspec.submission.layout import job_files

        texts = {name: text for name, text in job_files(plan, render(plan, {})).items() if name != PAYLOAD}
        offered = transports_of(plan, submission.secrets, inline_word=self.longest_word(plan))
        return pod_arguments(load(plan, texts, parts, offered, say))


def refuse(checks: Iterable[Check], say: Say) -> None:
    """What the platform would refuse, or let wait for ever, is refused before anything is made; what is odd is said.

    Raises:
        UserError: the first check that failed.
    """
    for check in checks:
        if check.verdict == "failed":
            raise check.error()
        say(f"warning: {check.seen}")

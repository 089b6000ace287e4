"""Jobs of other machines as they are first written down, alone or several together, with all that a retry needs."""

from __future__ import annotations

from collections.abc import Mapping

from nemo_runspec.backends.provider import Handle, Provider
from nemo_runspec.diagnosis.known_errors import KEY
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.lifecycle import Relations
from nemo_runspec.records.process import this_process
from nemo_runspec.submission.request import Submission
from nemo_runspec.typed_json import plain


def recorded(
    store: JobStore,
    given: Submission,
    provider: Provider,
    handle: Handle,
    files: Mapping[str, str],
    job_dir: str | None = None,
) -> JobRecord:
    """Writes a job down, with the jobs that it waits for.

    `input_jobs.relate` tells those of it, before: once for all jobs that are submitted together.

    Args:
        handle: how it will be found.
        files: further files of the job, by name.
        job_dir: its directory where it runs, None for its plan's.

    Raises:
        UserError: as `JobStore.create`.
    """
    policy = provider.policy(given.plan)
    return store.create(
        given.plan,
        plan_text=given.plan_text,
        argv=given.argv,
        secret_values=given.secrets.values(),
        launcher=this_process(),
        files=files,
        group=given.group,
        retry_of=given.retried.name if given.retried else None,
        handle={**handle, **({KEY: plain(errors)} if (errors := given.plan.recipe.errors) else {})},
        job_dir=given.plan.job_dir if job_dir is None else job_dir,
        attempt=policy.attempt,
        deadlines=policy.deadlines,
        relations=Relations(needs=tuple(given.needs)),
    )

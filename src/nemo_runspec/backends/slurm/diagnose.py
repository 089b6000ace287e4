"""Why a job on Slurm did not succeed: Slurm's state, its reason and its daemons' lines, with markers and logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nemo_runspec.backends.slurm.causes import CLOSING, IMAGE, LAUNCH, PLATFORM, REASONS, STATES
from nemo_runspec.backends.slurm.cluster.job import ClusterJob
from nemo_runspec.backends.slurm.cluster.query import CANNOT_WRITE
from nemo_runspec.diagnosis import engine
from nemo_runspec.diagnosis.model import Case, Cause, Claim, Message
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records.record import is_over
from nemo_runspec.runspec import KnownError
from nemo_runspec.script.markers import first_failure

_ECHO = re.compile(
    r"\s*(?:nemotron: |\{ nemotron_code=|\{ set \+vx; |\++ |#|srun --output |"
    r"exitcode=\$\?$|set [-+]\w+$|(?:echo \")?job exited with code |"
    r"if \[ (?:\$exitcode|\"\$TORCHX_MAX_RETRIES\") |scontrol requeue |exit \$exitcode$|fi$)"
)
"""Lines that the batch shell writes of itself: its trace, its script's lines as it reads them, and our own."""

_CONTAINER = re.compile(r"pyxis: |\benroot\b|\[ERROR\]|--container-")


def diagnose(
    job: ClusterJob,
    tail: bytes,
    batch_tail: bytes = b"",
    key_source: str = "",
    known: Sequence[KnownError] = (),
) -> Diagnosis | None:
    """The verdict on a job that did not succeed; None for one that did, or goes on.

    Args:
        tail: the end of what its tasks wrote, in its last attempt. `batch_tail`: of what its batch script wrote.
        known: errors that its recipe knows.
        key_source: where `remote_job_dir` was set, such as `env.toml:7 [cluster]`; '' where that is not known.
    """
    return (
        engine.diagnose(replace(case_of(job, tail, batch_tail, key_source), known=known))
        if is_over(job.state)
        else None
    )


def case_of(job: ClusterJob, tail: bytes, batch_tail: bytes, key_source: str) -> Case:
    """All that Slurm and its daemons say of a job, joined with its markers and logs."""
    from nemo_runspec.duration import span

    lines = (line.strip() for text in (batch_tail, tail) for line in text.decode("utf-8", "replace").splitlines())
    daemons = [line for line in lines if PLATFORM.daemon_lines and PLATFORM.daemon_lines.search(line)]
    return Case(
        state=job.state,
        platform=PLATFORM,
        reason=job.reason or f"it ended as {job.slurm_state}",
        statement=_statement(job),
        markers=job.markers,
        tail=tail,
        script_tail=_without_echo(batch_tail),
        claims=tuple(_claims(job, daemons, key_source)),
        hints=tuple(_claim(cause, daemons) for word, cause in REASONS if word.fullmatch(job.slurm_reason)),
        daemons=daemons,
        exit_code=job.exit_code,
        signal=job.signal,
        ran_for=f" after {span(job.elapsed)}" if job.elapsed else "",
    )


def _claims(job: ClusterJob, daemons: Sequence[str], key_source: str) -> Iterator[Claim]:
    """What Slurm says, the most telling first."""
    if job.error == CANNOT_WRITE:
        yield Claim(_unwritable(job, key_source), Message(""), certain=True)
    state = job.slurm_state.split()[0].rstrip("+") if job.slurm_state else ""
    if state in STATES:
        yield _claim(STATES[state], daemons)
    elif not state:  # Slurm has forgotten it
        yield from (_claim(STATES[name], daemons) for name in CLOSING if STATES[name].line_in(daemons))
    first = first_failure(job.markers)
    if first is None or first.phase == "start":  # on some node the job script never began: its container, or the step
        images = [line for line in daemons if _CONTAINER.search(line)]
        found = [*((cause, cause.line_in(images)) for cause in IMAGE)]
        found += [(cause, cause.line_in(daemons)) for cause in LAUNCH]
        yield from (Claim(cause, Message(line)) for cause, line in found if line)


def _claim(cause: Cause, daemons: Sequence[str]) -> Claim:
    """What Slurm itself says, with the line of a daemon that shows it."""
    line = cause.line_in(daemons)
    node = cause.name_in(line) if cause is STATES["NODE_FAIL"] else ""
    if node:
        remedy = f'{cause.remedy}; exclude = "{node}" in the profile keeps away from that node'
        cause = replace(cause, what=f"node {node} failed under it{{after}}", remedy=remedy)
    return Claim(cause, Message(line, node), certain=True)


def _unwritable(job: ClusterJob, key_source: str) -> Cause:
    """The batch script's log could not be opened on its node: the directory is not there, or not to be written."""
    key = f"remote_job_dir ({key_source})" if key_source else "remote_job_dir"
    remedy = (
        f"set {key} to a directory on a file system that the login node and all compute nodes share, and that you may "
        "write to there; nemotron doctor PROFILE --job looks at it"
    )
    return Cause("storage", "{reason}", remedy)


def _statement(job: ClusterJob) -> str:
    reason = f" ({job.slurm_reason})" if job.slurm_reason not in ("", "None", "(null)") else ""
    return f"Slurm says {job.slurm_state}{reason}" if job.slurm_state else ""


def _without_echo(log: bytes) -> bytes:
    """A log without what the batch shell writes of itself. What its trace holds, it has read before."""
    lines = log.splitlines()
    traced = {line.lstrip(b"+ ") for line in lines if line.startswith(b"+")}
    kept = (line for line in lines if line not in traced and not _ECHO.match(line.decode("utf-8", "replace")))
    return b"\n".join(kept)

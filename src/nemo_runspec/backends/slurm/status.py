"""Statuses of jobs on Slurm, by their handles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from nemo_runspec.backends.provider import Handle
from nemo_runspec.backends.slurm.cluster.answer import run_script
from nemo_runspec.backends.slurm.cluster.job import ClusterJob, SlurmJobRef
from nemo_runspec.backends.slurm.cluster.status import query_jobs
from nemo_runspec.backends.slurm.cluster.submit import SlurmSubmission, find
from nemo_runspec.backends.slurm.paths import HOME
from nemo_runspec.backends.slurm.shell import PRELUDE, program
from nemo_runspec.errors import UserError
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.quoting import assignments
from nemo_runspec.transport.base import Host


def job_ref(handle: Handle) -> SlurmJobRef:
    """How the cluster is asked about a handle with an id."""
    nodes, name = int(handle.get("nodes") or 1), str(handle.get("name") or "")
    return SlurmJobRef(str(handle["id"]), str(handle["job_dir"]), nodes, slurm_of(handle), name)


def job_statuses(host: Host, handles: Sequence[Handle], *, positions: bool = False) -> list[JobStatus]:
    """The jobs' statuses. One round trip for those with an id; one for each that was perhaps never submitted, which is
    looked for by its name.

    Raises:
        UserError: Slurm or the host does not answer.
    """
    found: dict[str, Handle | None] = {}
    for handle in handles:
        folder = str(handle.get("array") or handle["job_dir"])
        if not handle.get("id") and folder not in found:
            found[folder] = _find(host, handle)
    submitted = [handle if handle.get("id") else _with_id(handle, found) for handle in handles]
    refs = [_ref_without_shared_markers(handle) for handle in submitted if handle is not None]
    jobs = query_jobs(host, refs, positions=positions)
    for each in submitted:
        if each is not None and each.get("health_check") and jobs[str(each["id"])].slurm_reason == "JobHeldUser":
            _finish_health_check(host, each)
    return [_never_submitted() if each is None else _status(jobs[str(each["id"])], each) for each in submitted]


def _finish_health_check(host: Host, handle: Handle) -> None:
    """A job that its health check has put back and left held, as it was killed then. Whoever asks next tries again."""
    with suppress(UserError):
        exclude_and_release(host, job_ref(handle))


def exclude_and_release(host: Host, job: SlurmJobRef) -> str:
    """Lets a job go on that its health check has left held, without the bad nodes. It may be called at any time.

    The check does it itself (`jobside/without.py`), in some 20 ms of the time that Slurm leaves it (KillWait).
    Where that was too short, `status/held` in the job's directory says which nodes the job is to stay away from.

    Returns:
        The nodes that the job stays away from now, such as `n2,n5`; '' where there was nothing to do.

    Raises:
        UserError: Slurm does not answer, or refuses. Unreachable: the host does not answer.
    """
    words = assignments({"id": job.id.partition(";")[0], "held": f"{job.job_dir}/status/held"})
    answer = run_script(host, "\n".join((PRELUDE, words, program("health/release.sh"))))
    if answer.code:
        reason = answer.said or "Slurm does not answer"
        raise UserError(
            f"job {job.id} is held after its health check, and cannot be released: {reason}",
            where=host.name,
            remedy=f"scontrol release {job.id}",
        )
    return answer["excluded"].said


def _ref_without_shared_markers(handle: Handle) -> SlurmJobRef:
    """The tasks of an array that a profile asks for leave their markers in one folder, over each other: no witness."""
    if not handle.get("tasks"):
        return job_ref(handle)
    return SlurmJobRef(str(handle["id"]), slurm=slurm_of(handle), tasks=int(handle["tasks"]))


def slurm_of(handle: Handle) -> str:
    """The name of the Slurm that has a job, '' where it is not known, or where the id says it: in a federation."""
    return "" if ";" in str(handle.get("id")) else str(handle.get("slurm") or "")


def _with_id(handle: Handle, found: Mapping[str, Handle | None]) -> Handle | None:
    """The handle with the id that was found for it, or for its array; None where there is none."""
    there = found[str(handle.get("array") or handle["job_dir"])]
    if there is None or not handle.get("array"):
        return there
    from nemo_runspec.backends.slurm.array_job import id_of

    return {**handle, "id": id_of(str(there["id"]), handle)}


def _find(host: Host, handle: Handle) -> Handle | None:
    from nemo_runspec.backends.slurm.cluster.stage import probe

    folder = str(handle.get("array") or handle["job_dir"])
    if HOME in folder:  # it ended before the home directory was known
        folder = folder.replace(HOME, probe(host, folder).home)
    found = find(host, SlurmSubmission(str(handle["name"]), folder, "", ()))
    here = probe(host, folder).slurm if found is None and handle.get("slurm") else ""
    if here and here != handle["slurm"]:
        raise UserError(
            f"{handle['name']}: this is cluster {here}, and the job was to be submitted to {handle['slurm']}",
            where=host.name,
            remedy="let the profile's host lead to that cluster again",
        )
    return None if found is None else {**handle, "job_dir": folder, "id": found.id}


def _never_submitted() -> JobStatus:
    return JobStatus("failed", "it was never submitted: nemotron ended before it did", exit_code=1, gone=True)


def _status(job: ClusterJob, handle: Handle) -> JobStatus:
    """A job that Slurm does not know any more may be one that it does not know at this moment."""
    absent = job.state == "lost"
    return JobStatus(
        "unknown" if absent else job.state,
        job.reason,
        exit_code=job.exit_code,
        signal=job.signal,
        facts=_facts(job, str(handle["id"]), int(handle.get("attempts") or 1)),
        started=job.started,
        ended=job.ended or _last_marker(job),
        by=job.by,
        absent=absent,
        metrics=job.metrics,
        detail=job,
    )


def _facts(job: ClusterJob, id: str, most: int) -> JobFacts:
    """`most`: how often it may be started."""
    return JobFacts(
        id=id,
        nodes=job.nodes if job.nodes not in ("(null)", "None assigned") else "",
        attempt=job.restarts,
        attempts=most if most > 1 else None,
        platform_state=job.slurm_state,
        partition=job.partition,
        position=job.position,
        estimated=job.estimated,
        waiting=job.reason if job.state == "queued" else "",
        elapsed=job.elapsed,
    )


def _last_marker(job: ClusterJob) -> float | None:
    """When the last node's script ended, where Slurm does not say it."""
    return max((marker.ended for marker in job.markers), default=None) or None

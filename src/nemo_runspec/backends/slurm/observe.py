"""Questions about submitted jobs, by their handles: status, new log lines, results.

Any number of them in one round trip each; of logs new bytes, each once. What a job of ours writes, seen with Slurm
22.05: `log-<name>_<id>_<attempt>.out`, of several tasks `log-<name>_<id>_<attempt>_<task>.out` each (`separate` in
`jobside/main.py`); a requeue begins others. `sbatch_<name>_<id>.out` is the batch script's, to which a requeue appends;
with `open_mode = "truncate"` it begins anew. To ask again and again is fast enough, so that no stream of its own is
needed: see `benchmarks/slurm.py`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from nemo_runspec.backends.provider import Handle, LogChunk, Results
from nemo_runspec.backends.slurm.cluster import FIELD, SECTION, Section, run_script, script_of, whole
from nemo_runspec.backends.slurm.cluster.job import ClusterJob, SlurmJobRef, task_id
from nemo_runspec.backends.slurm.cluster.status import query_jobs
from nemo_runspec.backends.slurm.cluster.submit import SlurmSubmission, find
from nemo_runspec.backends.slurm.diagnose import diagnose
from nemo_runspec.backends.slurm.values import HOME
from nemo_runspec.diagnosis.known_errors import KEY, read_known
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.jobside.downsample import as_lines, downsample
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.status import JobStatus, never_submitted
from nemo_runspec.script.programs import DOWNSAMPLE, program_text
from nemo_runspec.script.wandb_run import parse_run
from nemo_runspec.transport.base import Host

LIMIT = 16 << 20
"""Bytes of one answer, unless the caller says otherwise."""

_TIMEOUT = 300.0
_END = f"{SECTION}end\n".encode()


def task_logs(job_dir: str, name: str, id: str) -> str:
    """The pattern of what a job's tasks write, all attempts. `name`: the job's in Slurm.

    Of one task of an array (`12_3`), `job_dir` is its own: srun's `%j` is an id that only Slurm knows.
    """
    number = id.partition(";")[0]
    return f"{job_dir}/log-{name}_{'*' if '_' in number else number}_*.out"


def batch_log(job_dir: str, name: str, id: str) -> str:
    """What a job's batch script writes."""
    return f"{job_dir}/sbatch_{name}_{id.partition(';')[0]}.out"


def read_chunks(
    host: Host, patterns: Iterable[str], offsets: Mapping[str, int] | None = None, *, limit: int = LIMIT
) -> list[LogChunk]:
    """What is new in the files that match, in the order of the patterns, then of their names. One round trip.

    A file that was emptied begins anew, unless it has grown beyond its offset again.

    Args:
        patterns: paths there, perhaps with `*`. A file that does not exist yet has nothing new.
        offsets: how far each path has been read; from the beginning where it is not named.
        limit: bytes in all; the first files get theirs first, the rest comes with the next call.

    Raises:
        Unreachable: the host does not answer; the same call again loses nothing.
        UserError: the answer is not complete.
    """
    lines = (*patterns, "", *(f"{offset}{FIELD}{path}" for path, offset in (offsets or {}).items()))
    data = "".join(f"{line}\n" for line in lines).encode()
    done = host.run(script_of("cluster/results.sh", "read_logs", limit=str(limit)), data=data, timeout=_TIMEOUT)
    return _chunks(host, done.out)


def _chunks(host: Host, out: bytes) -> list[LogChunk]:
    """A file that shrinks while it is read gives fewer bytes than announced: then the frame does not close."""
    at, found = max(out.find(SECTION.encode()), 0), []
    while not out.startswith(_END, at):
        begin = out.find(b"\n", at) + 1
        fields = out[at + 1 : begin - 1].decode("utf-8", "surrogateescape").split(FIELD)
        if not out.startswith(SECTION.encode(), at) or not begin or len(fields) != 4:
            raise _not_whole(host)
        size, start, length = (-1 if number is None else number for number in map(whole, fields[:3]))
        if min(size, start, length) < 0:
            raise _not_whole(host)
        at = begin + length
        found.append(LogChunk(fields[3], start, out[begin:at], more=start + length < size))
    return found


def _not_whole(host: Host) -> UserError:
    return UserError(f"the logs from {host.name} did not arrive whole", remedy="ask again")


_COLLECT_SECONDS = 120.0


def collect_results(host: Host, handles: Sequence[Handle], statuses: Sequence[JobStatus]) -> list[Results]:
    """Each job's results: its metrics, the outputs that are there, and why it failed.

    Their secrets are removed. Of a job of an earlier release that could not do so itself (its handle has `versions`),
    what it has made becomes the newest version of its artifact.

    Raises:
        UserError: the host does not answer, or not as it should.
    """
    questions = "".join(_question(number, *pair) for number, pair in enumerate(zip(handles, statuses, strict=True)))
    script = script_of("cluster/results.sh", "collect", downsample=program_text(DOWNSAMPLE))
    answer = run_script(host, script, data=questions.encode("utf-8", "surrogateescape"), timeout=_COLLECT_SECONDS)
    if handles and not answer.sections:
        raise UserError(f"{host.name} does not say what is left of jobs: {answer.said or 'no word'}")
    return [
        _results(handle, each, answer[f"results;{number}"])
        for number, (handle, each) in enumerate(zip(handles, statuses, strict=True))
    ]


def _question(number: int, handle: Handle, status: JobStatus) -> str:
    failed = "yes" if status.state not in ("succeeded", "cancelled") else ""
    succeeded = "yes" if status.state == "succeeded" else ""
    folder, name, id = (str(handle.get(key) or "") for key in ("job_dir", "name", "id"))
    markers = status.detail.markers if isinstance(status.detail, ClusterJob) else ()
    given = str(sum(marker.lines for marker in markers)), str(sum(marker.size for marker in markers))
    lines: list[tuple[str, ...]] = [(str(number), folder, name, id.partition(";")[0], failed, succeeded, *given)]
    lines += [("output", path) for path in (handle.get("outputs") or {}).values()]
    lines += [("version", path) for path in handle.get("versions") or ()]
    return "".join(f"{FIELD.join(line)}\n" for line in lines) + "\n"


def _results(handle: Handle, status: JobStatus, section: Section) -> Results:
    there = {row[1] for row in section.rows if row[0] == "output"}
    texts = dict(_decoded(section))
    outputs: Mapping[str, str] = handle.get("outputs") or {}
    return Results(
        history=_history(texts),
        inputs={row[1]: row[2] for row in section.rows if row[0] == "input" and len(row) > 2},
        outputs={name: path for name, path in outputs.items() if path in there},
        diagnosis=_diagnosis(handle, status, texts),
        wandb=parse_run(texts.get("wandb", b"")),
        lost_lines=next((whole(row[1]) or 0 for row in section.rows if row[0] == "lost"), 0),
    )


def _history(texts: Mapping[str, bytes]) -> bytes:
    """The metrics as the login node's python3 has downsampled them, or the whole file."""
    if "metrics" in texts:
        return texts["metrics"]
    return as_lines(downsample(texts.get("metrics-file", b"").splitlines()).records())


def _diagnosis(handle: Handle, status: JobStatus, texts: Mapping[str, bytes]) -> Diagnosis | None:
    if status.state in ("succeeded", "cancelled") or not isinstance(status.detail, ClusterJob):
        return None
    place, known = str(handle.get("place") or ""), read_known(handle.get(KEY))
    return diagnose(status.detail, texts.get("log", b""), texts.get("batch", b""), place, known)


def _decoded(section: Section) -> Iterator[tuple[str, bytes]]:
    for kind, text, *_ in section.rows:
        if kind in ("metrics", "metrics-file", "wandb", "log", "batch"):
            with suppress(ValueError):  # a word of something else
                yield kind, base64.b64decode(text)


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
    return [never_submitted() if each is None else _status(jobs[str(each["id"])], each) for each in submitted]


def _finish_health_check(host: Host, handle: Handle) -> None:
    """A job that its health check has put back and left held, as it was killed then. Whoever asks next tries again."""
    with suppress(UserError):
        exclude_and_release(host, job_ref(handle))


def exclude_and_release(host: Host, job: SlurmJobRef) -> str:
    """Lets a job go on that its health check has left held, without the bad nodes. It may be called at any time.

    The check does it itself (`jobside/attempt_end.py`), in some 20 ms of the time that Slurm leaves it (KillWait).
    Where that was too short, `status/held` in the job's directory says which nodes the job is to stay away from.

    Returns:
        The nodes that the job stays away from now, such as `n2,n5`; '' where there was nothing to do.

    Raises:
        UserError: Slurm does not answer, or refuses. Unreachable: the host does not answer.
    """
    number, held = job.id.partition(";")[0], f"{job.job_dir}/status/held"
    answer = run_script(host, script_of("cluster/stop.sh", "release_held", id=number, held=held))
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
    return {**handle, "id": task_id(str(there["id"]), int(handle["task"]))}


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

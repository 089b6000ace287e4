"""Results of jobs that are over, and the removal of their secrets: one round trip for any number of them."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from nemo_runspec.backends.provider import Handle, Results
from nemo_runspec.backends.slurm.cluster.answer import FIELD, Section, run_script, whole
from nemo_runspec.backends.slurm.cluster.job import ClusterJob
from nemo_runspec.backends.slurm.diagnose import diagnose
from nemo_runspec.backends.slurm.shell import PRELUDE, program
from nemo_runspec.diagnosis.known import KEY, read_known
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.jobside.downsample import as_lines, downsample
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.programs import DOWNSAMPLE, program_text
from nemo_runspec.script.wandb_run import parse_run
from nemo_runspec.transport.base import Host

_TIMEOUT = 120.0


def collect_results(host: Host, handles: Sequence[Handle], statuses: Sequence[JobStatus]) -> list[Results]:
    """Each job's results: its metrics, the outputs that are there, and why it failed.

    Their secrets are removed. Of a job of an earlier release that could not do so itself (its handle has `versions`),
    what it has made becomes the newest version of its artifact.

    Raises:
        UserError: the host does not answer, or not as it should.
    """
    questions = "".join(_question(number, *pair) for number, pair in enumerate(zip(handles, statuses, strict=True)))
    script = f"{PRELUDE}\ndownsample={shlex.quote(program_text(DOWNSAMPLE))}\n{program('collect.sh')}"
    answer = run_script(host, script, data=questions.encode("utf-8", "surrogateescape"), timeout=_TIMEOUT)
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

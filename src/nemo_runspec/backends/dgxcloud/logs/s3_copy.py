"""A copy of a job's logs on S3, made by one helper workload once the job is over and its log is asked for.

The helper mounts the job's claims, packs `logs/node-*.log` and puts them to an address that holds for an hour, so that
no key travels. It is deleted then; the copy stays.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.logs.kube import lines_taken
from nemo_runspec.backends.dgxcloud.logs.unavailable import notice
from nemo_runspec.backends.dgxcloud.payload import BOOT, TRAININGS, base_spec
from nemo_runspec.backends.dgxcloud.submit import submit
from nemo_runspec.backends.dgxcloud.workloads import find, is_over_now, state_of, workload_id, workload_name
from nemo_runspec.backends.provider import Cursors, Handle, LogChunk, offset_of
from nemo_runspec.errors import UserError
from nemo_runspec.records.record import is_over
from nemo_runspec.transport.web import Web

if TYPE_CHECKING:
    from nemo_runspec.backends.cloud.storage.bucket import Bucket

_MOST = 4 << 30
"""Bytes of all logs of a job together that are read."""

_HOLDS = 3600
"""Seconds that the helper's address, and the one the copy is read from, hold."""

_PATIENCE, _PAUSE = 300.0, 2.0
"""Seconds that the helper may take in all, and between two looks at it."""

_WHY, _ANNOUNCED = "saved", "saved-helper"
"""The paths of the pieces that say why there is no copy, and that one is made."""

_FAILED: set[str] = set()
"""Copies that this process could not make: a following one asks again and again, and would wait each time."""

_TIDIED: set[str] = set()
"""Copies whose helper is known to be gone."""

_HELPING = (
    "the log is fetched from the claim by a helper workload, which may take some minutes: it waits for a free node"
)
_NO_KEYS = "this job's log can be fetched from S3 once it has ended, with ACCESS_KEY and SECRET_KEY in the environment"

_PROGRAM = """\
set -eo pipefail
url=$NEMOTRON_PUT file=/tmp/nemotron-logs.tar.gz
unset NEMOTRON_PUT NEMOTRON_BOOT
cd "$NEMOTRON_JOB_DIR"
tar -czf "$file" logs || [ "$?" -eq 1 ] # 1: a log that another node still writes to has changed
if command -v curl > /dev/null; then
  printf 'url = "%s"\\n' "$url" | curl -fsS --retry 5 -T "$file" -K -
else
  printf %s "$url" | python3 -c 'import sys, urllib.request as u
u.urlopen(u.Request(sys.stdin.read(), open(sys.argv[1], "rb").read(), method="PUT"), timeout=300)' "$file"
fi
"""


def new_chunks(api: RunaiApi, handle: Handle, cursors: Cursors, limit: int) -> list[LogChunk] | None:
    """New bytes of the copy, which is made where there is none; None where S3 is not set up or the job goes on.

    Why there is no copy is said, once in the same words. It is tried again by every later process, not by this one.
    """
    if not handle.get("logs_url") or not is_over_now(api, handle):
        return None
    copy, bucket = _copy(handle), _bucket(handle)
    if copy in _FAILED:
        return []
    if bucket is None:
        return _problem(cursors, _NO_KEYS)
    try:
        if bucket.head(copy) is None:
            if not cursors.get(_ANNOUNCED):
                return [replace(notice(_ANNOUNCED, _HELPING), more=True)]
            _make(api, handle, bucket)
        _tidy(api, handle)
        web = Web("", "the S3 service", headers=dict)
        archive = web.reply("GET", bucket.presign(copy, _HOLDS), repeatable=True, secret=True).body
        return _pieces(handle, logs_in(archive), cursors, limit)
    except UserError as error:
        if error.transient:
            raise
        _FAILED.add(copy)
        where = f"they are in {PodHandle(handle).job_dir}/logs on the claim"
        return _problem(cursors, f"the logs could not be fetched ({error.what}); {where}")


def logs_in(archive: bytes) -> Mapping[str, bytes]:
    """The logs of a copy by their names, sorted.

    Raises:
        UserError: it is cut off or damaged, or stands for more than `_MOST` bytes.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(archive)) as stream:
            plain = stream.read(_MOST + 1)  # all of it: what follows the last file holds the checksum
        if len(plain) > _MOST:
            raise UserError(f"the copy of the logs is larger than {_MOST >> 30} GiB")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
            files = {member.name: tar.extractfile(member) for member in tar if member.name.endswith(".log")}
            return {name: file.read() for name, file in sorted(files.items()) if file is not None}
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, KeyError, OverflowError) as error:
        raise UserError(f"the copy of the logs is cut off or damaged: {error}") from None


def _problem(cursors: Cursors, line: str) -> list[LogChunk]:
    """Why there is no copy, unless that was said last."""
    chunk = notice(_WHY, line)
    return [] if cursors.get(_WHY) == chunk.cursor else [chunk]


def _copy(handle: Handle) -> str:
    """Where the copy is; a further attempt writes on in the same logs, so each has its own."""
    return f"{handle['logs_url']}-{PodHandle(handle).attempt}.tar.gz"


def _make(api: RunaiApi, handle: Handle, bucket: Bucket) -> None:
    """Has the helper make the copy.

    Raises:
        UserError: there is none afterwards.
    """
    state = _run_helper(api, handle, bucket.presign(_copy(handle), _HOLDS, "PUT"))
    if bucket.head(_copy(handle)) is None:
        how = "took too long" if not is_over(state) else "failed" if state != "succeeded" else "has left nothing"
        raise UserError(f"the helper workload {_helper(handle)['name']} {how}")


def _run_helper(api: RunaiApi, handle: Handle, address: str, sleep: Callable[[float], None] = time.sleep) -> str:
    """Runs the helper to its end, whose state is given back. It is deleted whatever happens.

    One that another process has started is waited for.
    """
    helper = submit(api, _helper(handle), _payload(handle, address), sleep)
    end, state = time.monotonic() + _PATIENCE, "submitting"
    try:
        while not is_over(state) and time.monotonic() < end:
            sleep(_PAUSE)
            state = state_of(api, helper)
    finally:
        with suppress(UserError):  # one that is gone is as good; one that cannot be deleted now is there the next time
            api.delete(TRAININGS, helper["id"])
    return state


def _tidy(api: RunaiApi, handle: Handle) -> None:
    """Deletes a helper that a killed process has left behind. One request, once per process."""
    if _copy(handle) in _TIDIED:
        return
    with suppress(UserError):
        left = find(api, _helper(handle))
        _TIDIED.add(_copy(handle))
        if left is not None:
            api.delete(TRAININGS, workload_id(left))


def _helper(handle: Handle) -> dict[str, Any]:
    """The helper as a job of its own."""
    return {**handle, "name": f"{workload_name(handle)}-logs", "workload": "", "id": "", "kind": TRAININGS}


def _payload(handle: Handle, address: str) -> dict[str, Any]:
    """The workload of the helper: one pod without GPUs, with the job's image, which its nodes have.

    Args:
        address: where it puts the logs; it holds for this one object and for an hour.
    """
    variables = {BOOT: _PROGRAM, "NEMOTRON_JOB_DIR": PodHandle(handle).job_dir, "NEMOTRON_PUT": address}
    listed = [{"name": name, "value": value} for name, value in variables.items()]
    spec = base_spec(str(handle["image"]), handle["pvcs"], listed)
    place = {"projectId": handle["project_id"], "clusterId": handle["cluster_id"]}
    return {"name": _helper(handle)["name"], **place, "spec": spec}


def _bucket(handle: Handle) -> Bucket | None:
    from nemo_runspec.backends.cloud.storage.bucket import from_environment

    place = handle.get("s3") or {}
    return from_environment(place.get("endpoint") or "", place.get("region") or "")


def _pieces(handle: Handle, files: Mapping[str, bytes], cursors: Cursors, limit: int) -> list[LogChunk]:
    """New bytes. What was read from the pods, while they were there, is not said again."""
    chunks = []
    for name, content in files.items():
        start = offset_of(cursors[name]) if name in cursors else _after_pods(handle, name, content, cursors)
        part = content[start : start + max(0, limit)]
        limit -= len(part)
        if part:
            chunks.append(LogChunk(name, start, part, start + len(part) < len(content)))
    return chunks


def _after_pods(handle: Handle, name: str, content: bytes, cursors: Cursors) -> int:
    """The offset after the lines of a node's log that were read from its pods."""
    number = name.rpartition("-")[2].partition(".")[0]
    taken = lines_taken(handle, cursors, int(number) if number.isdigit() else 0)
    return min(len(content), sum(len(line) + 1 for line in content.split(b"\n")[:taken]))

"""Fetches a job's inputs from S3 and copies its outputs there: `python3 data.pyz get|put data.json`, in its pods.

Needs Python 3.6 or newer, and keys in the environment (ACCESS_KEY and SECRET_KEY, or Amazon's names). Exit codes: 0, 1
(told in one line on the error stream), 143 when told to stop.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import time
import uuid
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence  # noqa: UP035  (Python 3.6)

from nemo_runspec.backends.cloud.storage.data_cache import Copies, Location, cache_location, fetch
from nemo_runspec.backends.cloud.storage.data_outputs import (
    Upload,
    is_shared,
    keep,
    output_names,
    place_of,
    send,
    uploads,
    why,
)
from nemo_runspec.backends.cloud.storage.s3 import S3, S3Error, from_environment, split


class DataRequest(NamedTuple):
    """What data.json says.

    Args:
        cache: where inputs are kept for others, `kept`: where outputs are kept; None where there is no mount.
        folder: where that file is.
        node: which this is.
        staged: folders below which `bucket/key` may be an input already.
    """

    inputs: "dict[str, str]"
    outputs: "list[str]"
    output_url: str
    cache: "Path | None"
    kept: "Path | None"
    folder: Path
    node: int
    staged: "tuple[Path, ...]" = ()


class Outgoing(NamedTuple):
    """What this node copies away, each by its key below `output_url`. `own`: those that would go with its pod."""

    files: "list[Upload]"
    own: "list[Upload]"
    problems: "list[str]"
    missing: "list[str]"


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Runs the program; its exit code."""
    options = _options().parse_args(arguments)
    try:
        settings = json.loads(options.file.read_text(encoding="utf-8"))
        job = _request(settings, options)
        if options.action == "get":
            get(_client(settings), job)
            return 0
        return put(partial(_client, settings), job, failed=options.status != 0)
    except S3Error as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename or options.file}: {error.strerror or error}")


def get(s3: S3, job: DataRequest) -> None:
    """Brings every input to its path: a link to the copy in the cache, or files of its own. Says what was done.

    Raises:
        S3Error: an input cannot be fetched, or something else is at its path.
    """
    _refuse_nested(list(job.inputs))
    for path, url in job.inputs.items():
        began, (bucket, key) = time.monotonic(), split(url)
        if job.cache is None:
            copies = _fetch_own(s3, job, Path(path), bucket, key)
        else:
            copies = _fetch_to_cache(s3, job, job.cache, Path(path), bucket, key)
        here = copies.files - copies.fetched - copies.staged
        cached = f", {here} of them from the cache" if here else ""
        cached += f", {copies.staged} of them as they lay on a mount" if copies.staged else ""
        seconds = time.monotonic() - began
        _say(f"input {path}: {_files(copies.files)}, {_size(copies.size)}, of {url} in {seconds:.0f} s{cached}")


def put(connect: "Callable[[], S3]", job: DataRequest, *, failed: bool = False) -> int:
    """Copies every output to the mount, where it is on none, then to S3, as many as can be. Says what was done.

    Args:
        connect: makes the client, once the outputs are safe: there may be no keys.
        failed: the job has failed; that an output is missing is then only a warning.

    Returns:
        The exit code.
    """
    found = _found(job)
    kept = _kept(job, found.own)
    try:
        problems = _upload(connect(), job, found)
    except S3Error as error:
        problems = [str(error)]
    return _judged(found.problems + problems, found.missing, kept, failed=failed)


def _found(job: DataRequest) -> Outgoing:
    """All outputs that are there, but for those that node 0 copies for every node."""
    found = Outgoing([], [], [], [])
    for output, name in zip(job.outputs, output_names(job.outputs)):  # noqa: B905  (`strict` came with Python 3.10)
        try:
            if not Path(output).exists():
                found.missing.extend([] if job.node else [f"output {output} is not there"])
                continue
            shared = is_shared(Path(output), job.folder)
            if job.node and shared:
                continue
            key = "/".join(filter(None, (f"node-{job.node}" if job.node else "", name)))
            files = uploads(Path(output), key, found.problems, _say)
            found.files.extend(files)
            found.own.extend([] if shared else files)
        except OSError as error:
            found.problems.append(why(output, error))
    return found


def _kept(job: DataRequest, own: "list[Upload]") -> str:
    """Copies to the mount what would go with the pod; says in words what is there then, '' for nothing."""
    if job.kept is None or not own:
        return ""
    done = keep(own, job.kept, job.node)
    place = job.kept / f"node-{job.node}" if job.node else job.kept
    if done.problem:
        _say(f"warning: outputs: {_files(len(own) - done.copied)} cannot be kept in {place}: {done.problem}")
    return f"{_files(done.copied)} {'is' if done.copied == 1 else 'are'} kept in {place}" if done.copied else ""


def _upload(s3: S3, job: DataRequest, found: Outgoing) -> "list[str]":
    """Sends files, and says how many; what is wrong with the others. What was sent, other jobs find on the mount.

    Raises:
        S3Error: `output_url` is none.
    """
    if not job.outputs:
        return []
    began, (bucket, prefix) = time.monotonic(), split(job.output_url)
    files = found.files
    keys = ["/".join(filter(None, (prefix.rstrip("/"), each.key.lstrip("/")))) for each in files]
    places = _places(job, found, bucket)
    whole = [Upload(each.file, key) for each, key in zip(files, keys)]  # noqa: B905  (Python 3.10)
    sent = list(send(s3, bucket, whole, places))
    done = [each for each in sent if not each.problem]
    if files or job.node == 0:
        size, seconds = sum(each.size for each in done), time.monotonic() - began
        _say(f"outputs: {_files(len(done))}, {_size(size)}, are at {job.output_url} after {seconds:.0f} s")
    return [each.problem for each in sent if each.problem]


def _places(job: DataRequest, found: Outgoing, bucket: str) -> "dict[Path, tuple[Path, Location]]":
    """Where files of outputs stay on the mount, and the cache that is told so; of those that stay nowhere nothing."""
    if job.cache is None:
        return {}
    own = {each.file for each in found.own}
    location = cache_location(job.cache, bucket, "")
    kept = {each.file: place_of(job.kept, each.key) for each in found.own} if job.kept else {}
    shared = {each.file: each.file for each in found.files if each.file not in own}
    return {file: (place, location) for file, place in [*kept.items(), *shared.items()]}


def _fetch_to_cache(s3: S3, job: DataRequest, cache: Path, path: Path, bucket: str, key: str) -> Copies:
    location = cache_location(cache, bucket, key)
    _make_free(path)
    copies = fetch(s3, location, job.staged)
    if not path.is_symlink() or os.readlink(str(path)) != str(location.base):  # noqa: PTH115  (Python 3.9)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        scratch.symlink_to(location.base)
        scratch.replace(path)
    return copies


def _fetch_own(s3: S3, job: DataRequest, path: Path, bucket: str, key: str) -> Copies:
    """Files of its own; a note in the job's directory tells them from what was there before."""
    state = job.folder / ".s3" / hashlib.sha256(os.fsencode(str(path))).hexdigest()[:16]
    note = state / "path"
    if path.is_symlink():
        path.unlink()
    if not note.is_file():
        _make_free(path)
        state.mkdir(parents=True, exist_ok=True)
        note.write_bytes(os.fsencode(str(path)))
    return fetch(s3, Location(bucket, key, path, state, path.with_name(f".{path.name}.partial"), None))


def _make_free(path: Path) -> None:
    """Sees that an input may be put there: what is no link, and not of ours, is not ours to remove."""
    if path.is_symlink() or not path.exists():
        return
    try:
        path.rmdir()
    except OSError:
        if path.is_symlink():  # another node has put it there meanwhile
            return
        what = f"input {path}: something else is there already"
        raise S3Error(what, "choose another path for it, in a folder that is there or not") from None


def _refuse_nested(paths: "list[str]") -> None:
    """One of them would be put into the copies of the other."""
    for path in paths:
        inside = [each for each in paths if each.rstrip("/").startswith(path.rstrip("/") + "/")]
        if inside:
            raise S3Error(f"input {inside[0]} lies in input {path}", "choose paths that do not contain each other")


def _judged(problems: "list[str]", missing: "list[str]", kept: str, *, failed: bool) -> int:
    """Says what went wrong, what counts last, and what is kept in any case. The exit code."""
    for line in missing if failed else []:
        _say(f"warning: {line}")
    problems = problems + ([] if failed else missing)
    if not problems:
        if kept:
            _say(f"outputs: {kept}")
        return 0
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    for line in problems[1:10]:
        _say(line)
    return _failed(problems[0] + more + (f"; {kept}" if kept else ""))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Fetches inputs (get) or copies outputs away (put).")
    parser.add_argument("action", choices=("get", "put"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--node", type=int, default=0, help="which node this is")
    parser.add_argument("--status", type=int, default=0, help="exit code of the job, for put")
    return parser


def _request(settings: "dict[str, Any]", options: argparse.Namespace) -> DataRequest:
    return DataRequest(
        settings.get("inputs") or {},
        settings.get("outputs") or [],
        settings.get("output_url") or "",
        Path(settings["cache"]) if settings.get("cache") else None,
        Path(os.fsdecode(settings["kept"].encode("utf-8", "surrogateescape"))) if settings.get("kept") else None,
        options.file.resolve().parent,
        options.node,
        tuple(Path(root) for root in settings.get("staged") or ()),
    )


def _client(settings: "dict[str, Any]") -> S3:
    """A client that ends when this program is told to."""
    patience = float(settings.get("patience") or 120)
    s3 = from_environment(settings.get("endpoint") or "", settings.get("region") or "", patience=patience)
    if s3 is None:
        raise S3Error("there are no keys for S3", "set ACCESS_KEY and SECRET_KEY where the job is submitted")
    _heed_signals(s3)
    return s3


def _heed_signals(s3: S3) -> None:
    def stop(number: int, frame: object) -> None:
        s3.stop()
        sys.exit(128 + number)

    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, stop)


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _size(size: int) -> str:
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def _say(text: str, file: Any = None) -> None:
    """One line; a stream that does not know a character gets its escape (Python 3.6 heeds `LC_ALL=C`)."""
    stream = file or sys.stdout
    kind = stream.encoding or "ascii"
    print(f"nemotron: {text}".encode(kind, "backslashreplace").decode(kind), file=stream, flush=True)


def _failed(text: str) -> int:
    _say(" ".join(text.split("\n")), sys.stderr)
    return 1

"""Packs a job's files, its code and our programs into archives, and builds the arguments that fetch them."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nemo_runspec.backends.cloud.code.transports import (
    Transport,
    Transports,
    choose_transports,
    size_of_content,
    store_archive,
    transports_of,
)
from nemo_runspec.backends.cloud.layout import job_layout
from nemo_runspec.backends.cloud.pod.program import DATA, DATA_PROGRAM
from nemo_runspec.backends.provider import Parts
from nemo_runspec.console import Say
from nemo_runspec.digests import digest_of
from nemo_runspec.errors import UserError
from nemo_runspec.jobside.barriers import PATIENCE, USUAL_PATIENCE
from nemo_runspec.plans.model import BundleFile, Plan
from nemo_runspec.script.programs import CHECKS_PROGRAM, POD_PROGRAMS
from nemo_runspec.submission.request import Submission
from nemo_runspec.text import size as size_words
from nemo_runspec.transport.files import add_member
from nemo_runspec.version import FOLDER

PAYLOAD = "job.json"
"""The text that does not travel: it describes the upload."""

_SAME = (*POD_PROGRAMS, CHECKS_PROGRAM)
"""What is sent once for all jobs that have it."""

LONGEST_WORD = 100_000
"""Characters of one word. The kernel takes 131,072 bytes, its end included (MAX_ARG_STRLEN, man 2 execve)."""


_MODULES = ("data", "data_cache", "data_outputs", "data_staged", "s3", "s3_signing", "s3_wire")
"""Of `storage/`, those that travel with jobs."""


@dataclass(frozen=True, slots=True)
class Part:
    """One archive.

    Args:
        kind: `job`, `code` or `programs`.
        size: bytes of the archive.
        sha256: of the archive; for transport git, git's id of the tree.
        transport: `inline`, `git`, `s3` or `volume`.
        words: what that way needs, as boot.sh takes it.
    """

    kind: str
    sha256: str
    size: int
    transport: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobUpload:
    """All that a job's pods fetch.

    Args:
        job_dir: where they put it.
        patience: seconds that other nodes wait for node 0 to do so.
    """

    parts: tuple[Part, ...]
    job_dir: str
    nodes: int = 1
    patience: int = USUAL_PATIENCE


def load(plan: Plan, texts: Mapping[str, str], parts: Parts, offered: Transports, say: Say) -> JobUpload:
    """Chooses a way for each part, and puts where pods find it what does not travel in the job's own description.

    The same contents are the same bytes, so that what was put before is not put again.

    Args:
        texts: name → text, as `submission.layout.job_files` makes them.
        say: takes a line for what may take a while.

    Raises:
        UserError: a part fits none of the ways there are; the error names them. It cannot be put there.
        Unreachable: the S3 service does not answer.
    """
    contents = _contents(texts, parts)
    transports = choose_transports(plan, _sizes(contents), offered)
    sent = [
        _send(kind, content, transports[kind], offered, say)
        for kind, content in contents.items()
        if content is not None
    ]
    return JobUpload(tuple(sent), job_layout(plan).root, plan.resources.nodes, _patience(plan))


def check_fit(submission: Submission, texts: Mapping[str, str], parts: Parts) -> None:
    """Refuses what has been packed and reaches no pod, before anything is written down or sent.

    Args:
        texts: as for `load`, as far as they are known.

    Raises:
        UserError: as `load`.
    """
    plan = submission.plan
    offered = transports_of(plan, submission.secrets, inline_word=LONGEST_WORD)
    choose_transports(plan, _sizes(_contents(texts, parts)), offered)


def pod_arguments(upload: JobUpload) -> list[str]:
    """What the pods' first program is called with: what replaces `"UPLOAD"` in a payload.

    Raises:
        UserError: Kubernetes would rewrite one of them, such as a path with `$(`.
    """
    found = [upload.job_dir, f"{upload.nodes} {upload.patience}"]
    for part in upload.parts:
        found += [f"{part.kind} {part.sha256} {part.size} {part.transport} {len(part.words)}", *part.words]
    for word in found:
        if "$$" in word or "$(" in word:
            raise UserError(
                f"{word[:200]!r} cannot be told to a pod: Kubernetes rewrites $$ and $(", remedy="rename it"
            )
        assert len(word) <= LONGEST_WORD, "a word of the upload is longer than an argument may be"
    return found


def _contents(texts: Mapping[str, str], parts: Parts) -> dict[str, bytes | Path | None]:
    """Part → what it is."""
    own, same = pack_job(texts, parts.contents), pack_programs(texts)
    return {"job": own, "code": parts.archive, "programs": same}


def pack_job(texts: Mapping[str, str], contents: Mapping[BundleFile, bytes]) -> bytes:
    """The job's own files as a tar.gz: texts, and the recipe's bundle."""
    files = {name: (_bytes(text), 0o600) for name, text in texts.items() if name not in (PAYLOAD, *_SAME)}
    for file, content in contents.items():
        files[f"bundle/{file.path}"] = (content, 0o700 if os.access(file.source, os.X_OK) else 0o600)
    return _tar(files)


def pack_programs(texts: Mapping[str, str]) -> bytes:
    """What is the same for all jobs as a tar.gz: our programs, and what moves data for those that have any."""
    files = {name: (_bytes(text), 0o600) for name, text in texts.items() if name in _SAME}
    if DATA in texts:
        files[DATA_PROGRAM] = (data_program(), 0o600)
    return _tar(files)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _tar(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Files with their contents and modes; the same are the same bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
        for name, (content, mode) in sorted(files.items()):
            add_member(tar, name, content, mode)
    return packed.getvalue()


def _sizes(contents: Mapping[str, bytes | Path | None]) -> dict[str, int]:
    return {kind: size_of_content(content) for kind, content in contents.items() if content is not None}


def _send(kind: str, content: bytes | Path, transport: Transport, offered: Transports, say: Say) -> Part:
    digest, size = digest_of(content), size_of_content(content)
    sending = f"sending the {kind} package ({size_words(size)}) to"
    tree, words = store_archive(transport, kind, content, digest, offered, lambda where: say(f"{sending} {where}"))
    return Part(kind, tree or digest, size, transport, words)


def _patience(plan: Plan) -> int:
    given = next((variable.value for variable in plan.env if variable.name == PATIENCE), "")
    return int(given) if given else USUAL_PATIENCE


def data_program() -> bytes:
    """What fetches inputs and copies outputs away, as one file that any python3 runs (zipapp); always the same bytes.

    Its modules have their names here; of their packages there is nothing else, so that no nemotron need be there.
    """
    storage = PurePosixPath("nemo_runspec/backends/cloud/storage")
    modules = ["nemo_runspec/s3_names.py", *(str(storage / f"{name}.py") for name in _MODULES)]
    files = {f"{package}/__init__.py": b"" for package in (storage, *storage.parents[:-1])}
    files |= {module: (FOLDER.parent / module).read_bytes() for module in modules}
    files["__main__.py"] = (
        b"import sys\n\nfrom nemo_runspec.backends.cloud.storage.data import main\n\nsys.exit(main())\n"
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()

"""Transports by which code reaches the pods of a cloud: which of them a profile offers, and which one is taken."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nemo_runspec import paths
from nemo_runspec.backends import get_backend
from nemo_runspec.backends.cloud.code.origin import TOKEN, GitPlace, git_place
from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.cloud.layout import PACKAGES
from nemo_runspec.console import Say
from nemo_runspec.digests import blocks_of, digest_of
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.plans.model import Package, Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.spinner import UploadProgress, uploading
from nemo_runspec.text import size as size_words

if TYPE_CHECKING:
    from nemo_runspec.backends.cloud.storage.bucket import Bucket

Transport = Literal["inline", "git", "s3", "volume"]

DAYS = 7
"""How long a presigned URL holds: as long as Signature Version 4 allows (the S3 API's X-Amz-Expires, 604,800 s)."""

_PARTS = ("programs", "job", "code")
"""In the order in which they are given room in the job's own description."""
_DESCRIBED = 4_000
"""Characters of them that are kept for what is not a file: the words that describe the parts."""
_MOST_SAVED = 1_000
"""By how much compression may shrink a package, for a plan that does not know its packed size yet: deflate's limit is
1032:1 (zlib's "Technical Details"), so what is refused for it surely does not fit."""

_NEEDS: Mapping[Transport, str] = {
    "volume": "run_dir_here: the directory for jobs, mounted on this machine too",
    "s3": "code_url, and ACCESS_KEY and SECRET_KEY in the environment",
    "git": f"a commit without changes that origin has, and for a private one {TOKEN} in secret_vars",
}


@dataclass(frozen=True, slots=True)
class S3Place:
    """Where packages are put: `<url>/<digest>.tar.gz`."""

    url: str
    bucket: Bucket


@dataclass(frozen=True, slots=True)
class Transports:
    """The transports that are there for a plan.

    Args:
        inline_word, inline_total: characters of one word of a job's description, and of all of them.
        volume: the directory for jobs as this machine sees it.
        git: asks for the place to fetch from. Raises `UserError` with the reason where there is none.
        why_not: transport → why it is not offered, where there is more to say than what it needs.
    """

    inline_word: int
    inline_total: int
    s3: S3Place | None = None
    volume: Path | None = None
    git: Callable[[], GitPlace] | None = None
    why_not: Mapping[Transport, str] = field(default_factory=dict)

    @property
    def inline_bytes(self) -> int:
        """The largest archive that travels inline, in bytes."""
        return _bytes_of(self.inline_total)


def transports_of(plan: Plan, secrets: Mapping[str, str], *, inline_word: int) -> Transports:
    """Collects a profile's transports, as far as this machine knows; only git asks somebody else, when needed.

    Args:
        secrets: of the submission, by variable.
        inline_word: as in `Transports`. Of the total, some is kept for the words that describe the parts.
    """
    target = target_of(plan, CloudTarget)
    why_not: dict[Transport, str] = {}
    volume = _volume(target, why_not)
    s3 = _s3(target, why_not)
    token = TOKEN in target.secret_vars or TOKEN in secrets
    git = cache(lambda: git_place(plan.package, token=token)) if plan.package.kind == "git" else None
    return Transports(
        min(inline_word, 99_000), get_backend(plan.executor).inline_total - _DESCRIBED, s3, volume, git, why_not
    )


def choose_transports(plan: Plan, sizes: Mapping[str, int], offered: Transports) -> dict[str, Transport]:
    """Chooses a transport for each part.

    Args:
        sizes: bytes of the parts: `programs`, `job` and, where there is one, `code`.

    Raises:
        UserError: a part fits none; the error names all of them, and what each would need.
    """
    wanted = target_of(plan, CloudTarget).code_transport
    transports: dict[str, Transport] = {}
    left = offered.inline_bytes
    for kind in (each for each in _PARTS if each in sizes):
        transports[kind] = _transport(kind, sizes[kind], left, wanted, offered)
        left -= sizes[kind] if transports[kind] == "inline" else 0
    # The same for all jobs: where the pods fetch something by its digest anyway, they are sent and fetched once.
    if "programs" in transports and (transport := transports.get("code")) in ("volume", "s3"):
        transports["programs"] = transport
    return transports


def _transport(kind: str, size: int, left: int, wanted: str, offered: Transports) -> Transport:
    """The first transport that fits a part. `left`: bytes that may still travel inline."""
    problems = []
    for transport in _order(kind, wanted):
        problem = _problem(transport, size, left, offered)
        if problem is None:
            return transport
        problems.append(problem)
    what = f"the {kind} package ({size_words(size)}) does not reach the job's pods; what code_transport would need:"
    raise Problems(what, problems)


def problem_at_plan_time(plan: Plan) -> str | None:
    """Why the code of a plan surely reaches no pod, None where it may. Asks nobody, reads nothing but the plan.

    A plan knows the size of its files and not that of their archive: what may fit is seen once it is packed, before
    anything of a submission is written down (`upload.check_fit`).
    """
    if plan.package.kind == "none":
        return None
    target = target_of(plan, CloudTarget)
    room = _bytes_of(get_backend(plan.executor).inline_total - _DESCRIBED)
    have: dict[Transport, bool] = {
        "inline": plan.package.bytes <= room * _MOST_SAVED,
        "volume": bool(target.run_dir_here),
        "s3": bool(target.code_url),
        "git": _exactly_a_tree(plan.package),
    }
    order = _order("code", target.code_transport)
    if any(have[transport] for transport in order):
        return None
    needs = "; ".join(f"{transport}: {_needs(transport, room)}" for transport in order)
    return f"the code ({size_words(plan.package.bytes)}) does not reach the pods (code_transport: {needs})"


def lacking(plan: Plan) -> tuple[str, ...]:
    """As `backends.base.Backend.lacking`: a way for the code."""
    problem = problem_at_plan_time(plan)
    return () if problem is None else (problem,)


def store_archive(
    transport: Transport, kind: str, source: bytes | Path, digest: str, offered: Transports, say: Say
) -> tuple[str, tuple[str, ...]]:
    """Stores an archive by its transport. Returns git's tree id, which replaces the digest, and boot.sh's words.

    Args:
        kind: what it is, as a person is told.
        say: called with the place, where something is really sent.

    Raises:
        UserError: it cannot be put there.
    """
    if transport == "inline":
        text = base64.b64encode(b"".join(blocks_of(source))).decode()
        step = offered.inline_word
        return "", tuple(text[start : start + step] for start in range(0, len(text), step))
    if transport == "volume":
        assert offered.volume is not None
        _put_on_volume(source, kind, digest, offered.volume / PACKAGES, say)
        return "", ()
    if transport == "s3":
        assert offered.s3 is not None
        return "", (_put_to_s3(source, kind, digest, offered.s3, say),)
    assert offered.git is not None
    place = offered.git()
    return place.tree, (place.url, place.commit, f"{place.commit}:{place.folder}", place.tree)


def _order(kind: str, wanted: str) -> tuple[Transport, ...]:
    """The ways a part may take, the first that fits is taken. Only code can come from a commit."""
    if wanted == "auto":
        return ("inline", "volume", "s3", "git") if kind == "code" else ("inline", "volume", "s3")
    chosen: tuple[Transport, ...] = tuple(
        transport for transport in ("inline", "git", "s3", "volume") if transport == wanted
    )
    return (
        chosen if kind == "code" else ("inline", *(transport for transport in chosen if transport in ("s3", "volume")))
    )


def _problem(transport: Transport, size: int, left: int, offered: Transports) -> UserError | None:
    """Why a part of that size fits no such transport, else None. `left`: bytes that may still travel inline."""
    there = {"inline": size <= left, "volume": offered.volume, "s3": offered.s3, "git": offered.git}[transport]
    why, remedy = offered.why_not.get(transport, ""), _needs(transport, left)
    if transport == "git" and offered.git is not None:
        try:
            offered.git()
        except UserError as error:
            there, why, remedy = None, error.what, error.remedy or remedy
    if there:
        return None
    return UserError(f"{transport}: {why}", remedy=remedy) if why else UserError(f"{transport}: needs {remedy}")


def _needs(transport: Transport, left: int) -> str:
    return f"at most {size_words(left)}, packed" if transport == "inline" else _NEEDS[transport]


def _bytes_of(characters: int) -> int:
    """Base64 makes 4 characters of 3 bytes."""
    return characters * 3 // 4


def _exactly_a_tree(package: Package) -> bool:
    return bool(package.commit) and package.kind == "git" and package.digest_kind == "tree"


def _volume(target: CloudTarget, why_not: dict[Transport, str]) -> Path | None:
    folder = paths.expand_user(target.run_dir_here, "run_dir_here") if target.run_dir_here else None
    if folder is None or folder.is_dir():
        return folder
    why_not["volume"] = f"run_dir_here {str(folder)!r} is no directory of this machine"
    return None


def _s3(target: CloudTarget, why_not: dict[Transport, str]) -> S3Place | None:
    if not target.code_url:
        return None
    from nemo_runspec.backends.cloud.storage.bucket import from_environment

    bucket = from_environment(target.s3_endpoint, target.s3_region)
    if bucket is None:
        why_not["s3"] = "there is a code_url, and no key for it: ACCESS_KEY and SECRET_KEY are not set"
        return None
    return S3Place(target.code_url.rstrip("/"), bucket)


def size_of_content(source: bytes | Path) -> int:
    """Bytes of an archive."""
    return source.stat().st_size if isinstance(source, Path) else len(source)


def _put_on_volume(source: bytes | Path, kind: str, digest: str, folder: Path, say: Say) -> None:
    """Writes once per digest, whole or not at all. Pods may run as another user, so all may read it."""
    place = folder / f"{digest}.tar.gz"
    with suppress(OSError):
        if digest_of(place) == digest:  # one that was damaged is put there anew
            return
    say(str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=f".{place.name}.", dir=folder, delete=False) as out:
            try:
                for block in uploading(blocks_of(source), kind, size_of_content(source)):
                    out.write(block)
                out.flush()
                os.fchmod(out.fileno(), 0o644)
                os.fsync(out.fileno())
                Path(out.name).replace(place)
            except BaseException:
                with suppress(OSError):
                    Path(out.name).unlink()
                raise
    except OSError as error:
        what = f"the package cannot be written below run_dir_here: {error.strerror}"
        raise UserError(what, where=str(folder)) from None


def _put_to_s3(source: bytes | Path, kind: str, digest: str, place: S3Place, say: Say) -> str:
    """Uploads once per digest. Returns the presigned URL that the pods fetch it from."""
    url = f"{place.url}/{digest}.tar.gz"
    with tempfile.NamedTemporaryFile() as scratch, UploadProgress(kind, size_of_content(source)) as upload:
        if isinstance(source, bytes):
            scratch.write(source)
            scratch.flush()
        file = source if isinstance(source, Path) else Path(scratch.name)
        place.bucket.put(url, file, digest, lambda: say(place.url), upload.sent)
    return place.bucket.presign(url, DAYS * 86400)

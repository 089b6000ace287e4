"""The ways on which code reaches the pods of a cloud, which of them a profile offers, and which one is taken."""

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
from nemo_runspec.digests import blocks_of, digest_of
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.plans.model import Package, Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.spinner import UploadProgress, uploading

if TYPE_CHECKING:
    from nemo_runspec.backends.cloud.storage.bucket import Bucket

Way = Literal["inline", "git", "s3", "volume"]

DAYS = 7
"""How long a presigned URL holds: as long as Signature Version 4 allows (the S3 API's X-Amz-Expires, 604,800 s)."""

_PARTS = ("programs", "job", "code")
"""In the order in which they are given room in the job's own description."""
_DESCRIBED = 4_000
"""Characters of them that are kept for what is not a file: the words that describe the parts."""
_MOST_SAVED = 1_000
"""By how much compression may shrink a package, for a plan that does not know its packed size yet: deflate's limit is
1032:1 (zlib's "Technical Details"), so what is refused for it surely does not fit."""

_NEEDS: Mapping[Way, str] = {
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
class Offer:
    """What there is for a plan.

    Args:
        inline_word, inline_total: characters of one word of a job's description, and of all of them.
        volume: the directory for jobs as this machine sees it.
        git: asks for the place to fetch from. Raises `UserError` with the reason where there is none.
        why_not: way → why it is not offered, where there is more to say than what it needs.
    """

    inline_word: int
    inline_total: int
    s3: S3Place | None = None
    volume: Path | None = None
    git: Callable[[], GitPlace] | None = None
    why_not: Mapping[Way, str] = field(default_factory=dict)

    @property
    def inline_bytes(self) -> int:
        """How large an archive may be to travel inline."""
        return _bytes_of(self.inline_total)


def offer_of(plan: Plan, secrets: Mapping[str, str], *, inline_word: int) -> Offer:
    """What a plan's profile offers, as far as this machine knows; only git asks somebody else, when it is needed.

    Args:
        secrets: of the submission, by variable.
        inline_word: as in `Offer`. Of the total, some is kept for the words that describe the parts.
    """
    target = target_of(plan, CloudTarget)
    why_not: dict[Way, str] = {}
    volume = _volume(target, why_not)
    s3 = _s3(target, why_not)
    token = TOKEN in target.secret_vars or TOKEN in secrets
    git = cache(lambda: git_place(plan.package, token=token)) if plan.package.kind == "git" else None
    return Offer(
        min(inline_word, 99_000), get_backend(plan.executor).inline_total - _DESCRIBED, s3, volume, git, why_not
    )


def choose(plan: Plan, sizes: Mapping[str, int], offer: Offer) -> dict[str, Way]:
    """Part → the way it takes.

    Args:
        sizes: bytes of the parts: `programs`, `job` and, where there is one, `code`.

    Raises:
        UserError: a part fits none; the error names all of them, and what each would need.
    """
    wanted = target_of(plan, CloudTarget).code_transport
    ways: dict[str, Way] = {}
    left = offer.inline_bytes
    for kind in (each for each in _PARTS if each in sizes):
        ways[kind] = _way(kind, sizes[kind], left, wanted, offer)
        left -= sizes[kind] if ways[kind] == "inline" else 0
    # The same for all jobs: where the pods fetch something by its digest anyway, they are sent and fetched once.
    if "programs" in ways and (way := ways.get("code")) in ("volume", "s3"):
        ways["programs"] = way
    return ways


def _way(kind: str, size: int, left: int, wanted: str, offer: Offer) -> Way:
    """The first way that a part may take. `left`: bytes that may still travel inline."""
    problems = []
    for way in _order(kind, wanted):
        problem = _problem(way, size, left, offer)
        if problem is None:
            return way
        problems.append(problem)
    what = f"the {kind} package ({_mb(size)}) does not reach the job's pods; what code_transport would need:"
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
    have: dict[Way, bool] = {
        "inline": plan.package.bytes <= room * _MOST_SAVED,
        "volume": bool(target.run_dir_here),
        "s3": bool(target.code_url),
        "git": _exactly_a_tree(plan.package),
    }
    order = _order("code", target.code_transport)
    if any(have[way] for way in order):
        return None
    needs = "; ".join(f"{way}: {_needs(way, room)}" for way in order)
    return f"the code ({_mb(plan.package.bytes)}) does not reach the pods (code_transport: {needs})"


def lacking(plan: Plan) -> tuple[str, ...]:
    """As `backends.base.Backend.lacking`: a way for the code."""
    problem = problem_at_plan_time(plan)
    return () if problem is None else (problem,)


def put(
    way: Way, kind: str, source: bytes | Path, digest: str, offer: Offer, say: Callable[[str], None]
) -> tuple[str, tuple[str, ...]]:
    """Puts an archive where its way leads; the tree that git will verify instead of the digest, and the way's words.

    Args:
        kind: what it is, as a person is told. `say`: called with the place, where something is really sent.

    Raises:
        UserError: it cannot be put there.
    """
    if way == "inline":
        text = base64.b64encode(b"".join(blocks_of(source))).decode()
        step = offer.inline_word
        return "", tuple(text[start : start + step] for start in range(0, len(text), step))
    if way == "volume":
        assert offer.volume is not None
        _put_on_volume(source, kind, digest, offer.volume / PACKAGES, say)
        return "", ()
    if way == "s3":
        assert offer.s3 is not None
        return "", (_put_to_s3(source, kind, digest, offer.s3, say),)
    assert offer.git is not None
    place = offer.git()
    return place.tree, (place.url, place.commit, f"{place.commit}:{place.folder}", place.tree)


def _order(kind: str, wanted: str) -> tuple[Way, ...]:
    """The ways a part may take, the first that fits is taken. Only code can come from a commit."""
    if wanted == "auto":
        return ("inline", "volume", "s3", "git") if kind == "code" else ("inline", "volume", "s3")
    chosen: tuple[Way, ...] = tuple(way for way in ("inline", "git", "s3", "volume") if way == wanted)
    return chosen if kind == "code" else ("inline", *(way for way in chosen if way in ("s3", "volume")))


def _problem(way: Way, size: int, left: int, offer: Offer) -> UserError | None:
    """Why a part of that size cannot take a way, None where it can. `left`: bytes that may still travel inline."""
    there = {"inline": size <= left, "volume": offer.volume, "s3": offer.s3, "git": offer.git}[way]
    why, remedy = offer.why_not.get(way, ""), _needs(way, left)
    if way == "git" and offer.git is not None:
        try:
            offer.git()
        except UserError as error:
            there, why, remedy = None, error.what, error.remedy or remedy
    if there:
        return None
    return UserError(f"{way}: {why}", remedy=remedy) if why else UserError(f"{way}: needs {remedy}")


def _needs(way: Way, left: int) -> str:
    return f"at most {_mb(left)}, packed" if way == "inline" else _NEEDS[way]


def _bytes_of(characters: int) -> int:
    """Base64 makes 4 characters of 3 bytes."""
    return characters * 3 // 4


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def _exactly_a_tree(package: Package) -> bool:
    return bool(package.commit) and package.kind == "git" and package.digest_kind == "tree"


def _volume(target: CloudTarget, why_not: dict[Way, str]) -> Path | None:
    folder = paths.expand_user(target.run_dir_here, "run_dir_here") if target.run_dir_here else None
    if folder is None or folder.is_dir():
        return folder
    why_not["volume"] = f"run_dir_here {str(folder)!r} is no directory of this machine"
    return None


def _s3(target: CloudTarget, why_not: dict[Way, str]) -> S3Place | None:
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


def _put_on_volume(source: bytes | Path, kind: str, digest: str, folder: Path, say: Callable[[str], None]) -> None:
    """Once per digest; it appears whole or not at all. Pods may run as another user, so all may read it."""
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


def _put_to_s3(source: bytes | Path, kind: str, digest: str, place: S3Place, say: Callable[[str], None]) -> str:
    """Once per digest; the presigned URL that the pods fetch it from."""
    url = f"{place.url}/{digest}.tar.gz"
    with tempfile.NamedTemporaryFile() as scratch, UploadProgress(kind, size_of_content(source)) as upload:
        if isinstance(source, bytes):
            scratch.write(source)
            scratch.flush()
        file = source if isinstance(source, Path) else Path(scratch.name)
        place.bucket.put(url, file, digest, lambda: say(place.url), upload.sent)
    return place.bucket.presign(url, DAYS * 86400)

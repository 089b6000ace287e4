"""Sends a job's outputs to S3; the cache is told of those that stay on the mount. Travels with jobs."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Sequence, Tuple  # noqa: UP035  (Python 3.6)

if TYPE_CHECKING or __package__:
    from nemo_runspec.backends.cloud.storage.data_cache import AT_ONCE, Spot, link
    from nemo_runspec.backends.cloud.storage.data_outputs import Upload, why
    from nemo_runspec.backends.cloud.storage.s3 import PART, S3, S3Error
else:  # in a job's directory
    from data_cache import AT_ONCE, Spot, link
    from data_outputs import Upload, why
    from s3 import PART, S3, S3Error

Places = Mapping[Path, Tuple[Path, Spot]]  # noqa: UP006  (Python 3.6)
"""Where files stay on the mount, and the cache that is told so."""


class Sent(NamedTuple):
    """How large it was, or why it was not sent."""

    size: int
    problem: str


def send(s3: S3, bucket: str, uploads: "Sequence[Upload]", places: Places) -> "Iterator[Sent]":
    """Sends small files several at a time, then large ones in parts of which several go at a time."""
    one = partial(_send, s3, bucket, places)
    large = [each for each in uploads if _is_large(each.file)]
    small = set(uploads).difference(large)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(one, sorted(small))
    for each in large:
        yield one(each)


def _is_large(file: Path) -> bool:
    with suppress(OSError):
        return file.stat().st_size >= PART
    return False


def _send(s3: S3, bucket: str, places: Places, upload: Upload) -> Sent:
    try:
        with upload.file.open("rb") as file:
            size = s3.upload(bucket, upload.key, file, at_once=AT_ONCE)
    except S3Error as error:
        return Sent(0, str(error))
    except OSError as error:
        return Sent(0, why(upload.file, error))
    if upload.file in places:
        with suppress(S3Error, OSError):  # it is fetched where it is wanted, then
            _remember(s3, bucket, upload.key, *places[upload.file])
    return Sent(size, "")


def _remember(s3: S3, bucket: str, key: str, place: Path, spot: Spot) -> None:
    """Makes the file that stays on the mount the cache's copy of the object that was just made of it."""
    found = s3.head(bucket, key)
    if place.stat().st_size == found.size:
        link(spot, found, place)

"""Versions of artifacts to and from a bucket, in a job's directory: `python3 store.py put PATH`, `store.py get`.

What it needs to know stands in `artifacts.json` there, the keys in its environment. The folder for jobs has what is
read and written, with the manifests and links of a store of its own: the same job there need not fetch it again.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from nemo_runspec.artifacts import versions
from nemo_runspec.artifacts.changes import RefusedChange
from nemo_runspec.backends.cloud.storage.s3 import S3, S3Error, from_environment, split
from nemo_runspec.backends.cloud.storage.versions import BucketVersions

_PATIENCE = 120.0
"""Seconds without progress in which what may pass is tried again."""


def main() -> None:
    """Does one of them; the exit code is 1 where that cannot be, with the reason as the last line of the errors."""
    try:
        about = json.loads(Path(versions.ABOUT).read_text(encoding="utf-8"))
        known = about["store"]
        s3 = _client({**about, **known})
        if sys.argv[1] == "put":
            print(_put(BucketVersions(s3, known["url"]), Path(sys.argv[2]), json.loads(sys.stdin.read())))
        else:
            for wanted in known["inputs"]:
                _get(s3, BucketVersions(s3, known["url"]), wanted)
    except (S3Error, OSError, RefusedChange) as error:
        print(error, file=sys.stderr)
        sys.exit(1)


def _client(known: "dict[str, Any]") -> S3:
    endpoint = known.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    patience = float(known.get("patience", _PATIENCE))
    region = known.get("region") or os.environ.get("AWS_REGION", "")
    found = from_environment(endpoint or "", region, patience=patience, timeout=max(5.0, min(60.0, patience / 2)))
    if found is None:
        raise RefusedChange("the job has no keys for S3 (ACCESS_KEY and SECRET_KEY)")
    return found


def _put(bucket: BucketVersions, path: Path, manifest: "dict[str, Any]") -> int:
    """Uploads and registers a version, and writes the same manifest beside the data here."""
    config = Path("train.yaml")
    number = bucket.add(path.parent.name, str(path), manifest, config.read_bytes() if config.exists() else b"")
    place = path.parent / versions.FOLDER
    with suppress(OSError):  # it is registered: what is missing here is fetched when it is read
        place.mkdir(parents=True, exist_ok=True)
        versions.replace(str(place), number, dict(manifest, version=number))
    return number


def _get(s3: S3, bucket: BucketVersions, wanted: "dict[str, str]") -> None:
    """Brings the version that a reference means, unless it is here, and lets the reference's link lead to it."""
    name, word, folder = wanted["artifact"], wanted["version"], Path(wanted["folder"])
    manifests, links = bucket.look([name])
    texts, target = manifests.get(name, {}), links.get(name, {}).get(word, "")
    known = [json.loads(text.decode()) for file, text in texts.items() if _is(file, text, word, target)]
    if not known:
        raise RefusedChange(f"there is no {name}:{word} in {bucket.url}")
    found = max(known, key=lambda each: int(each["version"]))
    data = folder / found["path"]
    if not data.exists():
        _download(s3, f"{bucket.url}/{name}/{found['path']}", data)
    place = folder / versions.FOLDER
    place.mkdir(parents=True, exist_ok=True)
    versions.replace(str(place), found["version"], found)
    if word != found["path"]:
        versions.link(str(folder), word, found["path"])


def _is(file: str, text: bytes, word: str, target: str) -> bool:
    try:
        found = json.loads(text.decode())
    except ValueError:
        return False
    if not found.get("path"):  # removed
        return False
    made_by = str((found.get("producer") or {}).get("job", ""))
    return file == f"{word}.json" or found["path"] == target or word in (made_by, found["path"])


def _download(s3: S3, url: str, data: Path) -> None:
    """All of it, or nothing by that name."""
    bucket, key = split(url)
    partial = data.with_name(f".{data.name}.{os.getpid()}.part")
    for each in s3.listing(bucket, key):
        below = each.key[len(key) :]
        if below and not below.startswith("/"):
            continue
        if ".." in below.split("/"):
            continue
        file = partial / below[1:] if below else partial
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as stream:
            s3.download(bucket, each, stream)
    if not partial.exists():
        raise RefusedChange(f"there are no data at {url}")
    if not data.exists():
        partial.rename(data)

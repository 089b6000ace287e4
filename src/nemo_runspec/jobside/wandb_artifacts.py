"""Logs what a job has made as W&B artifacts of its own run: by reference, the data stay where they are.

The store has registered a version before (`artifacts.register`); its manifest is what W&B is told of it.
"""

import os

from nemo_runspec.jobside.records import Folder
from nemo_runspec.jobside.text import say
from nemo_runspec.lines import text_lines

MYPY = False
if MYPY:
    from typing import Any, Dict, Iterator, List

    Told = Dict[str, str]

_COMMIT = 45
"""Seconds that W&B has to commit one version."""


class Made:
    """A version that the store has. `uri`: where its data lie; `manifest`: as the store has it."""

    def __init__(self, path: str, uri: str, manifest: "Dict[str, Any]") -> None:
        self.path, self.uri, self.manifest = path, uri, manifest
        self.name = str(manifest["name"])


def expected(root: str) -> "List[str]":
    """The paths whose data a job is to register, of those that are there."""
    from nemo_runspec.artifacts import versions

    paths = dict(Folder(root).read(versions.ABOUT).get("wandb", {})).get("versions", ())
    return [path for path in paths if os.path.exists(path)]


def made(root: str) -> "Iterator[Made]":
    """What a job has made, as its store has it. Raises `OSError` where the store does not have it."""
    from nemo_runspec.artifacts import versions

    store = dict(Folder(root).read(versions.ABOUT).get("store", {}))
    for path in expected(root):
        found = versions.of_path(path)
        if not found:
            raise OSError("the store has no version that lies at %s" % path)
        yield Made(path, _uri(path, str(store.get("url", ""))), found)


def log(run: "Any", known: Made, offline: bool, before: "Told") -> "Told":
    """Logs a version, and which versions it was made from; what is to be noted of it.

    Args:
        offline: it goes into the run's folder, and has a number once that is sent.
        before: noted of earlier ones.
    """
    import wandb  # type: ignore[import-not-found,unused-ignore]

    if not offline:
        _use(run, known)
    artifact = wandb.Artifact(known.name, type=str(known.manifest.get("type") or "data"), metadata=_metadata(known))
    _refer(artifact, known.uri)
    logged = run.log_artifact(artifact, aliases=[os.path.basename(known.path)])
    if offline:
        reference = known.name
        say("W&B: %s is in the run that is kept here; it is a version there once that is sent" % known.name)
    else:
        logged.wait(timeout=_COMMIT)
        reference = str(logged.qualified_name)
        say("W&B: registered %s" % reference)
    return {"artifacts": " ".join(filter(None, (before.get("artifacts", ""), reference)))}


def tell_loss(root: str, why: str, registered: str = "") -> None:
    """Says what is not registered, and how it still can be. `registered`: what is."""
    from nemo_runspec.artifacts import versions

    known = [reference.rpartition("/")[2].partition(":")[0] for reference in registered.split()]
    names = [path.split("/")[-2] for path in expected(root)]
    job = dict(Folder(root).read(versions.ABOUT).get("producer", {})).get("job", "JOB")
    for name in names:
        if name not in known:
            say("W&B: %s is not registered there: %s" % (name, why))
    say("W&B: to register it: nemotron artifacts register %s" % job)


def first_line(error: Exception) -> str:
    """What an error of the package says, in a line."""
    return text_lines(str(error).strip() or type(error).__name__)[0]


def _use(run: "Any", known: Made) -> None:
    """Notes what was read, where W&B has it. That it has not is no reason to keep the version from it."""
    for each in known.manifest.get("inputs", ()):
        path = str(each.get("path", ""))
        reference = each.get("wandb") or ("%s:%s" % (each["name"], path.rpartition("/")[2]) if "name" in each else "")
        if not reference:
            continue
        try:
            run.use_artifact(reference)
        except Exception as error:  # noqa: BLE001  (whatever the package raises)
            say("W&B: input %s is not noted there: %s" % (reference, first_line(error)))


def _metadata(known: Made) -> "Dict[str, Any]":
    """The manifest, with the whole address of the data."""
    return dict(known.manifest, path=known.uri if "://" in known.uri[:8] and known.uri[:4] != "file" else known.path)


def _uri(path: str, bucket: str) -> str:
    if bucket:
        folder, _, job = path.rpartition("/")
        return "%s/%s/%s" % (bucket.rstrip("/"), folder.rpartition("/")[2], job)
    from urllib.parse import quote

    return "file://" + quote(path)


def _refer(artifact: "Any", uri: str) -> None:
    """Adds a reference; of a bucket as a whole, as asking it for each object takes the package another package."""
    if uri.startswith("file:"):
        artifact.add_reference(uri, checksum=False)
        return
    from wandb.sdk.artifacts.artifact_manifest_entry import (  # type: ignore[import-not-found,unused-ignore]
        ArtifactManifestEntry,
    )

    artifact.manifest.add_entry(ArtifactManifestEntry(path=uri.rpartition("/")[2], ref=uri, digest=uri))

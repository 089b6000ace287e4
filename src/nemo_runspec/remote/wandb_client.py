"""Reads and changes artifacts at W&B: a program for a Python that has W&B's package, and not nemotron.

It is asked with JSON on its standard input, and answers with JSON as its last line: `{"done": …}`, or `{"failed": WHY,
"kind": …}` with `login` (the server does not know the key), `missing` (there is no such thing) or `unknown`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

_PAGE = 500
"""Versions a page."""
_LOGIN = ("error 401", "error 403", "no api key", "did not recognize")
"""What the package says of a key that there is not, or that is not taken."""


def main() -> None:
    """Reads what is asked, and prints the answer; what W&B's package prints goes to the error stream."""
    asked = json.loads(sys.stdin.read())
    answers = os.dup(1)
    os.dup2(2, 1)
    action = _ACTIONS[asked.pop("action")]
    try:
        answer = {"done": action(**asked)}
    except Exception as error:  # noqa: BLE001  (whatever the package raises)
        answer = {"failed": _said(error), "kind": _kind(error)}
    os.write(answers, json.dumps(answer).encode() + b"\n")


def look(project: str, names: list[str]) -> list[dict[str, Any]]:
    """The versions of a project, of these artifacts alone where some are named; newest first of each."""
    api = _api()
    found = []
    for type, name in _collections(api, project, names):
        found += [_version(each) for each in api.artifacts(type, f"{project}/{name}", per_page=_PAGE)]
    return found


def place(project: str, reference: str) -> str:
    """Where the data of a version lie that nemotron has not registered: what all its references begin with."""
    artifact = _api().artifact(f"{project}/{reference}")
    addresses = [entry.ref for entry in artifact.manifest.entries.values()]
    if not addresses or not all(addresses):
        return ""
    known = [str(address) for address in addresses]
    return known[0] if len(known) == 1 else os.path.commonpath(known).replace(":/", "://", 1)


def add(project: str, name: str, type: str, uri: str, metadata: dict[str, Any], run: str = "") -> str:
    """Registers data as a version, by reference; `NAME:vN`.

    Args:
        run: the job's whose run does it, which goes on for that; '' for a run of its own.
    """
    import wandb  # type: ignore[import-not-found,unused-ignore]

    entity, _, only = project.rpartition("/")
    quiet = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True, init_timeout=30)
    known = {"id": run, "resume": "allow"} if run else {"job_type": "artifacts-add"}
    with wandb.init(entity=entity or None, project=only, settings=quiet, **known) as found:
        for each in metadata.get("inputs") or () if run else ():
            _use(found, each)
        artifact = wandb.Artifact(name, type=type, metadata=metadata)
        _refer(artifact, uri)
        logged = found.log_artifact(artifact, aliases=[run] if run else [])
        logged.wait(timeout=60)
        return str(logged.name)


def tag(project: str, reference: str, word: str) -> str:
    """Gives a version an alias, which no other one of the artifact has any more."""
    artifact = _api().artifact(f"{project}/{reference}")
    artifact.aliases.append(word)
    artifact.save()
    return reference


def remove(project: str, reference: str) -> str:
    """Takes a version away. The data stay: they are W&B's by reference alone."""
    _api().artifact(f"{project}/{reference}").delete(delete_aliases=True)
    return reference


def _api() -> Any:
    import wandb  # type: ignore[import-not-found,unused-ignore]

    return wandb.Api(timeout=20)


def _collections(api: Any, project: str, names: list[str]) -> Iterator[tuple[str, str]]:
    """Type and name of each artifact."""
    for type in api.artifact_types(project):
        for found in api.artifact_collections(project, type.name):
            if not names or found.name in names:
                yield type.name, found.name


def _version(artifact: Any) -> dict[str, Any]:
    metadata = dict(artifact.metadata or {})
    return {
        "name": artifact.name.partition(":")[0],
        "version": int(artifact.version[1:]),
        "type": artifact.type,
        "aliases": list(artifact.aliases),
        "created": artifact.created_at,
        "note": artifact.description or "",
        "metadata": metadata,
    }


def _use(run: Any, known: dict[str, Any]) -> None:
    reference = known.get("wandb") or (f"{known['name']}:{known['path'].rpartition('/')[2]}" if "name" in known else "")
    if reference:
        with suppress(Exception):  # W&B has not been told of it
            run.use_artifact(reference)


def _refer(artifact: Any, uri: str) -> None:
    if uri.startswith("file:"):
        artifact.add_reference(uri, checksum=False)
        return
    from wandb.sdk.artifacts.artifact_manifest_entry import (  # type: ignore[import-not-found,unused-ignore]
        ArtifactManifestEntry,
    )

    artifact.manifest.add_entry(ArtifactManifestEntry(path=uri.rpartition("/")[2], ref=uri, digest=uri))


def _said(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0]


def _kind(error: Exception) -> str:
    text = str(error).lower()
    if any(word in text for word in _LOGIN):
        return "login"
    return "missing" if "not found" in text or "could not find" in text else "unknown"


_ACTIONS: dict[str, Callable[..., Any]] = {"look": look, "place": place, "add": add, "tag": tag, "remove": remove}

if __name__ == "__main__":
    main()

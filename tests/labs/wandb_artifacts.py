"""What `labs.wandb` knows of artifacts: versions as W&B numbers them, aliases, manifests, and which run used which.

A version is there once it is committed; until then it has no number, and no list names it. Answers are objects from
which `labs.graphql` takes the fields that the client's own documents ask for.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labs.web import HttpError

Asked = Mapping[str, Any]
MADE = "2026-01-02T03:04:05"
"""When everything was made, as W&B writes times."""

KINDS = {"ArtifactSequence": "ArtifactCollection"}
"""Type → the interface it is one of, as the client's documents have them."""


@dataclass
class LabVersion:
    """One version. `told`: what the client said of it; `index`: None until it is committed; `users`: who used it."""

    id: str
    collection: Collection
    told: Asked
    run: str
    index: int | None = None
    aliases: set[str] = field(default_factory=set)
    users: list[str] = field(default_factory=list)
    manifest: str = ""

    @property
    def metadata(self) -> dict[str, Any]:
        """What the client keeps beside it."""
        found: dict[str, Any] = json.loads(self.told.get("metadata") or "{}")
        return found

    @property
    def reference(self) -> str:
        """`NAME:vN`."""
        return f"{self.collection.name}:v{self.index}"


@dataclass
class Collection:
    """All versions of one name, in the order in which they were made."""

    name: str
    type: str
    entity: str
    project: str
    versions: list[LabVersion] = field(default_factory=list)

    def committed(self) -> list[LabVersion]:
        """Those that are there, newest first."""
        return sorted((v for v in self.versions if v.index is not None), key=lambda v: -(v.index or 0))

    def find(self, word: str) -> LabVersion | None:
        """By an alias or `vN`."""
        return next((v for v in self.committed() if word in (f"v{v.index}", *v.aliases)), None)


class LabArtifacts:
    """The artifacts of a server; `origin`: where its manifests are put and fetched; `files`: those that were put."""

    def __init__(self, origin: Callable[[], str], files: Mapping[str, bytes]) -> None:
        self._origin, self._files = origin, files
        self._lock = threading.Lock()
        self._count = 0
        self.collections: dict[str, Collection] = {}
        """By `ENTITY/PROJECT/NAME`."""

    def clear(self) -> None:
        """As new."""
        self.collections.clear()

    def versions(self, key: str) -> list[LabVersion]:
        """The committed versions of `ENTITY/PROJECT/NAME`, oldest first."""
        found = self.collections.get(key)
        return found.committed()[::-1] if found else []

    def references(self, version: LabVersion) -> list[str]:
        """The addresses in its manifest."""
        manifest = json.loads(self._files[version.manifest])
        return [entry["ref"] for entry in manifest["contents"].values() if "ref" in entry]

    def root(self) -> dict[str, Any]:
        """The fields of a query and of a mutation."""
        return {
            "__typename": "Query",
            "viewer": lambda: _VIEWER,
            "serverInfo": lambda: {"__typename": "ServerInfo", "features": []},
            "entity": lambda name: _entity(name),
            "project": lambda name, entityName: self._project(entityName, name),
            "model": lambda name, entityName: {"__typename": "Project", "readOnly": False, "isReadOnly": False},
            "artifact": lambda id: self._artifact(self._by_id(id)),
            "createArtifact": lambda input: self._locked(self._create, input),
            "createArtifactManifest": lambda input: self._manifest(input),
            "updateArtifactManifest": lambda input: self._manifest(input),
            "commitArtifact": lambda input: self._locked(self._commit, input),
            "useArtifact": lambda input: self._use(input),
            "addAliases": lambda input: self._alias(input, add=True),
            "deleteAliases": lambda input: self._alias(input, add=False),
            "updateArtifact": lambda input: self._update(input),
            "deleteArtifact": lambda input: self._delete(input),
        }

    def _locked(self, act: Callable[[Asked], Any], asked: Asked) -> Any:
        with self._lock:
            return act(asked)

    def _create(self, asked: Asked) -> Any:
        name = _one(asked.get("artifactCollectionNames") or [asked.get("artifactCollectionName")])
        key = f"{asked['entityName']}/{asked['projectName']}/{name}"
        type = asked["artifactTypeName"]
        kept = self.collections.setdefault(key, Collection(name, type, asked["entityName"], asked["projectName"]))
        if kept.type != type:
            raise HttpError(409, f"artifact sequence {name} already exists with a different type ({kept.type})")
        same = [v for v in kept.versions if v.index is not None and v.told["digest"] == asked["digest"]]
        if same and asked.get("enableDigestDeduplication"):
            found = same[0]
        else:
            self._count += 1
            id = base64.b64encode(f"Artifact:{self._count}".encode()).decode()
            found = LabVersion(id, kept, asked, str(asked.get("runName") or ""))
            kept.versions.append(found)
        if found.index is not None:
            self._give(found, [each["alias"] for each in asked.get("aliases") or ()])
        return {"__typename": "CreateArtifactPayload", "artifact": self._artifact(found)}

    def _manifest(self, asked: Asked) -> Any:
        version = self._by_id(asked.get("artifactID") or asked["artifactManifestID"])
        version.manifest = f"manifests/{version.id}/{asked.get('name', 'wandb_manifest.json')}"
        file = {"id": version.id, "uploadUrl": f"{self._origin()}/storage/{version.manifest}", "uploadHeaders": []}
        file["__typename"] = "File"
        return {
            "__typename": "CreateArtifactManifestPayload",
            "artifactManifest": {"__typename": "ArtifactManifest", "id": version.id, "file": file},
        }

    def _commit(self, asked: Asked) -> Any:
        version = self._by_id(asked["artifactID"])
        if version.manifest not in self._files:
            raise HttpError(400, "the manifest was not uploaded")
        if version.index is None:
            version.index = max([v.index for v in version.collection.versions if v.index is not None] or [-1]) + 1
            self._give(version, ["latest", *(each["alias"] for each in version.told.get("aliases") or ())])
        return {"__typename": "CommitArtifactPayload", "artifact": self._artifact(version)}

    def _give(self, version: LabVersion, aliases: Sequence[str]) -> None:
        for other in version.collection.versions:
            other.aliases -= set(aliases)
        version.aliases |= set(aliases)

    def _use(self, asked: Asked) -> Any:
        version = self._by_id(asked["artifactID"])
        version.users.append(f"{asked['entityName']}/{asked['projectName']}/{asked['runName']}")
        return {"__typename": "UseArtifactPayload", "artifact": self._artifact(version)}

    def _alias(self, asked: Asked, *, add: bool) -> Any:
        version = self._by_id(asked["artifactID"])
        words = [each["alias"] for each in asked["aliases"]]
        if add:
            self._give(version, words)
        else:
            version.aliases -= set(words)
        return {"__typename": "AliasesPayload", "success": True}

    def _update(self, asked: Asked) -> Any:
        version = self._by_id(asked["artifactID"])
        version.told = {**version.told, **{key: asked[key] for key in ("metadata", "description") if key in asked}}
        return {"__typename": "UpdateArtifactPayload", "artifact": self._artifact(version)}

    def _delete(self, asked: Asked) -> Any:
        version = self._by_id(asked["artifactID"])
        if version.aliases and not asked.get("deleteAliases"):
            raise HttpError(409, "failed to delete artifact: it has aliases")
        shown = self._artifact(version)
        version.collection.versions.remove(version)
        return {"__typename": "DeleteArtifactPayload", "artifact": shown}

    def _by_id(self, id: str) -> LabVersion:
        for each in self.collections.values():
            for version in each.versions:
                if version.id == id:
                    return version
        raise HttpError(404, f"there is no artifact {id}")

    def _project(self, entity: str, project: str) -> dict[str, Any] | None:
        here = [c for c in self.collections.values() if (c.entity, c.project) == (entity, project) and c.committed()]
        types = {c.type for c in here}

        def membership(name: str) -> Any:
            collection, _, word = name.partition(":")
            kept = self.collections.get(f"{entity}/{project}/{collection}")
            found = kept.find(word or "latest") if kept else None
            return None if kept is None or found is None else self._membership(kept, found)

        def artifact_type(name: str) -> Any:
            return self._type(name, [c for c in here if c.type == name]) if name in types else None

        return {
            **_project(entity, project),
            "isReadOnly": False,
            "readOnly": False,
            "artifactCollectionMembership": membership,
            "artifactType": artifact_type,
            "artifactTypes": lambda after=None, first=None: _page(
                [self._type(name, [c for c in here if c.type == name]) for name in sorted(types)], after, first
            ),
        }

    def _type(self, name: str, here: Sequence[Collection]) -> dict[str, Any]:
        def collections(after: Any = None, first: Any = None, **_more: Any) -> Any:
            return _page([self._collection(each) for each in here], after, first)

        return {
            "__typename": "ArtifactType",
            "id": f"type-{name}",
            "name": name,
            "description": None,
            "createdAt": MADE,
            "artifactCollections": collections,
            "artifactCollection": lambda name: next((self._collection(c) for c in here if c.name == name), None),
        }

    def _collection(self, kept: Collection) -> dict[str, Any]:
        return {
            **_named(kept),
            "id": f"collection-{kept.name}",
            "description": None,
            "createdAt": MADE,
            "updatedAt": None,
            "defaultArtifactType": {"__typename": "ArtifactType", "name": kept.type},
            "tags": _page([], None, None),
            "digestAlgorithm": None,
            "artifacts": lambda after=None, first=None, order=None, filters=None: _page(
                [self._artifact(v) for v in kept.committed()], after, first
            ),
        }

    def _membership(self, kept: Collection, version: LabVersion) -> dict[str, Any]:
        return {
            "__typename": "ArtifactCollectionMembership",
            "id": f"member-{version.id}",
            "versionIndex": version.index,
            "createdAt": MADE,
            "aliases": list(_aliases(version)),
            "artifactCollection": _named(kept),
            "artifact": self._artifact(version),
        }

    def _artifact(self, version: LabVersion) -> dict[str, Any]:
        told, kept = version.told, version.collection
        file = {"__typename": "File", "directUrl": f"{self._origin()}/storage/{version.manifest}"}
        newest = next(iter(kept.committed()), None)
        return {
            "__typename": "Artifact",
            "id": version.id,
            "artifactSequence": lambda: {
                **_named(kept),
                "latestArtifact": None if newest is None else {"__typename": "Artifact", "id": newest.id},
            },
            "versionIndex": version.index,
            "artifactType": {"__typename": "ArtifactType", "name": kept.type},
            "description": told.get("description"),
            "metadata": told.get("metadata"),
            "ttlDurationSeconds": -2,
            "ttlIsInherited": True,
            "tags": [],
            "historyStep": None,
            "state": "PENDING" if version.index is None else "COMMITTED",
            "size": 0,
            "digest": told["digest"],
            "digestAlgorithm": None,
            "commitHash": version.id,
            "fileCount": 0,
            "createdAt": MADE,
            "updatedAt": None,
            "aliases": list(_aliases(version)),
            "currentManifest": {"__typename": "ArtifactManifest", "file": file} if version.manifest else None,
        }


_VIEWER = {
    "__typename": "User",
    "id": "user",
    "entity": "somebody",
    "username": "somebody",
    "name": "Somebody",
    "email": "somebody@example.com",
    "flags": "{}",
    "admin": False,
    "deletedAt": None,
    "apiKeys": {"__typename": "Keys", "edges": []},
    "teams": {"__typename": "Teams", "edges": []},
}


def _entity(name: str) -> dict[str, Any]:
    return {
        "__typename": "Entity",
        "name": name,
        "xxhashDigestsEnabled": False,
        "organization": None,
    }


def _project(entity: str, project: str) -> dict[str, Any]:
    return {
        "__typename": "Project",
        "id": f"project-{project}",
        "internalId": "1",
        "name": project,
        "entity": {"__typename": "Entity", "name": entity},
    }


def _named(kept: Collection) -> dict[str, Any]:
    return {"__typename": "ArtifactSequence", "name": kept.name, "project": _project(kept.entity, kept.project)}


def _aliases(version: LabVersion) -> Iterator[dict[str, Any]]:
    for word in sorted(version.aliases):
        yield {
            "__typename": "ArtifactAlias",
            "id": f"alias-{word}",
            "alias": word,
            "artifactCollection": _named(version.collection),
        }


def _page(nodes: Sequence[Mapping[str, Any]], after: Any, first: Any) -> dict[str, Any]:
    begin = int(after or 0)
    end = min(len(nodes), begin + int(first or len(nodes) or 1))
    edges = [
        {
            "__typename": "Edge",
            "version": f"v{each.get('versionIndex')}",
            "node": each,
            "cursor": str(begin + number + 1),
        }
        for number, each in enumerate(nodes[begin:end])
    ]
    info = {"__typename": "PageInfo", "endCursor": str(end), "hasNextPage": end < len(nodes)}
    return {"__typename": "Connection", "totalCount": len(nodes), "pageInfo": info, "edges": edges}


def _one(names: Sequence[str]) -> str:
    assert len(names) == 1, f"one collection was meant: {names}"
    return names[0]

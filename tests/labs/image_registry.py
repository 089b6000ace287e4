"""A container registry on loopback that images are pushed to: the OCI distribution specification's, strictly.

A blob is taken where its content has the digest that it is said to have, a manifest where all of its blobs are there.
What lies below `closed/` is nobody's to push. Made with a login, it knows nobody else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Any

from labs.web import Answer, HttpError, Request, WebLab, route

_MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
)


class ImageRegistry(WebLab):
    """The registry. `login`: `name:password`, '' for one that takes anybody."""

    def __init__(self, login: str = "") -> None:
        self.login = login
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, dict[str, Any]] = {}
        """By `REPOSITORY:TAG` and `REPOSITORY@DIGEST`: what was put there, and its digest and type."""
        self._uploads: dict[str, bytes] = {}
        super().__init__()

    @property
    def name(self) -> str:
        """How images name it."""
        return f"127.0.0.1:{self.port}"

    @property
    def tags(self) -> set[str]:
        """`REPOSITORY:TAG` of all that there is."""
        return {name for name in self.manifests if "@" not in name}

    def admit(self, request: Request) -> None:
        """Basic authentication."""
        given = request.headers.get("Authorization", "")
        if self.login and given != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            raise HttpError(401, "UNAUTHORIZED", headers={"WWW-Authenticate": 'Basic realm="lab"'})

    def refusal(self, error: HttpError) -> Answer:
        """As the specification puts errors."""
        found = {"errors": [{"code": error.message, "message": error.message.lower().replace("_", " ")}]}
        return Answer(error.status, found, error.headers)

    @route("GET", "/v2/")
    def version(self, request: Request) -> Answer:
        """That it is one."""
        return Answer(200, {}, {"Docker-Distribution-Api-Version": "registry/2.0"})

    @route("HEAD", "/v2/{repository:path}/blobs/{digest}")
    @route("GET", "/v2/{repository:path}/blobs/{digest}")
    def blob(self, request: Request) -> Answer:
        """A blob."""
        content = self.blobs.get(request.names["digest"])
        if content is None:
            raise HttpError(404, "BLOB_UNKNOWN")
        return Answer(200, content, {"Docker-Content-Digest": request.names["digest"]})

    @route("POST", "/v2/{repository:path}/blobs/uploads/")
    def begin(self, request: Request) -> Answer:
        """A new upload; what is to be mounted of another repository is uploaded instead, as may be asked."""
        if request.names["repository"].startswith("closed/"):
            raise HttpError(403, "DENIED")
        upload = uuid.uuid4().hex
        self._uploads[upload] = b""
        return self._progress(request.names["repository"], upload)

    @route("PATCH", "/v2/{repository:path}/blobs/uploads/{upload}")
    def more(self, request: Request) -> Answer:
        """Some of it."""
        self._add(request)
        return self._progress(request.names["repository"], request.names["upload"])

    @route("PUT", "/v2/{repository:path}/blobs/uploads/{upload}")
    def whole(self, request: Request) -> Answer:
        """The end of an upload."""
        content, digest = self._add(request), request.params.get("digest", "")
        del self._uploads[request.names["upload"]]
        if digest != digest_of(content):
            raise HttpError(400, "DIGEST_INVALID")
        self.blobs[digest] = content
        place = f"/v2/{request.names['repository']}/blobs/{digest}"
        return Answer(201, None, {"Location": place, "Docker-Content-Digest": digest})

    @route("PUT", "/v2/{repository:path}/manifests/{reference}")
    def put_manifest(self, request: Request) -> Answer:
        """A manifest, by its tag or digest."""
        kind = request.headers.get("Content-Type", "")
        if kind not in _MANIFESTS:
            raise HttpError(400, "MANIFEST_INVALID")
        content = json.loads(request.body)
        parts = [content["config"]["digest"], *(layer["digest"] for layer in content["layers"])]
        if not all(part in self.blobs for part in parts):
            raise HttpError(400, "MANIFEST_BLOB_UNKNOWN")
        repository, reference = request.names["repository"], request.names["reference"]
        known = {"digest": digest_of(request.body), "body": request.body, "type": kind, "content": content}
        self.manifests[f"{repository}@{known['digest']}"] = known
        if not reference.startswith("sha256:"):
            self.manifests[f"{repository}:{reference}"] = known
        return Answer(201, None, {"Docker-Content-Digest": known["digest"], "Location": request.path})

    @route("HEAD", "/v2/{repository:path}/manifests/{reference}")
    @route("GET", "/v2/{repository:path}/manifests/{reference}")
    def manifest(self, request: Request) -> Answer:
        """A manifest."""
        repository, reference = request.names["repository"], request.names["reference"]
        known = self.manifests.get(f"{repository}{'@' if reference.startswith('sha256:') else ':'}{reference}")
        if known is None:
            raise HttpError(404, "MANIFEST_UNKNOWN")
        return Answer(200, known["body"], {"Content-Type": known["type"], "Docker-Content-Digest": known["digest"]})

    def _add(self, request: Request) -> bytes:
        upload = request.names["upload"]
        if upload not in self._uploads:
            raise HttpError(404, "BLOB_UPLOAD_UNKNOWN")
        self._uploads[upload] += request.body
        return self._uploads[upload]

    def _progress(self, repository: str, upload: str) -> Answer:
        range_ = f"0-{max(len(self._uploads[upload]) - 1, 0)}"
        place = f"/v2/{repository}/blobs/uploads/{upload}"
        return Answer(202, None, {"Location": place, "Docker-Upload-UUID": upload, "Range": range_})


def digest_of(content: bytes) -> str:
    """As registries name contents."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"

"""A container registry on loopback: it has `open/image:1`, and tells nobody about `private/…`."""

from __future__ import annotations

from labs.web import Answer, HttpError, Request, WebLab, route


class RegistryLab(WebLab):
    """As the OCI distribution specification has it, as far as manifests are asked for."""

    @property
    def name(self) -> str:
        """How images name it."""
        return f"127.0.0.1:{self.port}"

    @route("HEAD", "/v2/{repository:path}/manifests/{tag}")
    def manifest(self, request: Request) -> Answer:
        """Whether there is such an image."""
        if request.names["repository"].startswith("private/"):
            raise HttpError(401, "unauthorized")
        if (request.names["repository"], request.names["tag"]) != ("open/image", "1"):
            raise HttpError(404, "manifest unknown")
        return Answer(200)

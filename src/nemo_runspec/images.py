"""References of container images, in every spelling, and image files. Pure.

As Docker reads them (`distribution/reference`), the part before the first `/` is a registry where it holds a `.` or a
`:` or is `localhost`. Enroot's own form is `docker://[USER@][REGISTRY#]IMAGE[:TAG]` (its `doc/cmd/import.md`), where a
digest stands in the tag's place, as `IMAGE:sha256:…` (`src/docker.sh`, enroot 3.4).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HUB = "docker.io"
_HUB_NAMES = ("", HUB, "index.docker.io", "registry-1.docker.io")
_REFERENCE = re.compile(
    r"(?:docker://)?(?:(?P<user>[^@#/]+)@(?!sha256:))?(?:(?P<registry>[^#]+)#)?"
    r"(?P<name>[^:@]+(?::\d+/[^:@]+)?)(?::(?P<tag>[^@]+))?(?:@(?P<digest>sha256:.*))?"
)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image in a registry. What a registry would refuse is not looked at.

    Args:
        registry: host and port in small letters; `docker.io` where none was named.
        version: a tag, or a digest with its `sha256:`; `latest` where none was named.
        user: that enroot asks the registry as, '' for none.
    """

    registry: str
    repository: str
    version: str
    user: str = ""

    @property
    def is_digest(self) -> bool:
        """True where the version names exactly one image, for ever."""
        return self.version.startswith("sha256:")

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}{'@' if self.is_digest else ':'}{self.version}"


def parse_reference(text: str) -> ImageReference | None:
    """The image that a text names in a registry; None where it names none, such as `dockerd://mine`."""
    found = _REFERENCE.fullmatch(text)
    if found is None or "://" in text.removeprefix("docker://"):
        return None
    registry, repository = (found["registry"] or "").lower(), found["name"]
    if not registry and names_registry(repository):
        first, _, repository = repository.partition("/")
        registry = first.lower()
    if registry in _HUB_NAMES:
        registry, repository = HUB, repository if "/" in repository else f"library/{repository}"
    return ImageReference(registry, repository, found["digest"] or found["tag"] or "latest", found["user"] or "")


def names_registry(name: str) -> bool:
    """True if an image's name says its registry, as Docker reads it: the part before the first slash is a host."""
    first, slash, _ = name.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


def is_image_file(text: str) -> bool:
    """True for an image that is a file, such as a squash file on the cluster."""
    is_path = text.startswith(("/", "~", "./", "../")) or (text.startswith("$") and "#" not in text)
    return is_path or text.lower().endswith((".sqsh", ".squashfs"))

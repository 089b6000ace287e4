"""References of container images: how each tool writes one, and the file name of its squash file. Pure.

A reference is read as Docker does (`distribution/reference`): the part before the first `/` is a registry where it
holds a `.` or a `:` or is `localhost`. Enroot's own form is `docker://[USER@][REGISTRY#]IMAGE[:TAG]` (its
`doc/cmd/import.md`); there a digest stands in the tag's place, as `IMAGE:sha256:…` (`src/docker.sh`, enroot 3.4).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nemo_runspec.digests import digest_of_text
from nemo_runspec.errors import UserError

_HUB = "docker.io"
_HUB_NAMES = (_HUB, "index.docker.io", "registry-1.docker.io")
_REGISTRY = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?")
_REPOSITORY = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ARCHIVES = ("docker-archive", "oci-archive")
_PATH = re.compile(r"/[A-Za-z0-9_@+=./-]+")
_PODMAN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?")
_ARCHIVE_REMEDY = "such as oci-archive:///lustre/me/cache/containers/mine.oci.tar, which save=oci leaves"
_READABLE = 120
"""Characters of a reference that its file's name keeps; the rest of the name tells references apart."""
_REMEDY = "write it as nvcr.io/nvidia/nemo:25.09, docker://nvcr.io#nvidia/nemo:25.09 or NAME@sha256:…"


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image in a registry.

    Args:
        registry: host and port in small letters; `docker.io` where none was named.
        version: a tag, or a digest with its `sha256:`; `latest` where none was named.
    """

    registry: str
    repository: str
    version: str

    @property
    def is_digest(self) -> bool:
        """True where the version names exactly one image, for ever."""
        return self.version.startswith("sha256:")

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}{'@' if self.is_digest else ':'}{self.version}"

    @property
    def uri(self) -> str:
        """What `enroot import` takes. Without a registry it asks Docker Hub."""
        registry = "" if self.registry == _HUB else f"{self.registry}#"
        return f"docker://{registry}{self.repository}:{self.version}"

    @property
    def file_name(self) -> str:
        """`nvcr.io-nvidia-nemo-25.09-<10 digits>.sqsh`: the digits are of the whole reference, so that none collide."""
        return _file_name(str(self).replace("sha256:", ""), str(self))


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image that is in no registry: an archive on the cluster, or one that podman has on the node of the job.

    Args:
        scheme: `docker-archive`, `oci-archive` or `podman`. `name`: the archive's path, or podman's name of the image.
    """

    scheme: str
    name: str

    @property
    def is_digest(self) -> bool:
        """As of a registry's image: what it names may change."""
        return False

    def __str__(self) -> str:
        return self.uri

    @property
    def uri(self) -> str:
        """What the job's script takes: enroot itself knows `podman` alone."""
        return f"{self.scheme}://{self.name}"

    @property
    def file_name(self) -> str:
        """As of a registry's image: `mine.oci-<10 digits>.sqsh`."""
        return _file_name(self.name.rpartition("/")[2].removesuffix(".tar"), self.uri)


def _file_name(shown: str, whole: str) -> str:
    readable = re.sub("[^A-Za-z0-9._]+", "-", shown)[:_READABLE]
    return f"{readable}-{digest_of_text(whole)[:10]}.sqsh"


def is_file(image: str) -> bool:
    """True for an image that is a file on the cluster already."""
    return image.startswith(("/", "~", "./", "../", "$")) or image.lower().endswith((".sqsh", ".squashfs"))


def parse_image(text: str) -> ImageReference | LocalImage:
    """An image's reference in any of the three spellings, or one that is in no registry.

    Raises:
        UserError: it is none, or one that a job cannot have (`dockerd://`).
    """
    local = _local(text.strip())
    if local is not None:
        return local
    rest = _without_scheme(text.strip())
    name, version = _version(rest, text)
    registry, repository = _registry(name)
    if not _REGISTRY.fullmatch(registry) or not _REPOSITORY.fullmatch(repository):
        raise UserError(f"{text!r} is no reference of a container image", remedy=_REMEDY)
    return ImageReference(registry, repository, version)


def _local(text: str) -> LocalImage | None:
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    name = text[found.end() :] if found else ""
    if scheme in _ARCHIVES:
        if not _PATH.fullmatch(name):
            raise UserError(f"{text!r}: an archive is named by its path on the cluster", remedy=_ARCHIVE_REMEDY)
        return LocalImage(scheme, name)
    if scheme == "podman":
        if not _PODMAN.fullmatch(name):
            raise UserError(f"{text!r} is no name of an image of podman's", remedy="such as podman://localhost/me:1")
        return LocalImage(scheme, name)
    return None


def _without_scheme(text: str) -> str:
    found = _SCHEME.match(text)
    if found is None:
        return text
    if found[1].lower() != "docker":
        raise UserError(f"{text!r}: only images of a registry can be fetched", remedy=_REMEDY)
    return text[found.end() :]


def _version(rest: str, text: str) -> tuple[str, str]:
    """The name, and its tag or digest, which enroot writes after a `:`."""
    if "#" in rest and "@" in rest.partition("#")[0]:
        raise UserError(
            f"{text!r} names a user; nemotron hands none on", remedy="leave it out: enroot takes it of its credentials"
        )
    name, at, digest = rest.partition("@")
    enroot = re.fullmatch(r"(.*):(sha256:[0-9a-f]{64})", rest)
    if enroot:
        return enroot[1], enroot[2]
    head, _, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if (at and not _DIGEST.fullmatch(digest)) or (colon and not _TAG.fullmatch(tag)):
        raise UserError(f"{text!r} is no reference of a container image", remedy=_REMEDY)
    return f"{head}/{last}" if head else last, digest or tag or "latest"


def _registry(name: str) -> tuple[str, str]:
    if "#" in name:
        registry, _, repository = name.partition("#")
    else:
        first, slash, rest = name.partition("/")
        named = slash and ("." in first or ":" in first or first == "localhost")
        registry, repository = (first, rest) if named else (_HUB, name)
    registry = registry.lower()
    if registry not in _HUB_NAMES:
        return registry, repository
    return _HUB, repository if "/" in repository else f"library/{repository}"

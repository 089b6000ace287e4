"""Announces what uv will fetch before it does: packages, bytes, and which build of torch.

uv writes what it has resolved as a `pylock.toml` (PEP 751) with sizes: for one interpreter, one wheel a package; of a
script, for all interpreters.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from nemo_runspec.text import count, size

_CUDA = ("nvidia-", "cuda-")
"""How the packages are called that the CUDA build of torch brings."""


def announcement(lock: Mapping[str, Any]) -> str:
    """In words: `24 packages, at most 118.0 MB to download; torch 2.13.0+cpu, the CPU build`.

    Args:
        lock: a `pylock.toml`. What uv has fetched before, it does not fetch again: that is not known here.
    """
    packages = [each for each in lock.get("packages", ()) if isinstance(each, Mapping)]
    remote = sum(_sizes(packages, local=False))
    local = sum(_sizes(packages, local=True))
    parts = [count(len(packages), "package")]
    if remote:
        parts.append(f"at most {size(remote)} to download")
    if local:
        parts.append(f"{size(local)} from files here")
    return "; ".join(filter(None, (", ".join(parts), _torch(packages))))


def for_python(lock: Mapping[str, Any], wanted: Collection[tuple[str, str]], version: str) -> dict[str, Any]:
    """Of a lock for all interpreters what one on this machine gets: of each package the largest wheel that may be its.

    Args:
        wanted: names and versions of the packages it gets.
        version: of Python, such as `3.11.7`.
    """
    packages = [each for each in lock.get("packages", ()) if isinstance(each, Mapping)]
    found = [each for each in packages if (str(each.get("name")), str(each.get("version", ""))) in wanted]
    return {"packages": [{**each, "wheels": _largest(each.get("wheels") or (), version)} for each in found]}


def _largest(wheels: Iterable[Mapping[str, Any]], version: str) -> list[Mapping[str, Any]]:
    major, minor = version.split(".")[:2]
    fitting = [wheel for wheel in wheels if _fits(_file_name(wheel), f"cp{major}{minor}")]
    return sorted(fitting, key=lambda wheel: int(wheel.get("size") or 0))[-1:]


def _fits(wheel: str, tag: str) -> bool:
    """True if a wheel, by its name, may be for CPython of that tag on this machine, or for one much like it."""
    python, abi, machine = wheel.removesuffix(".whl").rsplit("-", 3)[-3:]
    for_it = abi == "abi3" or bool({"py3", tag} & set(python.split(".")))
    system = {"linux": "linux", "darwin": "macosx"}.get(sys.platform, "")
    here = "universal2" in machine or (system in machine and platform.machine() in machine)
    return for_it and (machine == "any" or here)


def _file_name(wheel: Mapping[str, Any]) -> str:
    where = str(wheel.get("name") or wheel.get("url") or wheel.get("path") or "")
    return unquote(urlsplit(where).path).rpartition("/")[2]


def _torch(packages: Iterable[Mapping[str, Any]]) -> str:
    """Which build of torch it is. PyPI's own has no name: on Linux it is the CUDA build, and asks for its libraries."""
    versions = {str(each.get("name")): str(each.get("version", "")) for each in packages}
    version = versions.get("torch")
    if version is None:
        return ""
    local = version.partition("+")[2]
    is_cuda = local.startswith("cu") or (not local and any(name.startswith(_CUDA) for name in versions))
    return f"torch {version}, the {'CUDA' if is_cuda else local.upper() if local not in ('', 'cpu') else 'CPU'} build"


def _sizes(packages: Iterable[Mapping[str, Any]], *, local: bool) -> Iterable[int]:
    for package in packages:
        files = package.get("wheels") or [package.get("sdist") or package.get("archive") or {}]
        path = _path_of(files[0])
        if (path is not None) == local:
            yield int(files[0].get("size") or (path.stat().st_size if path is not None and path.is_file() else 0))


def _path_of(file: Mapping[str, Any]) -> Path | None:
    """Where a file is on this machine; None for one that is fetched."""
    if file.get("path"):
        return Path(str(file["path"]))
    url = urlsplit(str(file.get("url", "")))
    return Path(unquote(url.path)) if url.scheme == "file" else None

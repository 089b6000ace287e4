"""Rules of Lepton's API, held before it is asked: names, places of mounts, priorities. Pure.

From the checks of its own client since version 0.47 and its reference pages; they are the server's too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nemo_runspec.backends.stall import stall_seconds
from nemo_runspec.errors import UserError
from nemo_runspec.plans.storage import tables
from nemo_runspec.toml import as_toml

SHORTEST_TTL = 600
"""Seconds that Lepton keeps a finished job for by default; less would lose its end before it is read."""

LONGEST_NAME = 36

RESERVED_MOUNTS = frozenset({
    "/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/media", "/opt", "/proc", "/proc/bus", "/proc/sys", "/run",
    "/sbin", "/srv", "/sys", "/sys/fs/cgroup", "/sys/kernel/security", "/usr", "/usr/bin", "/usr/lib", "/usr/local",
    "/usr/sbin", "/var",
})  # fmt: skip
"""Places nothing is mounted at, as leptonai 0.47 has them (api/v2/job_validation.py); below them it may be."""

RESERVED_VARIABLES = frozenset({
    "LEPTON_WORKSPACE_ID", "LEPTON_DEPLOYMENT_NAME", "LEPTON_JOB_NAME", "LEPTON_RESOURCE_ACCELERATOR_TYPE",
    "LEPTON_WORKSPACE_ORIGIN_URL",
})  # fmt: skip
"""Variables that Lepton sets and lets nobody else set."""

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_PRIORITY = re.compile(r"low-[123]000|mid-[456]000|high-[789]000")
_SECRET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOUNT_KEYS = frozenset({"path", "mount_path", "from", "mount_options"})
_EXAMPLE = '{ path = "/data", mount_path = "/data", from = "node-nfs:my-volume" }'
_FROM = re.compile(r"node-local|node-[a-z]+:.+")


def problems(env: Mapping[str, Any], name: str) -> Iterator[UserError]:
    """What Lepton would refuse of a merged profile; each begins with the key's name."""
    if name and not (_NAME.fullmatch(name) and len(name) <= LONGEST_NAME and not name.endswith(("-", "by-lepton"))):
        rules = f"a small letter, then small letters, digits and dashes, at most {LONGEST_NAME}, no dash at the end"
        yield UserError(f"name: Lepton takes no job named {name!r}", remedy=rules)
    yield from _mounts(list(env.get("mounts") or ()))
    ttl = env.get("ttl")
    if (stall_seconds(ttl) or SHORTEST_TTL) < SHORTEST_TTL:  # what is no length of time is refused as all such keys are
        yield UserError(f"ttl: {ttl} is too short to see how a job ended", remedy="10m or more, such as 3d", key="ttl")
    priority = env.get("queue_priority")
    if priority and not _PRIORITY.fullmatch(str(priority)):
        remedy = "low-1000 to low-3000, mid-4000 to mid-6000, or high-7000 to high-9000, in steps of 1000"
        yield UserError(f"queue_priority: {priority!r} is no priority class", remedy=remedy, key="queue_priority")
    yield from _secrets(env)


def _mounts(mounts: Sequence[Any]) -> Iterator[UserError]:
    wrong = [(number, _wrong_shape(mount) or _wrong_place(mount)) for number, mount in enumerate(mounts)]
    found = [UserError(f"mounts[{number}]{told[0]}", remedy=told[1], key="mounts") for number, told in wrong if told]
    yield from found
    places = [] if found else [place_of(mount["mount_path"]) for mount in mounts]
    for place in sorted({place for place in places if places.count(place) > 1}):
        remedy = "leave one out, or mount it elsewhere"
        yield UserError(f"mounts: two of them are at {place}", remedy=remedy, key="mounts")


def _wrong_shape(mount: Any) -> tuple[str, str] | None:
    """What is wrong with how a mount is written, behind `mounts[N]`, and how it is mended."""
    mend = f"write mounts = [{_EXAMPLE}]"
    if not isinstance(mount, Mapping):
        return f" is not a mount of executor 'lepton': {as_toml(mount)}", mend
    unknown = sorted(set(mount) - _MOUNT_KEYS)
    if unknown:
        return f" has an unknown key '{unknown[0]}': {as_toml(mount)}", f"its keys are {', '.join(sorted(_MOUNT_KEYS))}"
    scheme, address, rest = str(mount.get("path") or "").partition("://")
    if address:
        return f": path '{scheme}://{rest}' is no folder of a volume", _is_data(str(mount.get("mount_path")), rest)
    for key in ("path", "mount_path"):
        if not isinstance(mount.get(key), str) or not mount[key].startswith("/"):
            return f" needs an absolute {key}: {as_toml(mount)}", mend
    return None


def _is_data(place: str, rest: str) -> str:
    """How an address of data is meant, by whatever name its storage was called."""
    place = place if place.startswith("/") else "/data"
    folder = f"/{rest.partition('/')[2]}" if "/" in rest else "/"
    return f'write the volume\'s own folder, such as path = "{folder}"; data on S3 is an input, no mount: ' + (
        f'inputs = {{ "{place}" = "s3://{rest or "bucket/path"}" }}'
    )


def place_of(path: str) -> str:
    """A path as containers see it, without `.`, `..` and double slashes: POSIX keeps two at its beginning."""
    return posixpath.normpath(f"/{path.lstrip('/')}") if path.startswith("/") else posixpath.normpath(path)


def is_reserved(place: str) -> bool:
    """True if nothing may be mounted there. Below /proc no container runtime mounts anything, whatever Lepton takes."""
    return place in RESERVED_MOUNTS or place.startswith("/proc/")


def _wrong_place(mount: Mapping[str, Any]) -> tuple[str, str] | None:
    place = place_of(mount["mount_path"])
    if is_reserved(place):
        what = f": mount_path {place} is a place that Lepton keeps for the container itself"
        return what, 'mount it elsewhere, such as mount_path = "/mnt/data"'
    source = mount.get("from")
    if source is not None and not (isinstance(source, str) and _FROM.fullmatch(source)):
        named = source if isinstance(source, str) and _SECRET.fullmatch(source) else "my-volume"
        what = f": from = {as_toml(source)} is neither node-local nor node-TYPE:VOLUME"
        return what, f'such as from = "node-nfs:{named}"'
    return None


def _variables(env: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """The variables that a profile sets in the job's description, by where it does."""
    spec = tables((env.get("custom_spec") or {}).get("envs"))
    given = {key: list(env.get(key) or ()) for key in ("secret_vars", "secrets")}
    return {**given, "custom_spec.envs": [str(each.get("name")) for each in spec]}


def _secrets(env: Mapping[str, Any]) -> Iterator[UserError]:
    for key, names in _variables(env).items():
        for name in sorted(RESERVED_VARIABLES.intersection(names)):
            what = f"{key}: {name!r} is a variable that Lepton sets itself"
            yield UserError(what, remedy="give it another name", key=key.partition(".")[0])
    for variable, name in (env.get("secret_vars") or {}).items():
        if not isinstance(name, str) or not _SECRET.fullmatch(name):
            what = f"secret_vars: {variable} names no secret: {name!r}"
            yield UserError(what, remedy="the name of a secret of the workspace", key="secret_vars")

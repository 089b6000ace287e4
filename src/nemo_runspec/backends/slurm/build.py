"""Builds of container images as Slurm jobs: what their plan has beside the profile, and what is laid out for them.

For base images that need a login, enroot's credentials become the `auth.json` that podman reads: for named registries
only, never written down here. Enroot's file is `$ENROOT_CONFIG_PATH/.credentials`, netrc-like; a password that begins
with `$` is one that enroot has a shell work out (its `doc/cmd/import.md`). `auth.json` is containers-auth.json(5).
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import Mount
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.values import HOME, PATH, directory_of, run_dir
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.plans.target import target_of
from nemo_runspec.profiles.common import nodes_of

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Plan
    from nemo_runspec.transport.base import Host

DEFAULT_REGISTRIES = ("nvcr.io",)

_SHOW_LOGINS = """
folder=${ENROOT_CONFIG_PATH:-${XDG_CONFIG_HOME:-$HOME/.config}/enroot}
printf '%s\\n' "$folder/.credentials"
if [ -e "$folder/.credentials" ]; then cat -- "$folder/.credentials"; fi
"""
"""Bash that tells the file's path on the first line, and then what is in it. enroot.conf(5) names the folder."""

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\$\([^)\n]*\)|\S+)')
_ALSO: Mapping[str, tuple[str, ...]] = {"docker.io": ("auth.docker.io", "registry-1.docker.io", "index.docker.io")}
"""A registry → what enroot calls it."""


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One entry. `password` never shows in a `repr`."""

    machine: str
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class RegistryLogins:
    """What the credentials hold for the registries asked for.

    Args:
        auth: the text of `auth.json`; without any entry, it has none.
        registries: those in it.
        left_out: those whose password enroot works out by a command.
    """

    auth: str = field(repr=False)
    registries: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def read_logins(text: str) -> list[RegistryEntry]:
    """The entries of a credentials file, in its order. A `default` entry belongs to no registry and is left out."""
    entries: list[dict[str, str]] = []
    tokens = _tokens(text)
    for token in tokens:
        if token in ("machine", "default"):
            entries.append({"machine": next(tokens, "") if token == "machine" else ""})
        elif token in ("login", "password", "account"):
            (entries or [{}])[-1][token] = next(tokens, "")
    found = (entry for entry in entries if entry["machine"] and entry.get("password"))
    return [RegistryEntry(entry["machine"], entry.get("login", ""), entry["password"]) for entry in found]


def make_auth(text: str, registries: Iterable[str]) -> RegistryLogins:
    """`auth.json` out of enroot's credentials. The first entry of a registry counts, as for enroot.

    Args:
        registries: host names; what is not among them stays where it is.
    """
    logins = read_logins(text)
    auths: dict[str, dict[str, str]] = {}
    left_out = []
    for registry in dict.fromkeys(name.lower() for name in registries):
        names = (registry, *_ALSO.get(registry, ()))
        login = next((entry for entry in logins if entry.machine.lower() in names), None)
        if login is None:
            continue
        if login.password.startswith("$"):
            left_out.append(registry)
        else:
            pair = f"{login.user}:{login.password}".encode("utf-8", "surrogateescape")
            auths[registry] = {"auth": base64.b64encode(pair).decode("ascii")}
    return RegistryLogins(json.dumps({"auths": auths}, indent=2) + "\n", tuple(auths), tuple(left_out))


def _tokens(text: str) -> Iterator[str]:
    """The words, without comments: a line, or the rest of one, that begins with `#` where a key may stand."""
    for line in text_lines(text):
        value = False
        for found in _WORD.finditer(line):
            quoted, plain = found.groups()
            if not value and plain is not None and plain.startswith("#"):
                break
            yield re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain
            value = not value and plain != "default"


CACHE = "/nemotron-cache"
"""Where a build sees the cache."""

IMAGES = "containers"
"""The folder in the cache that holds finished images."""

AUTH = "/root/.config/containers/auth.json"
"""Where podman, as root, looks for logins: containers-auth.json(5)."""

ROOT_OPTIONS = ("--container-remap-root", "--container-writable")
"""Pyxis' options that make a build root in its container, and let it install what it needs there."""

REGISTRY = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?")
"""The host name of a registry, perhaps with a port."""


def cache_dir(env: Mapping[str, Any]) -> str:
    """`build_cache_dir` as the cluster names it, by default `cache` in the directory for jobs, perhaps below `HOME`."""
    return directory_of(env, "build_cache_dir") or f"{run_dir(env)}/cache"


def registries(env: Mapping[str, Any]) -> tuple[str, ...]:
    """The registries a build may log in to: ours, and those of the profile."""
    own = (str(name).lower() for name in env.get("build_registries") or ())
    return tuple(dict.fromkeys((*DEFAULT_REGISTRIES, *own)))


def for_build(request: TargetRequest) -> TargetRequest:
    """The request of a build: the profile says which image it runs in, the command line before it; there it is root."""
    env = dict(request.env)
    if env.get("container_image"):  # a squash file is made on the node itself
        if env.get("build_image") and "container_image" not in request.given:
            env["container_image"] = env["build_image"]
        given = list(env.get("srun_args") or ())
        env["srun_args"] = [*(option for option in ROOT_OPTIONS if option not in given), *given]
    return replace(request, env=env)


def build_mounts(env: Mapping[str, Any]) -> tuple[Mount, ...]:
    """The cache, and the logins, read-only. The file is there even where there are none."""
    cache = cache_dir(env)
    return Mount(cache, CACHE), Mount(auth_file(cache), AUTH, "ro")


def auth_file(cache: str) -> str:
    """Where the logins lie on the cluster."""
    return f"{cache}/.auth/auth.json"


def build_problems(env: Mapping[str, Any]) -> Iterator[UserError]:
    """What is wrong with a profile's values, for a build."""
    folder = cache_dir(env)
    if not folder.startswith(("/", HOME)) or not PATH.fullmatch(folder):
        what = f"build_cache_dir must be absolute or begin with ~/, not {folder!r}"
        remedy = "such as /lustre/me/cache: letters, digits and / . _ - + = @, seen by every node"
        yield UserError(what, remedy=remedy, key="build_cache_dir")
    for name in env.get("build_registries") or ():
        if not REGISTRY.fullmatch(name):
            what = f"build_registries: {name!r} is no registry's host name"
            yield UserError(what, remedy='such as "ghcr.io"', key="build_registries")
    if nodes_of(env) > 1 or (env.get("nproc_per_node") or 1) > 1:
        yield UserError("nodes: a container is built by one process on one node", remedy="leave it out", key="nodes")


def make_ready(host: Host, plan: Plan, say: Say) -> None:
    """Makes the cache on the cluster and puts the logins there, for their owner alone. Two or three round trips.

    Args:
        plan: of a build, without placeholders. One that runs in no container needs no logins: enroot reads its own.

    Raises:
        UserError: the cache cannot be written. Unreachable: the host did not answer.
    """
    target = target_of(plan, SlurmTarget)
    cache = target.build_cache_dir or ""  # which a build has
    folder = shlex.quote(posixpath.join(cache, IMAGES))
    done = host.run(f"mkdir -p -- {folder} && [ -w {folder} ]\n")
    if done.code:
        raise UserError(
            f"the build cache cannot be written: {done.said or 'permission denied'}",
            where=f"{host.name}:{cache}",
            remedy="set build_cache_dir to a directory of yours that every node sees",
        )
    if target.container_image:
        _put_logins(host, cache, target.build_registries, say)


def _put_logins(host: Host, cache: str, allowed: tuple[str, ...], say: Say) -> None:
    from nemo_runspec.transport.files import put

    done = host.run(_SHOW_LOGINS)
    shown, _, text = done.out.decode("utf-8", "surrogateescape").partition("\n")
    if done.code:
        raise UserError(f"enroot's credentials cannot be read: {done.said}", where=f"{host.name}:{shown}")
    found = make_auth(text, allowed)
    name = auth_file(cache)
    put(host, {posixpath.basename(name): (found.auth.encode(), 0o600)}, posixpath.dirname(name))
    say(f"logins for the build: {', '.join(found.registries) or 'none'} (of {host.name}:{shown})")
    for registry in found.left_out:
        say(f"warning: the password for {registry} is a command, which is not run: images there must be public")

"""Stores of artifacts, opened: a folder of this machine, one that a cluster's login node sees, a bucket."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runspec.artifacts.local_store import LocalStorage
from nemo_runspec.artifacts.registry import ArtifactStorage, StoreListing, Version
from nemo_runspec.artifacts.store import BUCKETS
from nemo_runspec.artifacts.store_changes import WritableStorage
from nemo_runspec.artifacts.versions import CONFIG, FOLDER, number_of
from nemo_runspec.artifacts.wandb import BACKEND
from nemo_runspec.backends import get_backend
from nemo_runspec.backends.capabilities import KeepsStore
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.script.programs import CHANGES_PROGRAM, CHECKS_PROGRAM, program_text
from nemo_runspec.transport.base import Host
from nemo_runspec.transport.connect import connect
from nemo_runspec.transport.tree import FileStore, HostFiles

_LOOK = """\
root={root}
cd "$root" 2> /dev/null || {{ [ ! -e "$root" ] && echo none && exit; echo "nobody may read $root" >&2; exit 1; }}
echo "found $PWD"
find {names} -mindepth 1 -maxdepth 2 \\( -name 'v*.json' -path '*/.versions/*' \\
  -o -type l ! -name 'v[0-9]*' ! -path '*/.*' \\) -print0 2> /dev/null | tar -c -z --null -T - 2> /dev/null
"""
"""All of a store in one answer. A name that begins with v and a digit is a number's: tags have none such."""


_CHECKS = """\
import io, json, sys
told = json.load(sys.stdin)
sys.stdin = io.StringIO(told["asked"])
exec(compile(told["program"], "checks", "exec"))
"""
"""The checkers are longer than an argument may be, and read what is asked from their input."""

_PATIENCE = 6 * 3600.0
"""Seconds in which all of what is added has to be read."""


class HostStorage(WritableStorage):
    """A store that another machine sees. As `WritableStorage`.

    Args:
        root: its folder there; a variable in it, as `$HOME`, is filled in there.
    """

    elsewhere = True

    def __init__(self, host: Host, root: str) -> None:
        self.host = host
        self.root = root
        self.name = f"{root.replace('$HOME', '~')} on {host.name}"

    def look(self, names: Sequence[str] = ()) -> StoreListing:
        """As `ArtifactStorage.look`: one round trip."""
        folders = " ".join(shlex.quote(f"./{name}") for name in names) or "$(ls -d ./*/ 2> /dev/null)"
        done = self.host.run(_LOOK.format(root=self._root, names=folders), timeout=120)
        head, _, data = done.out.partition(b"\n")
        if head == b"none":
            return StoreListing({}, {})
        word, _, folder = head.partition(b" ")
        if word != b"found":
            raise UserError(f"the store cannot be read: {done.said or 'no answer'}", where=self.name)
        self.root = folder.decode("utf-8", "surrogateescape")
        return _unpacked(data) if data else StoreListing({}, {})

    def config(self, artifact: str, digest: str) -> str:
        """As `ArtifactStorage.config`."""
        file = shlex.quote(f"{artifact}/{FOLDER}/{CONFIG}/{digest}")
        done = self.host.run(f"cd {self._root} && cat -- {file}")
        return done.text if done.code == 0 else ""

    def has(self, path: str) -> bool | None:
        """As `ArtifactStorage.has`."""
        return None

    def change(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """As `WritableStorage.change`: by the login node's Python."""
        words = json.dumps({**asked, "root": self.root}).encode()
        program = shlex.quote(program_text(CHANGES_PROGRAM))
        done = self.host.run(f"python3 -I -S -c {program}", data=words, timeout=600)
        try:
            answer = json.loads(done.out)
        except ValueError:
            raise UserError(f"the store cannot be changed: {done.said or 'no answer'}", where=self.name) from None
        return dict(answer)

    def checked(self, path: str, checker: str) -> Mapping[str, Any]:
        """As `WritableStorage.checked`: by the login node's Python, which reads all of it."""
        look = {"look": [{"path": path, "check": checker}], "whole": True}
        told = {"program": program_text(CHECKS_PROGRAM), "asked": json.dumps(look)}
        script = f"python3 -c {shlex.quote(_CHECKS)}"
        done = self.host.run(script, data=json.dumps(told).encode(), timeout=_PATIENCE)
        try:
            (answer,) = json.loads(done.out)["found"]
        except (ValueError, KeyError):
            said = done.said or "no answer"
            return {"findings": [], "more": False, "notes": [], "unchecked": f"{self.host.name}: {said}"}
        return dict(answer)

    @property
    def _root(self) -> str:
        home = "$HOME"
        if self.root.startswith(home):
            return f'"$HOME"{shlex.quote(self.root[len(home) :])}'
        return shlex.quote(self.root)


def storage_of_profile(name: str) -> ArtifactStorage:
    """The store of a profile's jobs.

    Raises:
        UserError: no such profile, or a store that cannot be reached from here.
    """
    from nemo_runspec.planning.build import build_plan
    from nemo_runspec.planning.request import bare_request

    plan = build_plan(bare_request(name)).plan
    if plan.run["artifacts"].get("backend") != BACKEND:
        return storage_of(plan)
    from nemo_runspec.remote.wandb_store import known_at

    return known_at(plan.run["artifacts"], plan.run["wandb"], lambda: storage_of(plan))


def storage_of(plan: Plan) -> ArtifactStorage:
    """The store of a plan's job. Raises as `storage_of_profile`."""
    section = plan.run["artifacts"]
    root = str(section["root"])
    if root.startswith(BUCKETS):
        from nemo_runspec.remote.bucket_store import BucketStorage

        return BucketStorage(root, section.get("endpoint") or "", section.get("region") or "")
    backend = get_backend(plan.executor)
    if not backend.remote:
        return LocalStorage(root)
    provider = backend.load_provider()
    if not isinstance(provider, KeepsStore):
        raise UserError(
            f"the store of {plan.profile or plan.executor} cannot be read from here: {root} is where its jobs run",
            remedy="where that folder is mounted: nemotron artifacts list --root FOLDER",
        )
    host, folder = provider.store_of(plan, root)
    return LocalStorage(folder) if host is None else HostStorage(host, folder)


def readable_storage(plan: Plan) -> ArtifactStorage | None:
    """The store of a plan's job, None where it cannot be read from here."""
    try:
        return storage_of(plan)
    except UserError:
        return None


def place_of(storage: ArtifactStorage, version: Version) -> str:
    """Where the data of a version lie. Raises `UserError` where only W&B has them."""
    if version.path:
        return version.path
    from nemo_runspec.remote.wandb_store import WandbStorage

    assert isinstance(storage, WandbStorage)
    return storage.place_of(version)


def files_of(storage: ArtifactStorage) -> FileStore:
    """How the data of a store are brought here."""
    from nemo_runspec.remote.wandb_store import WandbStorage

    if isinstance(storage, WandbStorage):
        if storage.beneath is None:
            raise UserError("the data lie where the jobs run, which cannot be read from here", remedy="jobs pull")
        return files_of(storage.beneath)
    if storage.root.startswith(BUCKETS):
        from nemo_runspec.remote.bucket_store import BucketStorage

        assert isinstance(storage, BucketStorage)
        return storage.files
    return HostFiles(storage.host if isinstance(storage, HostStorage) else connect())


def _unpacked(data: bytes) -> StoreListing:
    manifests: dict[str, dict[str, bytes]] = {}
    links: dict[str, dict[str, str]] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive:
            artifact, _, rest = member.name.removeprefix("./").partition("/")
            name = rest.rpartition("/")[2]
            file = archive.extractfile(member) if member.isfile() else None
            if member.issym():
                links.setdefault(artifact, {})[name] = member.linkname
            elif file is not None and number_of(name):
                manifests.setdefault(artifact, {})[name] = file.read()
    return StoreListing(manifests, links)

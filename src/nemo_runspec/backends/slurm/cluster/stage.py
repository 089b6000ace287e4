"""Puts a job's files on the cluster: whole or not at all, in three round trips at most, what is the same only once.

A job's directory is made beside its place and gets its name at the end, so that one that is there is complete. Its
parts, in the order they are written: `code/`, `scripts/` and the batch script, `train.yaml`, `job.yaml`, `bundle/`,
`secrets.env`, for its owner only, and our programs. Repositories of `${auto_mount:…}` come behind: one commit, no
history. Code packages and programs lie in a pool beside the jobs, by their digests (`stage.sh`): they are sent where
they are not there, or not what their names say. Whether a job's inputs are there is asked before.
"""

from __future__ import annotations

import gzip
import io
import os
import posixpath
import re
import shlex
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nemo_runspec.backends.base import Program
from nemo_runspec.backends.mounted import outside
from nemo_runspec.backends.slurm.client import connection_of, host_in
from nemo_runspec.backends.slurm.cluster import PRELUDE, program, run_script, script_of
from nemo_runspec.backends.slurm.cluster.submit import unwritable
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.values import HOME
from nemo_runspec.console import Say
from nemo_runspec.digests import blocks_of
from nemo_runspec.errors import UserError
from nemo_runspec.paths import below
from nemo_runspec.plans.model import AutoMount, BundleFile, Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.quoting import exports
from nemo_runspec.spinner import uploading
from nemo_runspec.transport.base import Data, Host
from nemo_runspec.transport.files import add_member, put_folder

_SCRIPT = "cluster/stage.sh"
_ASK_SECONDS = 300.0
"""Long enough for a turn among many commands at once: sshd lets ten sessions share a connection."""
_UPLOAD_SECONDS = 3600.0
_WHOLE = ".whole"
"""The last member: tar takes an input that ends between two of them for a whole one (GNU tar 1.34)."""
_WORTH_IT = 1 << 20
"""Bytes from which a stream is compressed: the tasks of an array differ in little."""
_PAUSE, _ROUNDS = 60.0, 15
"""Seconds between two looks of the keeper at the files of secrets; every so many it asks Slurm for their jobs."""
_DAYS_KEPT = 30
"""Days that what is in the pool is kept after it was last asked for; a job has its own: unpacked, or as links."""


@dataclass(frozen=True, slots=True)
class LoginNode:
    """What a login node says of itself, and of a job.

    Args:
        home: of whoever the jobs are submitted as.
        slurm: the name of its Slurm, '' where it is not known.
        package, programs, job: whether the code package is there, all of our programs, the whole job directory.
    """

    home: str
    slurm: str
    package: bool
    programs: bool
    job: bool


@dataclass(frozen=True)
class StagedFiles:
    """Files of a job that are sent to its directory.

    Args:
        texts: path below the job directory → text, the rendered scripts among them.
        programs: of ours, by digest in the pool.
        bundle: files of the recipe with their contents.
        secrets: by variable.
        archive: the code package as a file of this machine, `digest` its name there; None and '' without one.
        store: a folder of the cluster that must be there before the job starts; '' for none.
        folders: empty ones.
        links: path → what it points to.
        secret_files: path → further secrets by variable, for a file of their own.
        mounts: repositories, checked out on this machine; they are sent apart.
    """

    texts: Mapping[str, str]
    programs: Sequence[Program] = ()
    bundle: Mapping[BundleFile, bytes] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    archive: Path | None = None
    digest: str = ""
    store: str = ""
    folders: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    secret_files: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    mounts: Sequence[AutoMount] = ()


def probe(host: Host, job_dir: str, digest: str = "", programs: Sequence[Program] = ()) -> LoginNode:
    """What the login node is, and what of a job is there. One round trip.

    Args:
        job_dir: may begin with `HOME`.
        digest: of the code package, '' for none.
        programs: of ours.

    Raises:
        UserError: the answer cannot be read. Unreachable: no answer.
    """
    script = f"{PRELUDE}{_names(job_dir, digest, programs)}{program(_SCRIPT, 'probe')}"
    answer = run_script(host, script, timeout=_ASK_SECONDS)
    found = answer["found"].rows
    if not found or len(found[0]) < 5:
        raise UserError(f"{host.name} does not answer as a login node does: {answer.said or 'it says nothing'}")
    home, package, ours, job, slurm = found[0][:5]
    return LoginNode(home, slurm, package == "yes", ours == "yes", job == "yes")


def send(host: Host, plan: Plan, files: StagedFiles, there: LoginNode, say: Say) -> None:
    """Stages a plan's files, then sends its repositories. As `stage`, and one more round trip for each."""
    if files.archive is not None and not there.package:
        size = files.archive.stat().st_size / 1e6
        say(f"{plan.name}: sending the code package to {host.name} ({size:,.1f} MB)")
    stage(host, plan.job_dir, files, there)
    _send_mounts(host, plan.job_dir, files.mounts, say)


def stage(host: Host, job_dir: str, files: StagedFiles, there: LoginNode) -> None:
    """Makes the job's directory; does nothing where it is there. One round trip, two where the package is missing.

    Twice as many where the pool was wiped, or something in it has changed, since it was looked at.

    Args:
        job_dir: without placeholders.

    Raises:
        UserError: it cannot be written: a full disk, no permission. Nothing is left of it then.
        Unreachable: the connection broke; the same call again goes on from there.
    """
    if there.job:
        return
    if not _staged(host, job_dir, files, there):
        _staged(host, job_dir, files, replace(there, package=False, programs=False), again=True)


def _staged(host: Host, job_dir: str, files: StagedFiles, there: LoginNode, *, again: bool = False) -> bool:
    """As `stage`. False where something is no more in the pool, or has changed there; `again`: that is an error now."""
    names = _names(job_dir, files.digest, files.programs)
    if files.archive is not None and not there.package:
        size = files.archive.stat().st_size
        blocks = uploading(blocks_of(files.archive), "code", size)
        _require_end(host, job_dir, f"{PRELUDE}{names}size={size}\n{program(_SCRIPT, 'receive_package')}", blocks)
    data, unpacked = _squeezed(tar_of(files, programs=not there.programs))
    keeper = _keeper(secret=bool(files.secrets or any(files.secret_files.values())))
    own = f"store={shlex.quote(files.store)} sent={'' if there.programs else 'yes'}\n"
    script = f"{PRELUDE}{names}{keeper}{own}{unpacked}{program(_SCRIPT, 'make_job')}"
    return _require_end(host, job_dir, script, data, may_miss=not again)


def _keeper(*, secret: bool) -> str:
    """Shell variables: whether something stays on the login node until the job's secrets are gone, and how it looks."""
    return f"secrets={'yes' if secret else ''} pause={_PAUSE:g} rounds={_ROUNDS}\n"


def _squeezed(data: bytes) -> tuple[bytes, str]:
    """The stream, compressed where it is worth it, and the line of bash that undoes that."""
    if len(data) < _WORTH_IT:
        return data, ""
    return gzip.compress(data, 1), "exec 0< <(gzip -d -c)\n"


def tar_of(files: StagedFiles, *, programs: bool) -> bytes:
    """Everything but the code package as one tar stream. `programs`: ours, too; nobody is to write to those."""
    out, now = io.BytesIO(), int(time.time())  # whole seconds: a fraction would be a header of its own for each member
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in files.texts.items():
            add_member(tar, name, text.encode("utf-8", "surrogateescape"), 0o600, changed=now)
        for file, content in files.bundle.items():
            mode = 0o700 if os.access(file.source, os.X_OK) else 0o600
            add_member(tar, f"bundle/{file.path}", content, mode, changed=now)
        for name in files.folders:
            add_member(tar, name, b"", 0o700, changed=now, kind=tarfile.DIRTYPE)
        for name, target in files.links.items():
            add_member(tar, name, b"", 0o777, changed=now, kind=tarfile.SYMTYPE, linkname=target)
        for path, secrets in {"secrets.env": files.secrets, **files.secret_files}.items():
            if secrets:
                add_member(tar, path, exports(secrets).encode("utf-8", "surrogateescape"), 0o600, changed=now)
        for each in files.programs if programs else ():
            add_member(tar, each.name, each.text.encode(), 0o400, changed=now)
        add_member(tar, _WHOLE, b"", 0o600, changed=now)
    return out.getvalue()


def _names(job_dir: str, digest: str, programs: Sequence[Program]) -> str:
    """Shell variables: the job's directory, the pool, the package's place in it, programs."""
    pool = f"{posixpath.dirname(posixpath.dirname(job_dir))}/packages"
    listed = "\n".join(f"{each.digest}  {each.name}" for each in programs)
    return (
        f"job={shlex.quote(job_dir)} pool={shlex.quote(pool)} days={_DAYS_KEPT} programs={shlex.quote(listed)}\n"
        f'job=${{job//{HOME}/"$HOME"}} pool=${{pool//{HOME}/"$HOME"}}\n'
        f"package={f'$pool/{digest}.tar.gz' if digest else ''}\n"
    )


def _require_end(host: Host, job_dir: str, script: str, data: Data, *, may_miss: bool = False) -> bool:
    """Runs a script; False where something was missing that may be. Raises where it did not come to its end."""
    answer = run_script(host, script, data=data, timeout=_UPLOAD_SECONDS)
    if may_miss and "missing" in answer:
        return False
    if answer["end"].code:
        missing = f"it is gone: {answer['missing'].reason}" if "missing" in answer else ""
        reason = missing or answer["end"].reason or answer.said or f"exit code {answer.code}"
        raise unwritable(reason, f"{host.name}:{job_dir}")
    return True


def _send_mounts(host: Host, job_dir: str, mounts: Sequence[AutoMount], say: Say) -> None:
    """Puts what is mounted below the job's directory; what is there stays. One round trip for each.

    Raises:
        UserError: it cannot be written there. Unreachable: the connection broke; nothing of that one is there.
    """
    for mount in {mount.there: mount for mount in mounts if mount.there}.values():
        directory = f"{job_dir}/{mount.there}"
        say(f"sending {mount.url} at {(mount.commit or mount.ref)[:12]} to {host.name}")
        put_folder(host, Path(mount.path), directory, mount.url)


_OF_A_NODE = ("/tmp", "/var/tmp", "/dev/shm", "/run")
"""What every node has of its own: the login node's tells nothing. Nor does it where it lacks a disk altogether."""

_ONLY_THERE = re.compile(r"\$(?:\{\w+\}|\w+)|(?:^|/)\.\.(?=[/ ]|$)")
"""What only the node can tell: a variable, and where `..` leads from a link."""


def present(plan: Plan, paths: Sequence[str]) -> Mapping[str, bool | None]:
    """Each path of the job → whether it is there; None for what only the container's image may hold. One round trip.

    Raises:
        UserError: the login node does not answer as it should. Unreachable: it does not answer.
    """
    cluster_paths = {path: _cluster_path(plan, path) for path in paths}
    wanted = [path_there for path_there in cluster_paths.values() if path_there is not None]
    if not wanted:
        return dict.fromkeys(paths)
    host = host_in(connection_of(target_of(plan, SlurmTarget)))
    answer = run_script(host, script_of(_SCRIPT, "look_for_inputs", home=HOME, paths=wanted))
    answers = [section.rows[0][0] for section in answer.sections.values() if section.rows]
    if len(answers) != len(wanted):
        raise UserError(f"the job's inputs cannot be looked at: {answer.said or 'no answer'}", where=host.name)
    states = {"there": True, "missing": False}
    found = dict(zip(wanted, map(states.get, answers), strict=True))
    return {path: found[path_there] if path_there is not None else None for path, path_there in cluster_paths.items()}


def _cluster_path(plan: Plan, path: str) -> str | None:
    """Where the login node has a path of the job; None where it cannot be said, as on a disk of the nodes' own."""
    target = target_of(plan, SlurmTarget)
    path_there = outside(path, target.mounts) if target.container_image else path
    if not path_there or not path_there.startswith(("/", HOME)) or _ONLY_THERE.search(f"{path} {path_there}"):
        return None
    shared = below(path_there, target.remote_job_dir)
    return path_there if shared or not any(below(path_there, folder) for folder in _OF_A_NODE) else None

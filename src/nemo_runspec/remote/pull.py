"""Brings what a job has made to this machine: which paths are meant, and on which machine they lie."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.capabilities import CloudProvider, KeepsFiles, KeptFiles
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.planning.codec import load_plan
from nemo_runspec.plans.model import Plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.text import clean
from nemo_runspec.transport.connect import connect
from nemo_runspec.transport.tree import HostFiles

OUTPUTS, CHECKPOINTS, LOGS = "outputs", "checkpoints", "logs"
WHAT = (OUTPUTS, CHECKPOINTS, LOGS)

_LOGS = ("*.out", "*.log", "*.err", "metrics.jsonl")
_MOST_NAMES = 10
"""Of what there is, where something else was named."""

_DIRECTORY = JobLayout("")
_OURS = (
    *(f"{path[1:]}/" for path in (_DIRECTORY.bundle, _DIRECTORY.code, _DIRECTORY.logs, _DIRECTORY.status)),
    "record.json",
    "supervisor.log",
)
"""What changes in every job's directory while it runs."""

_CHECKPOINTS = ("model", "checkpoint")
"""Types of artifacts that are checkpoints, and how such types end."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Something to be brought here.

    Args:
        name: of the folder here.
        path: where it lies, on the job's machine.
        only: patterns of the files that count.
    """

    name: str
    path: str
    only: tuple[str, ...] = ()


def kept_files(store: JobStore, record: JobRecord) -> KeptFiles:
    """Where the files of a job can be had from here.

    Raises:
        UserError: nowhere.
    """
    backend, folder = get_backend(record.executor), store.folder(record.name)
    if not backend.remote:
        return KeptFiles(HostFiles(connect()), str(folder))
    provider = backend.load_provider()
    if not isinstance(provider, KeepsFiles):
        raise UserError(
            f"the files of job '{record.name}' cannot be reached from here: {record.executor} offers no way to them",
            remedy=f"its log is here: nemotron jobs logs {record.name}",
        )
    return provider.files_of(record.handle, load_plan(folder / "plan.json"))


def log_files(store: JobStore, record: JobRecord) -> KeptFiles:
    """Where its logs can be had: on its machine, and of a cloud's job here, where they were fetched to."""
    backend = get_backend(record.executor)
    if backend.remote and isinstance(backend.load_provider(), CloudProvider):
        return KeptFiles(HostFiles(connect()), str(store.folder(record.name)))
    return kept_files(store, record)


def wanted_of(store: JobStore, record: JobRecord, kept: KeptFiles, what: str) -> list[Wanted]:
    """The paths that a word means: outputs, checkpoints, logs, an output's name, or a path, below the job's directory.

    Raises:
        UserError: the job has none such.
    """
    plan = load_plan(store.folder(record.name) / "plan.json")
    known = kept.outputs if kept.outputs is not None else _outputs(record, plan)
    if what == LOGS:
        return [Wanted(LOGS, kept.root, _LOGS)]
    if what == CHECKPOINTS:
        kinds = {a.name for a in plan.produces if a.type.endswith(_CHECKPOINTS)}
        return _some(record, what, {name: path for name, path in known.items() if name in kinds}, known, kept)
    if what == OUTPUTS or what in known:
        return _some(record, what, known if what == OUTPUTS else {what: known[what]}, known, kept)
    if "/" not in what and (near := did_you_mean(what, [*WHAT, *known])):
        raise UserError(f"job '{record.name}' has no output '{what}'", remedy=near)
    path = what if what.startswith("/") else f"{kept.root}/{what}"
    return [Wanted(posixpath.basename(path.rstrip("/")) or what, path.rstrip("/") or "/")]


def not_there(kept: KeptFiles, wanted: Wanted) -> UserError:
    """The error of a path that is not there: it names what is, beside it or in the job's directory."""
    parent = posixpath.dirname(wanted.path) or kept.root
    folder, names = next(
        ((each, names) for each in dict.fromkeys((parent, kept.root)) if (names := kept.store.entries(each))),
        (kept.root, ()),
    )
    there = f"in {folder} there are: {in_words(names)}" if names else f"nothing is in {kept.root}, either"
    return UserError(f"{wanted.name}: there is no {wanted.path} on {kept.store.name}", remedy=there)


def in_words(names: Sequence[str]) -> str:
    """Names in a folder, not too many of them."""
    ordered = _ordered(names)
    rest = f" and {len(ordered) - _MOST_NAMES:,} more" if len(ordered) > _MOST_NAMES else ""
    return f"{', '.join(map(clean, ordered[:_MOST_NAMES]))}{rest}"


def _ordered(names: Sequence[str]) -> list[str]:
    """What a job has made comes first: it is newer than what the job was made of, but for these of ours."""
    return sorted(names, key=lambda name: name in _OURS)


def _outputs(record: JobRecord, plan: Plan) -> Mapping[str, str]:
    """What it has made, of a job that goes on what it is to make; as the machine sees it, not its container."""
    planned = {artifact.name: artifact.path for artifact in plan.produces if artifact.path}
    found = dict(record.outputs) or ({} if record.over else planned)
    return {name: _outside(plan, record, path) for name, path in found.items()}


def _some(
    record: JobRecord, what: str, found: Mapping[str, str], known: Mapping[str, str], kept: KeptFiles
) -> list[Wanted]:
    if not found:
        has = f"it has {', '.join(known)}" if known else "none is on record"
        names = kept.store.entries(kept.root)
        there = (
            f"name a path in its directory ({in_words(names)}), such as" if names else "name a path in its directory"
        )
        raise UserError(
            f"job '{record.name}' has no {what}: {has}",
            remedy=f"{there}: nemotron jobs pull {record.name} {next(iter(_ordered(names)), 'results/')}",
        )
    return [Wanted(name, path) for name, path in found.items()]


def _outside(plan: Plan, record: JobRecord, path: str) -> str:
    """A path as the machine sees it, which its container may see elsewhere."""
    storage = plan.target.storage(record.job_dir or plan.job_dir)
    return (storage.source_of(path) if storage else None) or path

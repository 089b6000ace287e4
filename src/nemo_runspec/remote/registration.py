"""Registers what an ended job has made, where its data are: by the program that went with the job."""

from __future__ import annotations

import json
import os
import posixpath
import shlex
from collections.abc import Sequence
from typing import Any

from nemo_runspec.artifacts.store import uses_bucket, versions_of
from nemo_runspec.backends import get_backend
from nemo_runspec.backends.capabilities import KeepsStore
from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import load_plan
from nemo_runspec.plans.model import Plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.unregistered import is_unregistered, lacks_registration, marked
from nemo_runspec.remote.pull import kept_files
from nemo_runspec.remote.wandb_registration import with_wandb_told
from nemo_runspec.s3_names import KEYS, TOKEN
from nemo_runspec.script.programs import SUPERVISOR
from nemo_runspec.transport.tree import HostFiles

_SECONDS = 3600.0


def unregistered_jobs(store: JobStore) -> Sequence[JobRecord]:
    """The jobs whose work is done, and what they have made is not registered; the oldest name first."""
    known = (store.stored(name) for name in marked(store.root))
    return [record for record in known if isinstance(record, JobRecord) and is_unregistered(record)]


def register_job(store: JobStore, record: JobRecord) -> Sequence[str]:
    """Registers what a job has made, which has succeeded then; the names of its artifacts.

    A second time nothing is registered again.

    Raises:
        UserError: it made nothing that is registered, its data cannot be reached from here, or it cannot be done still.
        Unreachable: the machine that has them does not answer.
    """
    plan = load_plan(store.folder(record.name) / "plan.json")
    made = versions_of(plan)
    _require_done(record, made)
    kept = kept_files(store, record)
    if not isinstance(kept.store, HostFiles):
        raise _out_of_reach(record)
    asked = {
        "versions": made,
        "moved": _moved(plan, record, posixpath.dirname(posixpath.dirname(made[0])), kept.root),
        "keys": _keys() if uses_bucket(plan) else {},
    }
    program = f"{kept.root}/{SUPERVISOR}"
    script = f"python3 -I -S {shlex.quote(program)} register {shlex.quote(kept.root)} -"
    done = kept.store.host.run(script, data=json.dumps(asked).encode(), timeout=_SECONDS)
    _require_registered(record, done.out, done.said)
    if lacks_registration(record):
        values: dict[str, Any] = {"metrics": record.metrics, "wandb": with_wandb_told(plan, record)}
        if is_unregistered(record):
            values |= {"exit_code": 0, "cause": "registered afterwards", "diagnosis": {}}
        store.correct(record, "succeeded", **values)
    return [posixpath.basename(posixpath.dirname(path)) for path in made]


def _require_done(record: JobRecord, made: Sequence[str]) -> None:
    if not made:
        raise UserError(f"job '{record.name}' makes nothing that is registered", remedy="name another job")
    if record.state != "succeeded" and not is_unregistered(record):
        raise UserError(
            f"job '{record.name}' is {record.state}: what it has made may not be whole",
            remedy="nemotron artifacts add PATH registers data as they are",
        )


def _moved(plan: Plan, record: JobRecord, root: str, folder: str) -> tuple[str, str]:
    """The folder of the store as the job names it, and as the machine does that has the data."""
    backend = get_backend(record.executor)
    if not backend.remote:
        return root, root
    provider = backend.load_provider()
    if isinstance(provider, KeepsStore):
        return root, provider.store_of(plan, root)[1]
    run_dir = next((variable.value for variable in plan.env if variable.name == "NEMO_RUN_DIR"), "")
    if not run_dir or not root.startswith(f"{run_dir}/"):
        raise _out_of_reach(record)
    return root, posixpath.dirname(posixpath.dirname(folder)) + root[len(run_dir) :]


def _out_of_reach(record: JobRecord) -> UserError:
    return UserError(
        f"what job '{record.name}' has made cannot be reached from here: it is where its pods ran",
        remedy="mount that storage and set run_dir_here in the profile; or run the job again: nemotron jobs retry",
    )


def _keys() -> dict[str, str]:
    """This machine's keys for a bucket."""
    return {name: os.environ[name] for name in (*KEYS, *KEYS.values(), TOKEN) if os.environ.get(name)}


def _require_registered(record: JobRecord, out: bytes, said: str) -> None:
    try:
        answer = json.loads(out)
        why, missing = list(answer["said"]), list(answer["missing"])
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"what job '{record.name}' has made cannot be registered: {said or 'no answer'}",
            remedy="its directory may be gone: nemotron artifacts add PATH registers data by themselves",
        ) from None
    if why or missing:
        raise UserError(
            f"what job '{record.name}' has made is not registered: {'; '.join(why) or f'{missing[0]} is gone'}",
            remedy="mend that, and give the same command again" if why else "run it again: nemotron jobs retry",
        )

"""`nemotron jobs show`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nemo_runspec.diagnosis.display import rows_of
from nemo_runspec.errors import UserError
from nemo_runspec.records.on_end import told_of
from nemo_runspec.records.unregistered import LATER, is_unregistered
from nemo_runspec.regular import NotRegular, read_regular
from nemo_runspec.text import clean, count, one_line
from nemotron.cli.commands.jobs.output import facts_of, print_rows
from nemotron.cli.forms import TABLE
from nemotron.cli.job_formatting import age, coloured, local_time, numbers, progress_said, took
from nemotron.cli.job_formatting import as_json as to_json
from nemotron.cli.text import paint, table

if TYPE_CHECKING:
    from pathlib import Path

    from nemo_runspec.records import JobRecord
    from nemo_runspec.records.facts import JobFacts


_REASON = {"queued": "waits for"}
"""What the reason of a state is called while the job is not over."""


def call(job: str, sort: str | None, script: bool, form: str) -> int:
    """Prints what is known of one job, or of a sweep."""
    from nemo_runspec.records import JobStore
    from nemo_runspec.sweeps.overview import Overview

    store = JobStore()
    if not store.exists(job) or not job:
        found = Overview(store).one(job)
        if found.is_sweep:
            from nemotron.cli.sweep_report import print_group

            if script:
                raise UserError(
                    f"--script belongs to a job, and '{found.name}' is a {found.noun}",
                    remedy=f"name one of its jobs: nemotron jobs list --group {found.name}",
                )
            if sort is not None and found.noun != "sweep":
                raise _no_sweep(found.name)
            return print_group(found.name, sort=sort, form=form)
        job = found.name
    if sort is not None:
        raise _no_sweep(job)
    record = store.get(job)
    if script:
        return _print_scripts(store.folder(record.name))
    if form != TABLE:
        print_rows([facts_of(record, store)], form, lambda: to_json(record, store.folder(record.name)))
        return 0
    folder = store.folder(record.name)
    told = age(record, folder)
    since = f" ({told}; nemotron jobs status asks now)" if told else ""
    print(f"{paint(record.name, 'bold')}  {coloured(record.state, record.state)}{since}")
    rows = [
        *_what(record),
        *_how_it_goes(record, folder),
        *_image(record),
        *_wandb(record, folder),
        *_files(record, folder),
    ]
    print("\n".join(table((key, clean(value)) for key, value in rows if value)))
    print("states, as they were noticed" if record.handle else "states")
    print("\n".join(table((s.state, local_time(s.time), one_line(s.reason)) for s in record.states)))
    return 0


def _no_sweep(name: str) -> UserError:
    return UserError(f"--sort belongs to a sweep, and '{name}' is none", remedy="leave --sort out")


def _kind_of(group: str | None) -> str:
    """`sweep` or `pipeline`: what a job belongs to."""
    from nemo_runspec.sweeps.store import SweepStore

    store = SweepStore()
    try:
        return store.read(group).kind if group and group in store.names() else "sweep"
    except UserError:
        return "sweep"


def _what(record: JobRecord) -> list[tuple[str, str]]:
    config = f", config {record.config}" if record.config else ""
    where = f"profile {record.profile}" if record.profile else "this machine"
    return [
        ("recipe", f"{record.recipe}{config}"),
        ("note", record.note),
        ("tags", ", ".join(record.tags)),
        ("where", f"{where} ({record.executor}, {record.mode}), from {record.user}@{record.host}:{record.cwd}"),
        ("command", shlex.join(record.argv)),
        (_kind_of(record.group), record.group or ""),
        ("overrides", shlex.join(record.overrides)),
        ("retry of", record.retry_of or ""),
        ("needs", ", ".join(record.relations.needs)),
        ("made for", ", ".join(record.relations.made_for)),
        ("code", _package(record.package)),
        ("commit", record.commit or "none"),
        ("container", record.container or ""),
        ("job id", _id(record)),
    ]


def _id(record: JobRecord) -> str:
    """What the platform calls it, and where it is."""
    if not record.handle:
        return ""
    from nemo_runspec.remote.display import place_of

    where = place_of(record)
    found = [record.id or "none yet", f"on {where}"]
    if record.job_dir:  # a plug-in's job of an earlier release may not say it
        found.append(f"in {record.job_dir}")
    if record.facts.nodes:
        found.insert(1, f"on {record.facts.nodes}")
    return " ".join(found)


def _print_scripts(folder: Path) -> int:
    """The scripts that the job was sent with, as they lie in its folder; programs that are the same for all by name."""
    from nemo_runspec.submission.layout import programs_in
    from nemotron.cli.dry_run.files import programs_named

    programs = programs_in(folder)
    same = {each.name for each in programs}
    found = [*(path for path in sorted(folder.glob("*.sh")) if path.name not in same), *folder.glob("job.json")]
    if not found:
        raise UserError("this job has no scripts", where=str(folder))
    for path in found:
        print(paint(f"--- {path.name} ---", "cyan"))
        print(_text_of(path))
    for line in programs_named(programs):
        print(line)
    return 0


def _text_of(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8", "replace")
    except NotRegular as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", where=str(path)) from None


def _how_it_goes(record: JobRecord, folder: Path) -> list[tuple[str, str]]:
    """How it ended, or goes so far: an exit code and a cause are of the end only."""
    end = [("exit code", "none" if record.exit_code is None else str(record.exit_code))] if record.over else []
    word = "cause" if record.over else _REASON.get(record.state, "reason")
    return [
        *end,
        (word, record.reason or record.cause),
        *rows_of(record.diagnosis),
        ("registering", f"{LATER} {record.name}" if is_unregistered(record) else ""),
        ("time", took(record)),
        ("on_end", told_of(folder)),
        ("progress", progress_said(record, folder)),
        *_attempts(record),
        ("attempt", _attempt(record.facts)),
        ("metrics", numbers(record.metrics)),
    ]


def _image(record: JobRecord) -> list[tuple[str, str]]:
    """The image that it has built: by its digest where a registry has it, and what it was built from."""
    image = record.image
    if not image:
        return []
    bases = [f"{base['named']} ({', '.join(base['digests']) or base['id']})" for base in image.get("bases", ())]
    return [
        ("image", f"{image.get('name')} ({image.get('id')})"),
        ("digest", str(image.get("digest") or "none: it is in no registry")),
        *(("built from", base) for base in bases),
    ]


def _wandb(record: JobRecord, folder: Path) -> list[tuple[str, str]]:
    """Its run on W&B: where it can be seen, or how it gets there."""
    from nemo_runspec.records.unregistered import LATER
    from nemo_runspec.records.wandb import run_of

    run = run_of(record, folder)
    if not run:
        return []
    id, state, why = (run.get(key, "") for key in ("id", "state", "why"))
    where = run.get("url") or f"run {id}"
    offline = f"; send it where the job ran: wandb sync {record.job_dir or folder}/wandb/offline-run-*-{id}"
    note = ", ".join(filter(None, (state, why)))
    lost = run.get("unregistered", "")
    return [
        ("W&B", f"{where}{f' ({note})' if note else ''}{offline if state == 'offline' else ''}"),
        ("registered", _registered(run)),
        ("warning", f"not all that it made is registered at W&B ({lost}): {LATER} {record.name}" if lost else ""),
    ]


def _registered(run: Mapping[str, str]) -> str:
    """What its run has registered; of one that is kept where it ran, what will be."""
    names = run.get("artifacts", "")
    return f"{names}, once its run is sent" if names and run.get("state") == "offline" else names


def _attempts(record: JobRecord) -> list[tuple[str, str]]:
    """The attempts that failed and were followed by another, with why, and where they ran."""
    rows = []
    for number, each in enumerate(record.attempt.tried if record.attempt else (), 1):
        where = f", on {each.nodes}" if each.nodes else ""
        rows.append((f"attempt {number}", f"{each.kind}: {each.what} ({each.id}{where})"))
    return rows


def _attempt(facts: JobFacts) -> str:
    """How often it has been started, where that was more than once, and how often it may be where that is known."""
    most = f" of {facts.attempts}" if facts.attempts else ""
    return f"{facts.attempt + 1}{most}; time is this attempt's" if facts.attempt else ""


def _files(record: JobRecord, folder: Path) -> list[tuple[str, str]]:
    from nemo_runspec.records.follow import log_of

    log = log_of(folder)
    named = _is_numbered_by_wandb(folder)
    outputs = [(f"input {name}", path if named else _of_store(path)) for name, path in record.inputs.items()]
    outputs += [(f"output {name}", path if named else _of_store(path)) for name, path in record.outputs.items()]
    return [("files", str(folder)), ("log", str(log) if log.exists() else ""), *outputs]


def _is_numbered_by_wandb(folder: Path) -> bool:
    """True if a job's versions have other numbers than those of the store, by its plan."""
    from nemo_runspec.artifacts.wandb import is_named_in
    from nemo_runspec.regular import read_json

    try:
        return is_named_in(read_json(folder / "plan.json"))
    except (OSError, ValueError):
        return False


def _of_store(path: str) -> str:
    """A path, behind the artifact and version that lie there, where this machine sees their manifest."""
    from nemo_runspec.artifacts.versions import of_path

    known = of_path(path)
    return f"{known.get('name')}:v{known['version']}  {path}" if "version" in known else path


def _package(package: Mapping[str, Any]) -> str:
    """What of the user's code travelled, and how much of it did not."""
    kind = package.get("kind")
    bundled = package.get("bundled")
    own = f"{count(bundled, 'file')} of the recipe as they were here, not as committed" if bundled else ""
    if not kind or kind == "none":
        return own
    left = [
        f"{count(number, 'file')} {name} and left out"
        for name in ("uncommitted", "untracked")
        if isinstance(number := package.get(name), int) and number
    ]
    return ", ".join(
        [f"{kind} {str(package.get('digest') or '')[:12]} of {package.get('root')}", *left, *([own] if own else [])]
    )

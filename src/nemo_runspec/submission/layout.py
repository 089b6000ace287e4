"""The job directory on this machine: what is put there before the job script starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.artifacts.about import about_text
from nemo_runspec.artifacts.store import BUCKETS
from nemo_runspec.artifacts.versions import ABOUT
from nemo_runspec.backends.base import Program, Rendering
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.json_text import json_text
from nemo_runspec.packaging.pack import pack, unpack
from nemo_runspec.plans.model import Plan
from nemo_runspec.regular import read_json
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.programs import STORE_PROGRAM, program_text
from nemo_runspec.submission.request import RetriedJob

ARCHIVE = "code.tar.gz"
"""The code package in a job's folder: what a retry runs from."""

PROGRAMS = "programs.json"
"""In a job's folder: which of our programs went along, by their digests."""

_SPARE_BYTES = 1 << 16


def layout_of(plan: Plan) -> JobLayout:
    """Where the job's files lie on this machine, whatever the job itself calls that place."""
    return JobLayout(plan.job_dir)


def job_files(plan: Plan, rendering: Rendering) -> dict[str, str]:
    """All of a job's files but its bundle and code: its own texts, and the programs that are the same for all jobs."""
    return own_files(plan, rendering) | {each.name: each.text for each in rendering.programs}


def recorded_files(plan: Plan, rendering: Rendering) -> dict[str, str]:
    """What is kept here of a job that is sent elsewhere: its own files, and which programs went along."""
    return own_files(plan, rendering) | programs_list(rendering.programs)


def programs_list(programs: Sequence[Program]) -> dict[str, str]:
    """The file that names the programs of a job: they are the same for all jobs of a release."""
    listed = [{"name": p.name, "version": p.version, "digest": p.digest, "size": p.size} for p in programs]
    return {PROGRAMS: json_text(listed) + "\n"}


def programs_in(folder: Path) -> list[Program]:
    """The programs that a job's folder names; none where it names none, as folders of earlier releases do."""
    try:
        return [Program(**each) for each in read_json(folder / PROGRAMS)]
    except (OSError, ValueError, TypeError):
        return []


def own_files(plan: Plan, rendering: Rendering) -> dict[str, str]:
    """The rendered texts; `train.yaml`, what the script reads; `job.yaml`, with the `run` section too."""
    rendered = {file.name: file.text for file in rendering.files}
    if about := about_text(plan):
        rendered[ABOUT] = about
        if str((plan.run.get("artifacts") or {}).get("root")).startswith(BUCKETS):
            rendered[STORE_PROGRAM] = program_text(STORE_PROGRAM)
    return rendered | {"train.yaml": config_text(plan), "job.yaml": _yaml({"run": plan.run, **plan.config})}


def config_text(plan: Plan) -> str:
    """`train.yaml`: the composed configuration, which the script reads."""
    return _yaml(plan.config)


def make_folders(layout: JobLayout) -> None:
    """Folders of the job script, and the file its metrics are appended to."""
    for folder in (layout.status, layout.logs):
        paths.private_dir(Path(folder))
    Path(layout.metrics).touch(mode=0o600)
    _spare(layout).write_bytes(b" " * _SPARE_BYTES)


def give_room(layout: JobLayout) -> bool:
    """Frees what was kept back for the record's last change, on a disk that the job has filled. False if it is gone."""
    try:
        _spare(layout).unlink()
    except OSError:
        return False
    return True


def packed(plan: Plan, retried: RetriedJob | None, say: Say) -> Path | None:
    """The archive of the plan's code package, None where it has none. A retry takes the one of the job before.

    Raises:
        UserError: it cannot be made, is not what was planned, or is gone.
    """
    if plan.package.kind == "none":
        return None
    archive = retried.archive if retried else pack(plan.package, say).archive
    if archive is None or not archive.is_file():
        raise UserError(f"the code package of '{plan.name}' is gone", where=str(archive), remedy="make the plan again")
    return archive


def place_package(archive: Path | None, layout: JobLayout) -> None:
    """Puts the code package into the job directory, packed and unpacked.

    Raises:
        UserError: it cannot be unpacked.
    """
    if archive is not None:
        unpack(keep_package(archive, Path(layout.root)), Path(layout.code))


def keep_package(archive: Path, folder: Path) -> Path:
    """Keeps the code package in a job's folder, as it is; where it lies then."""
    own = folder / ARCHIVE
    _link(archive, own)
    return own


def _spare(layout: JobLayout) -> Path:
    return Path(layout.root) / ".spare"


def _link(source: Path, target: Path) -> None:
    """A second name for the file; a copy where the file system has none."""
    with suppress(OSError):
        os.link(source, target)
        return
    shutil.copyfile(source, target)


def _yaml(tree: dict[str, object]) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # ten times as fast, which a sweep of many runs feels
    return str(yaml.dump(tree, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120))

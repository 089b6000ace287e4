"""Sweeps as they are kept: one folder each. `sweep.json` names the members; their jobs' records say the rest."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from nemo_runspec import paths
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.jobs import JobRecord, JobStore
from nemo_runspec.jobs.record import Launcher
from nemo_runspec.supervise.metrics import last_metrics
from nemo_runspec.sweeps.model import SWEEP_SCHEMA, Member, Options, Sweep

_FILE = "sweep.json"


class SweepStore:
    """Sweeps below one folder.

    Args:
        root: by default `~/.nemotron/sweeps`. It is made when the first sweep is.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or paths.home() / "sweeps"

    def folder(self, group: str) -> Path:
        """A sweep's folder."""
        return self.root / group

    def write(self, sweep: Sweep) -> None:
        """Writes a sweep down, whole or not at all, for its owner only.

        Raises:
            UserError: it cannot be written.
        """
        folder = self.folder(sweep.group)
        try:
            paths.private_dir(folder)
            paths.write_private(folder / _FILE, to_json(sweep))
        except OSError as error:
            raise UserError(f"cannot record the sweep: {error.strerror}", where=str(folder)) from None

    def names(self) -> list[str]:
        """The sweeps there are, in no order."""
        return [entry.name for entry in os.scandir(self.root) if entry.is_dir()] if self.root.is_dir() else []

    def find(self, name: str) -> str | None:
        """The sweep of that name, or the only one whose name begins so; None where there is none."""
        if not name or "/" in name:
            return None
        names = self.names()
        matches = [name] if name in names else [known for known in names if known.startswith(name)]
        return matches[0] if len(matches) == 1 else None

    def get(self, name: str) -> Sweep:
        """A sweep as it is now, with the records of its members.

        Raises:
            UserError: there is none, or it cannot be read.
        """
        group = self.find(name)
        if group is None:
            raise UserError(f"no sweep '{name}'", where=str(self.root), remedy=did_you_mean(name, self.names()))
        file = self.folder(group) / _FILE
        try:
            sweep = from_json(file.read_text(encoding="utf-8", errors="surrogateescape"))
        except (OSError, ValueError) as error:
            raise UserError(f"sweep '{group}' cannot be read: {error}", where=str(file)) from None
        members = tuple(dataclasses.replace(member, record=record_of(member)) for member in sweep.members)
        return dataclasses.replace(sweep, members=members)


def record_of(member: Member) -> JobRecord | None:
    """The record of a member's job as it is now, None where it has none or it cannot be read.

    While the job runs, the record has the metrics that it has written so far.
    """
    folder = Path(member.job_dir)
    try:
        record = JobStore(folder.parent).by_name(folder.name) if (folder / "record.json").is_file() else None
    except UserError:
        return None
    if record is None or record.ended:
        return record
    return dataclasses.replace(record, metrics=last_metrics(member.metrics_file))


def to_json(sweep: Sweep) -> str:
    """The sweep as it is stored: without the records of its members."""
    data = asdict(dataclasses.replace(sweep, members=tuple(_without_record(member) for member in sweep.members)))
    for member in data["members"]:
        del member["record"]
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _without_record(member: Member) -> Member:
    was = member.record.state if member.record and member.record.ended else member.was
    return dataclasses.replace(member, record=None, was=was)


def from_json(text: str) -> Sweep:
    """A stored sweep. Keys a later version added are left out.

    Raises:
        ValueError: not a sweep, or one of a later schema.
    """
    data = json.loads(text)
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise ValueError("not a sweep")
    if data["schema"] > SWEEP_SCHEMA:
        raise ValueError(f"written by a later version (schema {data['schema']})")
    try:
        values = _known(Sweep, data)
        values["argv"] = tuple(data["argv"])
        values["options"] = Options(**_known(Options, data["options"]))
        values["members"] = tuple(Member(**_known(Member, member)) for member in data["members"])
        values["launcher"] = Launcher(**_known(Launcher, data["launcher"])) if data.get("launcher") else None
        return Sweep(**values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a whole sweep ({type(error).__name__}: {error})") from None


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in fields(kind)}
    return {key: value for key, value in data.items() if key in names}

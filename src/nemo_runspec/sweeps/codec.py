"""A sweep as JSON: strict on what it is, lenient towards what a later version adds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from nemo_runspec.duration import is_moment
from nemo_runspec.records.record import STATES
from nemo_runspec.sweeps.model import SWEEP_SCHEMA, Member, Sweep
from nemo_runspec.typed_json import plain, read_value

_NOT_STORED = ("record", "waits")
"""What a member has while it is looked at alone."""

_KEYS = {"unattended": "alone"}
"""Fields that have another key in the file, as every release has written it."""


def to_json(sweep: Sweep) -> str:
    """The sweep as it is stored: without the records of its members."""
    members = [_without_record(member) for member in sweep.members]
    stored = {_KEYS.get(key, key): value for key, value in plain(dataclasses.replace(sweep, members=())).items()}
    data = {**stored, "members": [_stored(plain(each)) for each in members]}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Sweep:
    """A stored sweep. Keys a later version added are left out.

    Raises:
        ValueError: not a sweep, or one of a later schema; the message is the end of a plain sentence.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it is cut off or damaged" if text.strip() else "it is empty") from None
    if not isinstance(data, dict) or type(data.get("schema")) is not int:
        raise ValueError("it holds something else than a sweep")
    if data["schema"] > SWEEP_SCHEMA:
        later = f"schema {data['schema']}, this one reads {SWEEP_SCHEMA}"
        raise ValueError(f"a later version of nemotron wrote it ({later})")
    data.update({name: data.pop(key) for name, key in _KEYS.items() if key in data})
    members = data.get("members")
    if isinstance(members, list):
        data["members"] = [_stored(each) if isinstance(each, dict) else each for each in members]
    try:
        return _checked(read_value(Sweep, data, "sweep", lenient=True))
    except TypeError as error:
        raise ValueError(f"it is damaged: {error}") from None


def _stored(member: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in member.items() if key not in _NOT_STORED}


def _without_record(member: Member) -> Member:
    was = member.record.state if member.record and member.record.ended else member.was
    return dataclasses.replace(member, record=None, was=was)


def _checked(sweep: Sweep) -> Sweep:
    moments = (sweep.created, *([sweep.ended] if sweep.ended is not None else []))
    for moment in moments:
        if not is_moment(moment):
            raise TypeError(f"{moment!r} is no time with its offset from UTC")
    for state in (sweep.verdict, *(member.was for member in sweep.members)):
        if state and state not in STATES:
            raise TypeError(f"{state!r} is no state of a job")
    return sweep

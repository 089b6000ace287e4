"""Turns what a platform of pods says about a job into messages for `diagnosis`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemo_runspec.backends.provider import Event, Handle
from nemo_runspec.diagnosis.known_errors import KEY, read_known
from nemo_runspec.diagnosis.model import Case, Message, PassedDeadline, Platform
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.pod_marker import read_ends
from nemo_runspec.transport.reading import text

RETRIED = "nemotron jobs retry starts it again, retries in the profile does so by itself"

RETRIED_ELSEWHERE = (
    "nemotron jobs retry starts it again; retries and avoid_failed_nodes in the profile do so by themselves; where it "
    "comes back, "
)

_ABOUT_NODE = re.compile(r"Node[ /](.+)")


def case_of(platform: Platform, handle: Handle, status: JobStatus, log: bytes) -> Case:
    """What is known of a job without asking; the platform's own words are to be added.

    Args:
        log: the end of the logs of its nodes, end markers included; empty where there is none.
    """
    facts = status.facts
    return Case(
        state=status.state,
        platform=platform,
        reason=status.reason,
        deadline=PassedDeadline(facts.waits_for, facts.failed_for) if facts.overdue else None,
        markers=tuple(read_ends(log).values()),
        tail=log,
        known=read_known(handle.get(KEY)),
        machines=tuple(filter(None, facts.nodes.split(","))),
    )


def joined(thing: Any, *keys: str) -> str:
    """`reason: message`, of those of the keys that say something; what is no object is said as it is."""
    if not isinstance(thing, Mapping):
        return text(thing).strip()
    return ": ".join(filter(None, dict.fromkeys(text(thing.get(key)).strip() for key in keys)))


def event_messages(events: Iterable[Event]) -> Iterator[Message]:
    """What was written down, the oldest first."""
    for event in sorted(events, key=lambda each: each.time or 0.0):
        node = _ABOUT_NODE.fullmatch(event.about)
        if words := joined({"reason": event.reason, "message": event.message}, "reason", "message"):
            yield Message(words, node[1] if node else "")

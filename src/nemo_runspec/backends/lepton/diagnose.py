"""Why a Lepton job failed or does not start: its replicas, events and failure analysis, joined with its log's end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nemo_runspec.backends.cloud.lenient_requests import Asking
from nemo_runspec.backends.lepton.api import LeptonApi, section
from nemo_runspec.backends.lepton.replicas import read_event
from nemo_runspec.backends.provider import Handle
from nemo_runspec.diagnosis import engine
from nemo_runspec.diagnosis.causes import POD_KINDS
from nemo_runspec.diagnosis.deadlines import passed
from nemo_runspec.diagnosis.display import lines_of
from nemo_runspec.diagnosis.model import Analysis, Case, Diagnosis, Message, Platform
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.pod_marker import read_ends

_SNIPPETS = 64 << 10
"""Bytes of log snippets that are kept as they came."""

_NODE = (
    "nemotron jobs retry starts it again; retries and avoid_failed_nodes in the profile do so by "
    "themselves; where it comes back, take another node_group, and see mounts"
)

PLATFORM = Platform(
    "Lepton",
    {
        "image": "see container_image in the profile: its name and tag",
        "image login": "see that NGC_KEY is valid (of it the secret for nvcr.io is made), or name a good one in "
        "image_pull_secrets; and that the image's name and tag are right: nemotron doctor PROFILE asks the registry",
        "capacity": "wait, or take another resource_shape or node_group: nemotron lepton shapes, nemotron lepton "
        "node-groups; on_timeout = \"stop\" ends a job that waits for longer than queue_timeout",
        "eviction": "nemotron jobs retry starts it again, retries in the profile does so by itself; a node_group of "
        "one's own is shared with nobody",
        "node": _NODE,
        "storage": "see mounts in the profile: nemotron lepton volumes, nemotron lepton permissions VOLUME",
        "credentials": "see secret_vars and secrets in the profile: nemotron lepton secrets",
    },
    POD_KINDS,
    {"bad GPU": _NODE},
)  # fmt: skip


def diagnose(api: LeptonApi, handle: Handle, seen: JobStatus, log_tail: bytes) -> Diagnosis | None:
    """The verdict on a job; None where nothing is wrong. At most three requests, any of which may fail.

    Args:
        log_tail: the end of the logs of all its nodes, end markers included.
    """
    return engine.diagnose(case_of(api, handle, seen, log_tail))


def case_of(api: LeptonApi, handle: Handle, seen: JobStatus, log_tail: bytes) -> Case:
    """All that Lepton says of a job, joined with what is known already. It may be asked of one that succeeded, too."""
    id, over = str(handle.get("id") or ""), is_over(seen.state)
    asking = Asking()
    replicas = asking.of("replicas", api.replicas, id) if id else []
    events = asking.of("events", api.events, id) if id and seen.state != "running" else []
    analysis = asking.of("failure analysis", api.failure_analysis, id) if id and over else {}
    return Case(
        state=seen.state,
        platform=PLATFORM,
        reason=seen.reason,
        deadline=passed(seen),
        messages=tuple(replica_messages(replicas or (), now=not over)),
        events=tuple(event_messages(events or ())),
        analysis=analysis_of(analysis or {}),
        markers=tuple(read_ends(log_tail).values()),
        tail=log_tail or "\n".join(lines_of((analysis or {}).get("log_streams"))).encode(),
        nodes=int(handle.get("nodes") or 0),
        unasked=tuple(asking.unanswered),
    )


def replica_messages(replicas: Iterable[Mapping[str, Any]], *, now: bool) -> Iterator[Message]:
    """What is wrong with replicas: `status.readiness_issue`, one or several."""
    for replica in replicas:
        status = section(replica, "status")
        node = section(status, "node")
        issues = status.get("readiness_issue")
        for issue in issues if isinstance(issues, list) else [issues]:
            said = _said(issue, "reason", "message")
            if said:
                yield Message(said, str(node.get("name") or node.get("id") or ""), now)


def event_messages(events: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    """What was written down, the oldest first."""
    for event in sorted(events, key=lambda each: read_event(each).time or 0.0):
        about = event.get("regarding")
        node = str(about.get("name") or "") if isinstance(about, Mapping) and about.get("kind") == "Node" else ""
        said = _said(event, "reason", "message", "note")
        if said:
            yield Message(said, node)


def analysis_of(found: Mapping[str, Any]) -> Analysis:
    """Lepton's failure analysis: a class such as ERR_PROGRAM, what to do, and events of the nodes."""
    events = found.get("job_failure_by_node_event")
    words = tuple(
        Message(_said(event, "node_event_name", "message"), _node_of(event))
        for event in (events if isinstance(events, list) else ())
        if isinstance(event, Mapping)
    )
    kind, suggestion = str(found.get("err_class") or ""), str(found.get("suggestion") or "")
    return Analysis(kind, suggestion, words, _bounded(found.get("log_streams")))


def _node_of(event: Mapping[str, Any]) -> str:
    node = event.get("node_name") or event.get("node_id") or event.get("node") or ""
    return str(section(event, "node").get("name") or "") if isinstance(node, Mapping) else str(node)


def _said(thing: Any, *keys: str) -> str:
    """`reason: message`, of what there is of them."""
    if not isinstance(thing, Mapping):
        return str(thing or "").strip()
    return ": ".join(dict.fromkeys(str(thing[key]).strip() for key in keys if thing.get(key)))


def _bounded(streams: Any) -> Any:
    """Log snippets as they came, or the last of their lines where they are too long to be kept in a job's record."""
    if len(json.dumps(streams)) <= _SNIPPETS:
        return streams
    return "\n".join(list(lines_of(streams))[-200:])[-_SNIPPETS:]

"""Why a Lepton job failed or does not start: its replicas, events and failure analysis, joined with its log's end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nemo_runspec.backends.cloud.diagnose import RETRIED, RETRIED_ELSEWHERE, case_of, event_messages, joined
from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.lepton.api import LeptonApi, section
from nemo_runspec.backends.lepton.replicas import events_of
from nemo_runspec.backends.provider import Handle
from nemo_runspec.diagnosis import engine
from nemo_runspec.diagnosis.causes import POD_KINDS
from nemo_runspec.diagnosis.display import lines_of
from nemo_runspec.diagnosis.model import Analysis, Message, Platform
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.reading import tables, text

_SNIPPETS = 64 << 10
"""Bytes of log snippets that are kept as they came."""

_NODE = f"{RETRIED_ELSEWHERE}take another node_group, and see mounts"

PLATFORM = Platform(
    "Lepton",
    {
        "image": "see container_image in the profile: its name and tag",
        "image login": "see that NGC_KEY is valid (of it the secret for nvcr.io is made), or name a good one in "
        "image_pull_secrets; and that the image's name and tag are right: nemotron doctor PROFILE asks the registry",
        "capacity": "wait, or take another resource_shape or node_group: nemotron lepton shapes, nemotron lepton "
        "node-groups; on_timeout = \"stop\" ends a job that waits for longer than queue_timeout",
        "eviction": f"{RETRIED}; a node_group of one's own is shared with nobody",
        "node": _NODE,
        "storage": "see mounts in the profile: nemotron lepton volumes, nemotron lepton permissions VOLUME",
        "credentials": "see secret_vars and secrets in the profile: nemotron lepton secrets",
    },
    POD_KINDS,
    {"bad GPU": _NODE},
)  # fmt: skip


def diagnose(api: LeptonApi, handle: Handle, status: JobStatus, log: bytes) -> Diagnosis | None:
    """The verdict on a job; None where nothing is wrong. At most three requests, any of which may fail.

    Args:
        log: the end of the logs of all its nodes, end markers included.
    """
    id, over = str(handle.get("id") or ""), is_over(status.state)
    requests = OptionalRequests("Lepton", api.web, until_silence=True)
    replicas = requests.rows("replicas", api.replicas, id) if id else []
    events = requests.rows("events", events_of, api, id) if id and status.state != "running" else []
    analysis = requests.ask("failure analysis", api.failure_analysis, id) if id and over else None
    case = case_of(PLATFORM, handle, status, log)
    return engine.diagnose(
        replace(
            case,
            messages=tuple(replica_messages(replicas, now=not over)),
            events=tuple(event_messages(events)),
            analysis=analysis_of(analysis or {}),
            tail=log or "\n".join(lines_of((analysis or {}).get("log_streams"))).encode(),
            nodes=PodHandle(handle).nodes,
            machines=(*case.machines, *filter(None, map(_node_of, replicas))),
            unasked=tuple(requests.unanswered),
        )
    )


def replica_messages(replicas: Iterable[Mapping[str, Any]], *, now: bool) -> Iterator[Message]:
    """What is wrong with replicas: `status.readiness_issue`, one or several."""
    for replica in replicas:
        issues = section(replica, "status").get("readiness_issue")
        for issue in issues if isinstance(issues, list) else [issues]:
            if words := joined(issue, "reason", "message"):
                yield Message(words, _node_of(replica), now)


def analysis_of(found: Mapping[str, Any]) -> Analysis:
    """Lepton's failure analysis: a class such as ERR_PROGRAM, what to do, and events of the nodes."""
    messages = tuple(
        Message(joined(event, "node_event_name", "message"), _node_of_event(event))
        for event in tables(found.get("job_failure_by_node_event"))
    )
    kind, suggestion = text(found.get("err_class")), text(found.get("suggestion"))
    return Analysis(kind, suggestion, messages, _bounded(found.get("log_streams")))


def _node_of(replica: Mapping[str, Any]) -> str:
    node = section(replica, "status", "node")
    return text(node.get("name")) or text(node.get("id"))


def _node_of_event(event: Mapping[str, Any]) -> str:
    named = (event.get("node_name"), event.get("node_id"), event.get("node"), section(event, "node").get("name"))
    return next(filter(None, map(text, named)), "")


def _bounded(streams: Any) -> Any:
    """Log snippets as they came, or the last of their lines where they are too long to be kept in a job's record."""
    if len(json.dumps(streams)) <= _SNIPPETS:
        return streams
    return "\n".join(list(lines_of(streams))[-200:])[-_SNIPPETS:]

"""What run:ai and its cluster say of a job's pods: asked once, for how the job ended as for why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends.cloud.lenient_requests import Asking
from nemo_runspec.backends.cloud.status import JobDetail
from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.backends.dgxcloud.payload import TRAININGS
from nemo_runspec.backends.dgxcloud.pods import namespace_of
from nemo_runspec.backends.provider import Handle
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.reading import table as table
from nemo_runspec.transport.reading import text, whole

_DIGITS = 10
"""Of an exit code: Windows' have so many, nobody's have more."""

_EXITED = re.compile(r"exit(?:ed with)? ?code:? (\d+)", re.IGNORECASE)
"""How events of Kubeflow's operator and of the kubelet name a container's exit code."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers as they came. `pods`: as the cluster describes them, then as run:ai does.

    `unasked`: what was not answered, for a person.
    """

    workload: Row
    pods: tuple[Row, ...] = ()
    events: tuple[Row, ...] = ()
    unasked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadDetail(JobDetail):
    """`JobStatus.detail` of a workload.

    Args:
        evidence: what was asked of its pods already. `uncoded`: nobody names its exit code.
    """

    evidence: Evidence | None = None
    uncoded: bool = False


def detail_of(seen: JobStatus) -> WorkloadDetail:
    """What was read of a job beside its state; nothing of one that was not just asked about."""
    return seen.detail if isinstance(seen.detail, WorkloadDetail) else WorkloadDetail({})


def gather(api: RunaiApi, handle: Handle, seen: JobStatus) -> Evidence:
    """What there is, as it was asked before, else now: at most four requests, any of which may fail."""
    detail = detail_of(seen)
    if detail.evidence is not None:
        return detail.evidence
    id, asking = str(handle.get("id") or ""), Asking()
    if not id:
        return Evidence(dict(detail.row))
    kind = str(handle.get("kind") or TRAININGS)
    workload = dict(detail.row) or asking.of("workload", api.workload, kind, id) or {}
    pods = asking.of("pods", api.pods, id) or []
    told = seen.state != "running" or is_ailing(workload)
    events = (asking.of("events", api.events, id) or []) if told else []
    pods = [*_kube_pods(asking, api, namespace_of(handle, workload), pods), *pods]
    return Evidence(workload, tuple(pods), tuple(events), tuple(asking.unanswered))


def is_ailing(workload: Mapping[str, Any]) -> bool:
    """Whether it runs and run:ai says that not all of it is well."""
    return workload.get("phase") == "Degraded"


def exit_code_of(found: Evidence) -> int | None:
    """The first exit code of a container that is not 0, by its state or an event; None where none is said."""
    states = [state for pod in found.pods for container in containers(pod) for state in states_of(container)]
    codes = [whole(state.get("exitCode")) for state in states]
    said = (exit_code_in(text(event.get("message"))) for event in found.events)
    return next((code for code in (*codes, *said) if code), None)


def exit_code_in(text: str) -> int | None:
    """The exit code that a message names, None where it names none."""
    found = _EXITED.search(text)
    return int(found[1]) if found and len(found[1]) <= _DIGITS else None


def containers(pod: Mapping[str, Any]) -> list[Row]:
    """A pod's containers, in the form of run:ai's API as in that of Kubernetes."""
    status = table(pod.get("status"))
    listed = [status.get("initContainerStatuses"), status.get("containerStatuses"), pod.get("containers")]
    return [each for part in listed if isinstance(part, list) for each in part if isinstance(each, dict)]


def states_of(container: Mapping[str, Any]) -> Iterator[Row]:
    """Each state of a container: Kubernetes nests it, run:ai may not."""
    for key in ("state", "lastState"):
        for state in table(container.get(key)).values():
            if isinstance(state, dict):
                yield state
    if any(key in container for key in ("reason", "exitCode")):
        yield dict(container)


def _kube_pods(asking: Asking, api: RunaiApi, namespace: str, pods: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The same pods as the cluster describes them, where the profile names it: it says why a container ended."""
    names = {text(pod.get("name")) for pod in pods}
    if api.kube is None or not names:
        return []
    found = asking.of("pods in the cluster", api.kube_pods, namespace)
    return [pod for pod in found or () if text(table(pod.get("metadata")).get("name")) in names]

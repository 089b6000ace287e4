"""Facts that run:ai and its cluster report of a job's pods: asked once, for how the job ended as for why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends.cloud.api import JsonTable
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.cloud.status import JobDetail
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.payload import TRAININGS
from nemo_runspec.backends.dgxcloud.pods import namespace_of, newest_events
from nemo_runspec.backends.provider import Event, Handle
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.reading import table, tables, text, whole

_EXITED = re.compile(r"exit(?:ed with)? ?code:? (\d{1,10})(?!\d)", re.IGNORECASE)
"""How events of Kubeflow's operator and of the kubelet name a container's exit code; nobody's has more digits."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers as they came. `pods`: as the cluster describes them, then as run:ai does.

    `unasked`: what was not answered, for a person.
    """

    workload: JsonTable
    pods: tuple[JsonTable, ...] = ()
    events: tuple[Event, ...] = ()
    unasked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadDetail(JobDetail):
    """`JobStatus.detail` of a workload.

    Args:
        evidence: what was asked of its pods already.
        uncoded: nobody names its exit code.
    """

    evidence: Evidence | None = None
    uncoded: bool = False


def detail_of(status: JobStatus) -> WorkloadDetail:
    """What was read of a job beside its state; nothing of one that was not just asked about."""
    return status.detail if isinstance(status.detail, WorkloadDetail) else WorkloadDetail({})


def gather(api: RunaiApi, handle: Handle, status: JobStatus) -> Evidence:
    """What there is, as it was asked before, else now: at most four requests, any of which may fail."""
    detail, id = detail_of(status), str(handle.get("id") or "")
    if detail.evidence is not None or not id:
        return detail.evidence or Evidence(dict(detail.row))
    requests = OptionalRequests("run:ai", api.web, api.kube, until_silence=True)
    kind = str(handle.get("kind") or TRAININGS)
    workload = dict(detail.row) or requests.ask("workload", api.workload, kind, id) or {}
    pods = requests.rows("pods", api.pods, id)
    telling = status.state != "running" or is_ailing(workload)
    events = requests.rows("events", newest_events, api, id) if telling else []
    pods = [*_kube_pods(requests, api, namespace_of(handle, workload), pods), *pods]
    return Evidence(workload, tuple(pods), tuple(events), tuple(requests.unanswered))


def is_ailing(workload: Mapping[str, Any]) -> bool:
    """True if it runs and run:ai says that not all of it is well."""
    return workload.get("phase") == "Degraded"


def exit_code_of(found: Evidence) -> int | None:
    """The first exit code of a container that is not 0, by its state or an event; None where none is said."""
    states = (state for pod in found.pods for container in containers(pod) for state in states_of(container))
    codes = [whole(state.get("exitCode")) for state in states]
    codes += [exit_code_in(event.message) for event in found.events]
    return next(filter(None, codes), None)


def exit_code_in(text: str) -> int | None:
    """The exit code that a message names, None where it names none."""
    found = _EXITED.search(text)
    return int(found[1]) if found else None


def node_of(pod: Mapping[str, Any]) -> str:
    """The machine that a pod is on, '' where that is not said."""
    return text(pod.get("nodeName")) or text(table(pod.get("spec")).get("nodeName"))


def containers(pod: Mapping[str, Any]) -> list[JsonTable]:
    """A pod's containers, in the form of run:ai's API as in that of Kubernetes."""
    status = table(pod.get("status"))
    listed = (status.get("initContainerStatuses"), status.get("containerStatuses"), pod.get("containers"))
    return [container for part in listed for container in tables(part)]


def states_of(container: Mapping[str, Any]) -> Iterator[JsonTable]:
    """Each state of a container: Kubernetes nests it, run:ai may not."""
    for key in ("state", "lastState"):
        yield from tables([*table(container.get(key)).values()])
    if "reason" in container or "exitCode" in container:
        yield dict(container)


def _kube_pods(
    requests: OptionalRequests, api: RunaiApi, namespace: str, pods: Iterable[Mapping[str, Any]]
) -> list[JsonTable]:
    """The same pods as the cluster describes them, where the profile names it: it says why a container ended."""
    names = {text(pod.get("name")) for pod in pods}
    if api.kube is None or not names:
        return []
    found = requests.rows("pods in the cluster", api.kube_pods, namespace)
    return [pod for pod in found if text(table(pod.get("metadata")).get("name")) in names]

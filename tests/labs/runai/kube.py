"""The Kubernetes API server of the cluster: pods of a namespace, and their logs, with the same bearer token.

Source: the Kubernetes API reference (core/v1: PodList, read log). A log is `RFC3339Nano line` with timestamps;
`sinceTime` counts in whole seconds; a container that waits has no log, which is 400.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from labs.pods import Pod
from labs.runai.clock import shifted
from labs.runai.lists import only
from labs.runai.model import LabPod, Workload, iso, labels_of
from labs.web import Answer, Call, HttpError, Request, WebLab, route

if TYPE_CHECKING:
    from labs.runai.server import RunaiLab

_LOG = (
    "container", "follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "tailLines", "timestamps", "pretty",
)  # fmt: skip
_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed"}
_POLL = 0.05


class KubeLab(WebLab):
    """The API server; its faults and calls are its own."""

    def __init__(self, lab: RunaiLab, port: int = 0) -> None:
        self.lab = lab
        super().__init__(port)

    def admit(self, request: Request) -> None:
        """The control plane's token."""
        try:
            self.lab.check_token(request)
        except HttpError:
            raise HttpError(401, "Unauthorized") from None

    def perform(self, request: Request, call: Call) -> Answer:
        """As every server; its clock is the control plane's, in what it is asked as in what it says."""
        skew = self.lab.skew
        if skew and "sinceTime" in request.params:
            request.params = {**request.params, "sinceTime": shifted(request.params["sinceTime"], -skew)}
        answer = super().perform(request, call)
        return replace(answer, body=shifted(answer.body, skew)) if skew else answer

    def refusal(self, error: HttpError) -> Answer:
        """A Status object."""
        reason = _REASONS.get(error.status, "InternalError")
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body = {**status, "message": error.message, "reason": reason, "code": error.status}
        return Answer(error.status, body, error.headers)

    @route("GET", "/api/v1/namespaces/{namespace}/pods")
    def list_pods(self, request: Request) -> Any:
        """Those that match `labelSelector` (`a=b,c=d`)."""
        only(request.params, "labelSelector", "limit")
        wanted = _selector(request.params.get("labelSelector", ""))
        items = []
        for workload, pod in self._pods(request):
            labels = labels_of(workload, pod)
            if all(labels.get(name) == value for name, value in wanted.items()):
                items.append(_pod_json(workload, pod))
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}

    @route("GET", "/api/v1/namespaces/{namespace}/pods/{name}")
    def get_pod(self, request: Request) -> Any:
        """One pod."""
        only(request.params)
        return _pod_json(*self._found(request))

    @route("GET", "/api/v1/namespaces/{namespace}/pods/{name}/log")
    def read_log(self, request: Request) -> Any:
        """What its container has written."""
        params = request.params
        only(params, *_LOG)
        workload, pod = self._found(request)
        if params.get("container", pod.container) != pod.container:
            raise HttpError(400, f"container {params['container']} is not valid for pod {pod.name}")
        process = pod.previous if params.get("previous") == "true" else pod.process
        if process is None:
            why = f"is waiting to start: {pod.waiting[0] or 'ContainerCreating'}"
            raise HttpError(400, f'container "{pod.container}" in pod "{pod.name}" {why}')
        lines = self._lines(workload, process, params)
        return Answer(200, _limited(lines, params), {"Content-Type": "text/plain"})

    @route("GET", "/api/v1/namespaces/{namespace}/events")
    def list_events(self, request: Request) -> Any:
        """Those that match `fieldSelector` (`involvedObject.name=x`)."""
        only(request.params, "fieldSelector", "limit")
        self._check_namespace(request)
        wanted = _selector(request.params.get("fieldSelector", ""))
        items = []
        for workload in list(self.lab.jobs):
            for event in list(workload.events):
                about = {f"involvedObject.{name}": value for name, value in event["involvedObject"].items()}
                if all(about.get(name) == value for name, value in wanted.items()):
                    items.append(_event_json(event))
        return {"kind": "EventList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}

    def _lines(self, workload: Workload, process: Pod, params: Mapping[str, str]) -> Iterator[bytes]:
        stamped = params.get("timestamps") == "true"
        since = _since(params)
        taken, first = 0, True
        while True:
            over = process.state == "exited"
            kept = _kept(workload, list(process.log), over=over)
            fresh = [entry for entry in kept[taken:] if entry[0] >= since]
            taken = len(kept)
            if first and "tailLines" in params:
                count = int(params["tailLines"])
                fresh = fresh[-count:] if count else []
            first = False
            for moment, line in fresh:
                yield (f"{stamp(moment)} ".encode() if stamped else b"") + line + b"\n"
            if over or params.get("follow") != "true":
                return  # not before: a pod is taken away once it has ended, and its last words are still wanted
            time.sleep(_POLL)

    def _pods(self, request: Request) -> Iterator[tuple[Workload, LabPod]]:
        self._check_namespace(request)
        for workload in list(self.lab.jobs):
            yield from ((workload, pod) for pod in list(workload.pods))

    def _check_namespace(self, request: Request) -> None:
        namespace = request.names["namespace"]
        if namespace != f"runai-{self.lab.project}":
            raise HttpError(403, f'User "lab" cannot get resources in the namespace "{namespace}"')

    def _found(self, request: Request) -> tuple[Workload, LabPod]:
        name = request.names["name"]
        for workload, pod in self._pods(request):
            if pod.name == name:
                return workload, pod
        raise HttpError(404, f'pods "{name}" not found')


def stamp(moment: int) -> str:
    """Nanoseconds as RFC 3339."""
    seconds, rest = divmod(moment, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _since(params: Mapping[str, str]) -> int:
    """Nanoseconds; the whole second of `sinceTime`."""
    if "sinceSeconds" in params:
        return (int(time.time()) - int(params["sinceSeconds"])) * 1_000_000_000
    text = params.get("sinceTime")
    if not text:
        return 0
    seconds = text.partition(".")[0].removesuffix("Z")
    try:
        moment = datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        raise HttpError(400, f"sinceTime: {text!r} is no RFC 3339 time") from None
    return int(moment.timestamp()) * 1_000_000_000


def _kept(workload: Workload, log: list[tuple[int, bytes]], *, over: bool) -> list[tuple[int, bytes]]:
    """What Kubernetes has kept of a log: its scenario may have lost some."""
    scenario = workload.scenario
    if scenario is None or scenario.kind != "truncated_log":
        return log
    if lost := int(scenario.get("lost_end", 0)):
        return log[: max(len(log) - lost, 0)]
    return log[-int(scenario.get("lines", 3)) :] if over else log


def _limited(lines: Iterator[bytes], params: Mapping[str, str]) -> Iterator[bytes]:
    left = int(params["limitBytes"]) if "limitBytes" in params else None
    for line in lines:
        if left is None:
            yield line
            continue
        yield line[:left]
        left -= len(line)
        if left <= 0:
            return


def _selector(text: str) -> dict[str, str]:
    found = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.replace("==", "=").partition("=")
        if not equals:
            raise HttpError(400, f"unable to parse requirement: {part}")
        found[name.strip()] = value.strip()
    return found


def _pod_json(workload: Workload, pod: LabPod) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Failed" if pod.status_reason else pod.phase, "startTime": iso(pod.created)}
    if pod.status_reason:
        status["reason"] = pod.status_reason
    container = {
        "name": pod.container,
        "image": pod.image,
        "restartCount": pod.restarts,
        "ready": pod.phase == "Running",
    }
    status["containerStatuses"] = [{**container, "state": _state(pod)}]
    meta = {
        "name": pod.name,
        "namespace": workload.project.namespace,
        "uid": pod.id,
        "labels": labels_of(workload, pod),
    }
    spec = {"nodeName": pod.node, "containers": [{"name": pod.container, "image": pod.image}]}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**meta, "namespace": workload.project.namespace, "creationTimestamp": iso(pod.created)},
        "spec": spec,
        "status": status,
    }


def _event_json(event: Mapping[str, Any]) -> dict[str, Any]:
    about = event["involvedObject"]
    meta = {"name": f"{about['name']}.{event['id'][:8]}", "namespace": about["namespace"], "uid": event["id"]}
    return {
        "kind": "Event",
        "metadata": {**meta, "creationTimestamp": event["createdAt"]},
        "involvedObject": about,
        "type": event["type"],
        "reason": event["reason"],
        "message": event["message"],
        "source": {"component": event["source"]},
        "firstTimestamp": event["createdAt"],
        "lastTimestamp": event["createdAt"],
        "count": 1,
    }


def _state(pod: LabPod) -> dict[str, Any]:
    process = pod.process  # it may be another one the next moment
    if process is None:
        reason, message = pod.waiting
        return {"waiting": {"reason": reason or "ContainerCreating", "message": message}}
    times = {"startedAt": iso(process.started)}
    code = process.exit_code
    if code is None:
        return {"running": times}
    oom = "OOMKilled" if process.oom_killed else ""
    reason = oom or pod.reason or ("Completed" if code == 0 else "Error")
    return {"terminated": {"exitCode": code, "reason": reason, **times, "finishedAt": iso(process.ended)}}

"""The server: what a test reaches it by, and workloads."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labs.runai.assets import Assets
from labs.runai.kube import KubeLab
from labs.runai.life import Life
from labs.runai.lists import listed
from labs.runai.model import OVER, Project, Workload
from labs.runai.schema import MOST_BYTES, check_workload, is_uuid, refused
from labs.runai.views import pod_of, workload_detailed, workload_of_any, workload_of_kind
from labs.web import Answer, HttpError, Request, route

_ACCEPTED = {"code": 202, "message": "Request has been accepted."}
_WORKLOAD_FIELDS = (
    "type", "name", "clusterId", "projectId", "projectName", "departmentId", "departmentName", "createdAt",
    "deletedAt", "submittedBy", "phase", "completedAt", "distributedFramework", "phaseUpdatedAt", "category",
    "priority", "priorityClassName",
)  # fmt: skip
_KIND = "{kind:trainings|distributed|workspaces}"


class RunaiLab(Assets):
    """A run:ai of its own, with its cluster's Kubernetes API server as `kube`. See `Store` for what may be set."""

    def __init__(self, root: Path, port: int = 0, kube_port: int = 0) -> None:
        super().__init__(root, port)
        self.kube = KubeLab(self, kube_port)

    def __enter__(self) -> RunaiLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def base_url(self) -> str:
        """`base_url` of a profile."""
        return f"{self.origin}{self.prefix}"

    @property
    def kube_url(self) -> str:
        """`kube_apiserver_url` of a profile."""
        return self.kube.origin

    def environment(self) -> dict[str, str]:
        """What a program needs in its environment to log in."""
        return {"RUNAI_CLIENT_SECRET": self.client_secret}

    @property
    def jobs(self) -> list[Workload]:
        """The workloads of the lab's project, deleted ones too, oldest first."""
        return [workload for workload in list(self.workloads.values()) if workload.project.name == self.project]

    def workload(self, name: str) -> Workload:
        """The newest workload of this name. Raises: KeyError."""
        for workload in reversed(self.jobs):
            if workload.name == name:
                return workload
        raise KeyError(f"no workload {name}; there are {[workload.name for workload in self.jobs]}")

    def diagnose(self) -> str:
        """What happened, for the report of a test that failed: calls, workloads, events, the ends of logs."""
        parts = [f"{call}" for call in [*self.calls, *self.kube.calls][-60:]]
        for workload in self.jobs:
            parts.append(f"{workload.kind} {workload.name}: {workload.phase} {workload.message}")
            parts += [f"  {event['type']} {event['reason']}: {event['message']}" for event in workload.events[-8:]]
            for pod in [*workload.pods, *workload.removed]:
                parts.append(f"  pod {pod.name} on {pod.node}: {pod.phase}, exit code {pod.exit_code}")
                parts += [f"    {line}" for line in (pod.process.text.splitlines() if pod.process else [])[-25:]]
        return "\n".join(parts)

    def reset(self) -> None:
        """Ends everything that runs, and makes everything as it was at first; claims are new and empty."""
        with self.quiet(), self.kube.quiet():
            self._end_all()
            super().reset()
            self.kube.reset()
            shutil.rmtree(self.root, ignore_errors=True)
            self.set_up()

    def tidy(self) -> None:
        """Raises AssertionError where a call was not documented or a route broke, here or in Kubernetes."""
        super().tidy()
        self.kube.tidy()

    def close(self) -> None:
        """Ends everything."""
        self._end_all()
        self.kube.close()
        super().close()

    def _end_all(self) -> None:
        with self.guard:
            lives = list(self.lives.values())
        for life in lives:
            life.workload.desired = "Deleted"
            life.halt()
        self.pods.close()
        for life in lives:
            life.join()
        self.pods.close()

    # Workloads

    @route("POST", f"/workloads/{_KIND}")
    def create(self, request: Request) -> Any:
        """Takes a workload, which then starts by itself."""
        kind = request.names["kind"]
        if len(request.body) > MOST_BYTES:
            raise HttpError(400, "Bad request - etcdserver: request is too large")
        body = request.json()
        check_workload(kind, body)
        project = self._project(body)
        self._check_claims(body)
        with self.guard:
            name = self._name(body, project)
            made = Workload(kind, name, body, project, self.scenario_for(name))
            self.workloads[made.id] = made
            self.lives[made.id] = Life(self, made)
        return Answer(202, workload_of_kind(made))

    @route("GET", "/workloads")
    def list_workloads(self, request: Request) -> Any:
        """All projects' workloads, those deleted only when asked for."""
        deleted = request.params.get("deleted") == "true"
        found = [
            workload_of_any(item) for item in list(self.workloads.values()) if (item.deleted is not None) == deleted
        ]
        return listed("workloads", found, request.params, fields=_WORKLOAD_FIELDS, known=("deleted",))

    @route("GET", "/workloads/{id}")
    def get_workload(self, request: Request) -> Any:
        """One workload of any kind."""
        return workload_detailed(self._found(request))

    @route("GET", "/workloads/{id}/events")
    def list_events(self, request: Request) -> Any:
        """Newest first."""
        return listed("events", self._found(request).events, request.params, order="desc")

    @route("GET", "/workloads/{id}/history")
    def list_history(self, request: Request) -> Any:
        """Events and changes of phase."""
        return listed("records", self._found(request).history, request.params)

    @route("GET", "/workloads/{id}/pods")
    def list_pods(self, request: Request) -> Any:
        """Its pods; those no longer in Kubernetes with deleted=true."""
        workload = self._found(request)
        pods = workload.removed if request.params.get("deleted") == "true" else workload.pods
        return listed("pods", [pod_of(workload, pod) for pod in pods], request.params, known=("deleted",))

    @route("GET", f"/workloads/{_KIND}/{{id}}")
    def get(self, request: Request) -> Any:
        """One workload of this kind."""
        return workload_of_kind(self._found(request, request.names["kind"]))

    @route("DELETE", f"/workloads/{_KIND}/{{id}}")
    def delete(self, request: Request) -> Any:
        """Ends it and takes it away."""
        workload = self._own(request)
        with self.guard:
            workload.desired, workload.deleted = "Deleted", time.time()
            workload.enter("Deleting")
            if workload.over.is_set():
                workload.removed, workload.pods = [*workload.removed, *workload.pods], []
            self._halt(workload)
        return Answer(202, _ACCEPTED)

    @route("POST", f"/workloads/{_KIND}/{{id}}/suspend")
    def suspend(self, request: Request) -> Any:
        """Ends its pods; nothing happens where it is over."""
        workload = self._own(request)
        with self.guard:
            if workload.phase not in OVER:
                workload.desired = "Stopped"
                workload.enter("Stopping")
                self._halt(workload)
        return Answer(202, _ACCEPTED)

    @route("POST", f"/workloads/{_KIND}/{{id}}/resume")
    def resume(self, request: Request) -> Any:
        """Starts it anew where it was suspended."""
        workload = self._own(request)
        with self.guard:
            if workload.phase == "Stopped":
                workload.desired = "Running"
                workload.enter("Resuming")
                self.lives[workload.id] = Life(self, workload)
        return Answer(202, _ACCEPTED)

    def _halt(self, workload: Workload) -> None:
        life = self.lives.get(workload.id)
        if life:
            life.halt()
        elif workload.desired == "Stopped":  # one that a test has put here
            workload.enter("Stopped")

    def _own(self, request: Request) -> Workload:
        workload = self._found(request, request.names["kind"])
        if workload.project != self.mine:
            raise HttpError(403, "You do not have sufficient permissions.")
        return workload

    def _found(self, request: Request, kind: str | None = None) -> Workload:
        name = request.names["id"]
        if not is_uuid(name):
            raise HttpError(400, f"Bad request - {name!r} is not a UUID")
        workload = self.workloads.get(name)
        if workload is None or workload.deleted is not None or kind not in (None, workload.kind):
            raise HttpError(404, "Resource id not found.")
        return workload

    def _project(self, body: Mapping[str, Any]) -> Project:
        for project in self.projects:
            if project.id == body["projectId"]:
                if project.cluster != body["clusterId"]:
                    raise refused(("clusterId", "is not the cluster of the project"))
                if project.name != self.project:
                    raise HttpError(403, "You do not have sufficient permissions.")
                return project
        raise refused(("projectId", "is unknown"))

    def _check_claims(self, body: Mapping[str, Any]) -> None:
        specs = [body["spec"], body.get("masterSpec") or {}]
        items = [item for spec in specs for item in (spec.get("storage") or {}).get("pvc") or ()]
        for item in items:
            name = item.get("claimName")
            if name in self.claims or item.get("exclude"):
                continue
            if not name:
                raise refused(("spec.storage.pvc.claimName", "is missing, and this server makes up no names"))
            if item.get("existingPvc"):
                raise refused(("spec.storage.pvc.claimName", f"{name} does not exist"))
            if not (item.get("claimInfo") or {}).get("size"):
                raise refused(("spec.storage.pvc.claimInfo.size", f"is mandatory: {name} does not exist"))
            self.claim(name)

    def _name(self, body: Mapping[str, Any], project: Project) -> str:
        name = str(body["name"])
        if body.get("useGivenNameAsPrefix"):
            return f"{name[:46]}-{secrets.token_hex(2)}"
        for other in list(self.workloads.values()):
            if other.name == name and other.project == project and other.deleted is None:
                raise HttpError(409, f"A workload named {name} already exists in project {project.name}")
        return name

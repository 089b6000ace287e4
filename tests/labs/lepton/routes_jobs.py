"""The endpoints of jobs: create, list, get, stop, delete, replicas, events, failure analysis, logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from labs.lepton.base import MODES, LeptonBase
from labs.lepton.job import Job, Replica
from labs.lepton.rules import accept_job, fits
from labs.lepton.views import (
    MOST_LINES,
    archive,
    event_json,
    job_json,
    log_rows,
    replica_json,
    replicas_of,
    shown,
    streams,
)
from labs.web import Answer, HttpError, Request, route

_LIST = ("job_query_mode", "q", "query", "status", "node_groups", "page", "page_size", "created_by")
_LOGS = ("job", "job_history_name", "replica", "start", "end", "timestamps", "direction", "limit", "q")
PAGE = 500


def known(request: Request, *names: str) -> str:
    """The query mode. Raises: HttpError 400 for a parameter or a mode that there is not."""
    for name in request.params:
        if name not in (*names, "job_query_mode"):
            raise HttpError(400, f"unknown parameter {name!r}")
    mode = request.params.get("job_query_mode", "alive_only")
    if mode not in MODES:
        raise HttpError(400, f"job_query_mode: {mode!r} is none of {', '.join(MODES)}")
    return mode


def count(request: Request, name: str, default: int, most: int) -> int:
    """A positive number among the parameters."""
    text = request.params.get(name, str(default))
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise HttpError(400, f"{name}: {text!r} is no number from 1 to {most}")
    return int(text)


class JobRoutes(LeptonBase):
    """See the module."""

    @route("POST", "/jobs")
    def create(self, request: Request) -> Answer:
        """201 with the job, its id the name and a suffix of the server's."""
        known(request)
        body = request.json()
        name = accept_job(request.body, body, self.world)
        return Answer(201, job_json(self.add(body, name), self.workspace, self.skew))

    @route("GET", "/jobs")
    def list_jobs(self, request: Request) -> Any:
        """One page; those after the last are empty."""
        mode = known(request, *_LIST)
        page, size = count(request, "page", 1, 10**6), count(request, "page_size", PAGE, PAGE)
        asked = parse_qs(urlsplit(request.target).query)
        found = [job for job in reversed(self.jobs) if shown(archive(job), mode) and self._matches_query(job, asked)]
        some = found[(page - 1) * size : page * size]
        return {"jobs": [job_json(job, self.workspace, self.skew) for job in some], "total": len(found)}

    def _matches_query(self, job: Job, asked: dict[str, list[str]]) -> bool:
        labels = job.body["metadata"].get("labels", {})
        groups = job.spec.get("affinity", {}).get("allowed_dedicated_node_groups", [])
        wanted = dict(part.partition("=")[::2] for text in asked.get("query", []) for part in text.split(",") if part)
        return (
            all(text in job.id for text in asked.get("q", []))
            and all(labels.get(key) == value for key, value in wanted.items())
            and ("status" not in asked or job.state in asked["status"])
            and ("node_groups" not in asked or bool(set(groups) & set(asked["node_groups"])))
            and all(text == f"lab@{self.workspace}" for text in asked.get("created_by", []))
        )

    @route("GET", "/jobs/{id}")
    def get(self, request: Request) -> Any:
        """A job."""
        return job_json(self._job(request, known(request)), self.workspace, self.skew)

    @route("PATCH", "/jobs/{id}")
    def update(self, request: Request) -> Any:
        """`{"spec": {"stopped": true}}` stops, false starts what was stopped."""
        job = self._job(request, known(request))
        stopped = fits("update", request.json())["spec"]["stopped"]
        life = self.life_of(job)
        if stopped and job.ended is None:
            life.ask("stop")
        if not stopped and job.state == "Stopped":
            job.state, job.ended = "Restarting", None
            life.join()
            life.start()
        return job_json(job, self.workspace, self.skew)

    @route("DELETE", "/jobs/{id}")
    def delete(self, request: Request) -> Any:
        """Ends it where it runs; it is gone when its processes are."""
        job = self._job(request, known(request))
        life = self.life_of(job)
        life.ask("delete")
        if job.ended is not None or life.thread is None or not life.thread.is_alive():
            job.deleted = True
        return {}

    @route("GET", "/jobs/{id}/replicas")
    def replicas(self, request: Request) -> Any:
        """Its replicas; those of earlier attempts only with the archive."""
        mode = known(request)
        job = self._job(request, "alive_and_archive")
        shape = self.world.shape(job.spec["resource_shape"])
        return [replica_json(replica, shape, self.skew) for replica in replicas_of(job, mode)]

    @route("GET", "/jobs/{id}/events")
    def events(self, request: Request) -> Any:
        """What was written down about it."""
        known(request)
        job = self._job(request, "alive_and_archive")
        return [event_json(event, self.workspace, self.skew) for event in list(job.events)]

    @route("GET", "/jobs/{id}/failure-analysis")
    def failure_analysis(self, request: Request) -> Any:
        """404 where nothing has failed, or it is not known why."""
        known(request)
        job = self._job(request, "alive_and_archive")
        if job.analysis is None or job.ended is None:
            raise HttpError(404, "no failure analysis")
        return job.analysis

    @route("GET", "/jobs/{id}/replicas/{replica}/log")
    def live_log(self, request: Request) -> Answer:
        """All of a replica's output so far, then what it writes, until it ends."""
        known(request)
        job = self._job(request, "alive_and_archive")
        found = [each for each in job.replicas if each.id == request.names["replica"]]
        if not found or found[0].pod is None:
            raise HttpError(404, "no such replica, or it has not started")
        return Answer(200, self._follow(found[0]))

    def _follow(self, replica: Replica) -> Iterator[bytes]:
        pod, sent = replica.pod, 0
        while pod is not None:
            over = pod.state == "exited"
            lines = list(pod.log)[sent:]
            sent += len(lines)
            yield b"".join(line + b"\n" for _, line in lines)
            if over:
                return
            self.hold(0.02)

    @route("GET", "/logs")
    def logs(self, request: Request) -> Any:
        """Lines of [start, end) in nanoseconds; without both, the latest."""
        mode = known(request, *_LOGS)
        start, end = self._range(request)
        skew = int(self.skew * 1e9)
        limit = count(request, "limit", 100, MOST_LINES)
        backward = request.params.get("direction", "backward") == "backward"
        if request.params.get("direction", "backward") not in ("backward", "forward"):
            raise HttpError(400, "direction: neither backward nor forward")
        job, names = self._logged(request, mode)
        found = log_rows(
            job,
            names,
            self.log_resolution_ns,
            start - skew,
            end - skew,
            word=request.params.get("q", ""),
            most=limit,
            backward=backward,
        )
        rows = [(time_ns + skew, replica, line) for time_ns, replica, line in found]
        return streams(rows, {"job": job.id, "workspace": self.workspace})

    def _range(self, request: Request) -> tuple[int, int]:
        texts = request.params.get("start"), request.params.get("end")
        if texts == (None, None):
            return 0, 1 << 63
        if not all(text and text.isdigit() and int(text) > 0 for text in texts):
            raise HttpError(400, "start and end: both or neither, nanoseconds since 1970")
        start, end = (int(text or 0) for text in texts)
        if start >= end:
            raise HttpError(400, "start is not before end")
        return start, end

    def _logged(self, request: Request, mode: str) -> tuple[Job, list[str]]:
        """The job asked about, and which of its replicas."""
        attempt = request.params.get("job_history_name")
        id = request.params.get("job")
        for job in self.jobs:
            names = {each.name: [r.id for r in each.everyone] for each in job.attempts}
            if shown(archive(job), mode) and (job.id == id or (attempt in names and id is None)):
                these = names[attempt] if attempt in names else [r.id for r in job.replicas]
                replica = request.params.get("replica")
                return job, [each for each in these if replica in (None, each)]
        raise HttpError(404, f"job {id or attempt!r} not found")

    def _job(self, request: Request, mode: str) -> Job:
        for job in self.jobs:
            if job.id == request.names["id"] and shown(archive(job), mode):
                return job
        raise HttpError(404, f"job {request.names['id']!r} not found")

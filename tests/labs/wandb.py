"""A W&B server on loopback: what the unmodified `wandb` package asks of one as it makes, fills and resumes a run.

GraphQL and file streams as that package sends them (its `core/`, version 0.31). A key is asked for; runs are kept as
they were told, by `ENTITY/PROJECT/ID`.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from labs.cache import CACHE
from labs.web import HttpError, Request, WebLab, route
from nemo_runspec.envs import ensure_env
from nemo_runspec.plans.model import PythonEnv

ENVIRONMENTS = CACHE / "wandb" / "envs"
"""Where the environments with that package are kept for all tests: `$NEMOTRON_HOME/envs` of a home there."""

KEY = "lab" + "k" * 37


@dataclass
class Run:
    """One run. `made`: how often it was told of; `history`: what was logged; `exit_code`: None before its end."""

    id: str
    told: dict[str, Any]
    made: int = 1
    history: list[dict[str, Any]] = field(default_factory=list)
    exit_code: int | None = None

    @property
    def config(self) -> dict[str, Any]:
        """What its configuration is: name → value."""
        found = json.loads(self.told.get("config") or "{}")
        return {name: each.get("value") for name, each in found.items() if isinstance(each, dict)}

    def losses(self) -> list[float]:
        """The losses that were logged, in their order."""
        return [row["loss"] for row in self.history if "loss" in row]


class WandbLab(WebLab):
    """The server; `runs` by `ENTITY/PROJECT/ID`."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.runs: dict[str, Run] = {}
        self.files: dict[str, bytes] = {}
        super().__init__(host=host)

    def reset(self) -> None:
        """As new."""
        super().reset()
        self.runs.clear()
        self.files.clear()

    @route("POST", "/graphql")
    def graphql(self, request: Request) -> Any:
        """One operation; of those that the client can do without, the answer is that nothing is there."""
        self._check_key(request)
        asked = json.loads(_body(request))
        answer = _OPERATIONS.get(asked.get("operationName", ""))
        return {"data": answer(self, asked.get("variables") or {}) if answer else {}}

    @route("POST", "/files/{entity}/{project}/{id}/file_stream")
    def stream(self, request: Request) -> Any:
        """What is logged, and the end."""
        self._check_key(request)
        run = self.runs.get("/".join(request.names[key] for key in ("entity", "project", "id")))
        if run is None:
            raise HttpError(404, "no such run")
        told = json.loads(_body(request))
        history = (told.get("files") or {}).get("wandb-history.jsonl") or {}
        run.history += [json.loads(line) for line in history.get("content", ())]
        if told.get("complete"):
            run.exit_code = told.get("exitcode")
        return {}

    @route("PUT", "/storage/{name:path}")
    def store(self, request: Request) -> Any:
        """A file of a run."""
        self.files[request.names["name"]] = request.body
        return {}

    @route("POST", "/sdk/otel/{kind:path}")
    def telemetry(self, request: Request) -> Any:
        """What the client tells of itself."""
        return {}

    def resume_status(self, asked: Mapping[str, Any]) -> Any:
        """Whether there is such a run already."""
        run = self.runs.get(_key(asked))
        return {"model": {"id": "project", "name": asked["project"], "entity": _entity(asked), "bucket": _known(run)}}

    def upsert(self, asked: Mapping[str, Any]) -> Any:
        """A run made, or told anew."""
        key = _key(asked)
        before = self.runs.get(key)
        told = {name: value for name, value in asked.items() if value is not None}
        if before is None:
            self.runs[key] = Run(asked["name"], told)
        else:
            before.told.update(told)
            before.made += 1
        project = {"id": "project", "name": asked["project"], "entity": _entity(asked)}
        bucket = {"id": "bucket", "name": asked["name"], "displayName": asked.get("displayName"), "config": "{}"}
        more = {"sweepName": None, "historyLineCount": 0, "description": "", "project": project}
        return {"upsertBucket": {"bucket": {**bucket, **more}, "inserted": before is None}}

    def create_files(self, asked: Mapping[str, Any]) -> Any:
        """Where files of a run are to be put."""
        where = f"{self.origin}/storage/{asked['run']}"
        files = [{"name": name, "uploadUrl": f"{where}/{name}"} for name in asked["files"]]
        return {"createRunFiles": {"runID": "bucket", "uploadHeaders": [], "files": files}}

    def _check_key(self, request: Request) -> None:
        wanted = base64.b64encode(f"api:{KEY}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {wanted}":
            raise HttpError(401, "user is not logged in")


def wandb_python(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python that has the package."""
    with monkeypatch.context() as patch:
        patch.setenv("NEMOTRON_HOME", str(ENVIRONMENTS.parent))
        found = ensure_env(PythonEnv(("wandb",)), print)
    assert found is not None
    return found / "python"


_OPERATIONS = {
    "RunResumeStatus": WandbLab.resume_status,
    "UpsertBucket": WandbLab.upsert,
    "CreateRunFiles": WandbLab.create_files,
}


def _key(asked: Mapping[str, Any]) -> str:
    return f"{asked.get('entity') or 'somebody'}/{asked['project']}/{asked['name']}"


def _entity(asked: Mapping[str, Any]) -> dict[str, str]:
    return {"id": "entity", "name": asked.get("entity") or "somebody"}


def _known(run: Run | None) -> Any:
    if run is None:
        return None
    counts = {"logLineCount": 0, "historyLineCount": len(run.history), "eventsLineCount": 0}
    tail = json.dumps([json.dumps(row) for row in run.history[-1:]])
    told = {"displayName": run.told.get("displayName"), "tags": run.told.get("tags"), "notes": None}
    more = {"historyTail": tail, "eventsTail": "[]", "config": "{}", "summaryMetrics": "{}", "wandbConfig": None}
    return {"id": "bucket", "name": run.id, **counts, **told, **more}


def _body(request: Request) -> bytes:
    return gzip.decompress(request.body) if request.headers.get("Content-Encoding") == "gzip" else request.body

"""A W&B server on loopback: what the unmodified `wandb` package asks of one as it makes, fills and resumes a run.

GraphQL and file streams as that package sends them (its `core/`, version 0.31). A key is asked for; runs are kept as
they were told, by `ENTITY/PROJECT/ID`.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from labs.cache import CACHE
from labs.graphql import NoSuchField, answer
from labs.recipe_packages import PYTHON, linked
from labs.wandb_artifacts import KINDS, LabArtifacts
from labs.web import Answer, HttpError, Request, WebLab, route
from nemo_runspec.envs import ensure_env
from nemo_runspec.locks import locked_file
from nemo_runspec.plans.model import PythonEnv
from nemo_runspec.uv_process import find_uv, uv_environment

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
        self.artifacts = LabArtifacts(lambda: self.origin, self.files)
        self.broken: dict[str, int] = {}
        """Operation → the status that it is answered with, in the place of what it asks."""
        super().__init__(host=host)

    def reset(self) -> None:
        """As new."""
        super().reset()
        self.runs.clear()
        self.files.clear()
        self.artifacts.clear()
        self.broken.clear()

    @route("POST", "/graphql")
    def graphql(self, request: Request) -> Any:
        """One operation; of those that the client can do without, the answer is that nothing is there."""
        self._check_key(request)
        asked = json.loads(_body(request))
        name, variables = _operation(asked), asked.get("variables") or {}
        if name in self.broken:
            raise HttpError(self.broken[name], f"{name} is broken")
        known = _OPERATIONS.get(name)
        if known:
            return {"data": known(self, variables)}
        if name in _MISSED:
            return {"data": {}}
        try:
            return {"data": answer(asked["query"], variables, self.artifacts.root(), KINDS)}
        except NoSuchField as error:
            return {"errors": [{"message": f"Cannot answer {name}: {error}"}]}

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

    @route("GET", "/storage/{name:path}")
    def fetch(self, request: Request) -> Any:
        """A manifest, which is fetched by its address alone."""
        return Answer(200, self.files[request.names["name"]])

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


def wandb_packages(folder: Path) -> Path:
    """The package and what it needs, in a folder that a container of `labs.pods` sees; made once for all tests.

    Args:
        folder: on a volume.
    """
    version = subprocess.run([PYTHON, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    kept = CACHE / "wandb" / f"packages-{version}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with locked_file(kept.parent / "packages.lock"):
        if not kept.is_dir():
            made = kept.with_name(f"{kept.name}.new")
            shutil.rmtree(made, ignore_errors=True)
            words = [find_uv(), "pip", "install", "--quiet", "--python", PYTHON, "--target", str(made), "wandb"]
            subprocess.run(words, env=uv_environment(os.environ), check=True)
            made.rename(kept)
    return linked(kept, folder)


_MISSED = frozenset({"OrganizationCoreWeaveOrganizationID"})
"""Operations that the client does without an answer to."""

_OPERATIONS = {
    "RunResumeStatus": WandbLab.resume_status,
    "UpsertBucket": WandbLab.upsert,
    "CreateRunFiles": WandbLab.create_files,
}


def _operation(asked: Mapping[str, Any]) -> str:
    """Its name: the public API says it in the document alone."""
    found = re.search(r"\b(?:query|mutation)\s+(\w+)", asked["query"])
    return str(asked.get("operationName") or (found[1] if found else ""))


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

"""What the control plane knows beside workloads, and what a test sets: claims, secrets, tokens, scenarios, times."""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from labs.pods import Pods
from labs.runai.clock import shifted
from labs.runai.life import Life, Timing
from labs.runai.model import Project, Scenario, Workload, iso
from labs.runai.scenes import KINDS
from labs.web import Answer, Call, HttpError, Request, WebLab

_FOREIGN = 53
"""More projects and workloads than one page holds come before the user's own."""


class Store(WebLab):
    """The server without its routes. `root` is a folder of its own for the claims' files and the pods.

    Attributes:
        claims: name of a persistent volume claim → the directory it is. `data` and `scratch` exist.
        secrets: name of a Kubernetes secret → its keys and values; see `credential`.
        timing: how long phases take.
        token_lifetime: seconds that tokens made from now on are valid.
        spelling: the only one in which a token may be asked for, of `assets.SPELLINGS`; '' for any.
        bad_credentials_status: for a wrong secret; 400 is documented for this path and 401 for version 2 of it.
    """

    prefix = "/api/v1"
    project = "speech-team"
    client_id = "nemotron-lab"

    def __init__(self, root: Path, port: int = 0) -> None:
        self.root = root
        self.client_secret = f"lab-{secrets.token_hex(16)}"
        self.pods = Pods(root / "pods")
        self.cluster_id = str(uuid.uuid4())
        self.workloads: dict[str, Workload] = {}
        self.scenarios: list[Scenario] = []
        self.lives: dict[str, Life] = {}
        self.tokens: dict[str, float] = {}
        self.guard = threading.RLock()
        self.set_up()
        super().__init__(port)

    def scenario(
        self, prefix: str | None = None, kind: str = "", *, times: int | None = 1, **settings: Any
    ) -> Scenario:
        """Makes something happen to the next workload whose name begins so; see `labs.runai.scenes`."""
        assert kind in KINDS, kind
        made = Scenario(kind, prefix, times, settings)
        self.scenarios.append(made)
        return made

    def scenario_for(self, name: str, nodes: list[str] | None = None) -> Scenario | None:
        """The scenario of a new workload, counted down; with `nodes`, one that is bound to one of them."""
        with self.guard:
            for scenario in self.scenarios:
                bound = scenario.get("node", None)
                here = bound is None if nodes is None else bound in nodes
                if here and scenario.times != 0 and name.startswith(scenario.prefix or ""):
                    scenario.times = None if scenario.times is None else scenario.times - 1
                    return scenario
        return None

    def claim(self, name: str) -> Path:
        """The directory of a claim, which is made where it does not exist."""
        folder = self.root / "claims" / f"{name}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
        return self.claims.setdefault(name, folder)

    def credential(self, name: str, values: Mapping[str, str]) -> str:
        """Makes a credential of kind generic secret in the lab's project; the name of its Kubernetes secret."""
        kept = f"genericsecret-{name}"
        self.secrets[kept] = dict(values)
        meta = self.asset(name, "genericSecret")
        spec = {"keyId": 1, "existingSecretName": None}
        self.credentials.append(
            {
                "meta": {**meta, "projectId": int(self.mine.id), "projectName": self.project},
                "spec": spec,
                "clusterInfo": {"resources": [{"name": kept}]},
                "status": {"status": "No issues found"},
            }
        )
        return kept

    def asset(self, name: str, kind: str) -> dict[str, Any]:
        """What every asset has: AssetMeta."""
        now = iso(time.time())
        who = {"createdBy": "lab", "createdAt": now, "updatedBy": "lab", "updatedAt": now}
        return {"id": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "name": name, "kind": kind, "scope": "project", **who}

    def expire_tokens(self) -> None:
        """Makes all tokens invalid that were given so far."""
        self.tokens.clear()

    def set_up(self) -> None:
        """Makes everything as it is at first: claims are new and empty."""
        self.token_lifetime = 3600.0
        self.bad_credentials_status = 401
        self.spelling = ""
        self.timing = Timing()
        self.claims: dict[str, Path] = {}
        self.secrets: dict[str, dict[str, str]] = {}
        self.user_credentials: dict[str, dict[str, str]] = {}
        self.credentials: list[dict[str, Any]] = []
        self.scenarios.clear()
        self.workloads.clear()
        self.lives.clear()
        self.tokens.clear()
        then = time.time() - 86_400
        others = [Project(str(n + 1), f"team-{n:02}", self.cluster_id, then + n) for n in range(_FOREIGN)]
        near = Project(str(_FOREIGN + 1), f"{self.project}-2", self.cluster_id, then + _FOREIGN)
        self.mine = Project(str(_FOREIGN + 2), self.project, self.cluster_id, then + _FOREIGN + 1)
        self.projects = [*others, near, self.mine]
        for number in range(_FOREIGN):
            self._foreign(f"other-{number:02}", near, then + number)
        for name in ("data", "scratch"):
            self.claim(name)

    def _foreign(self, name: str, project: Project, created: float) -> None:
        request = {"name": name, "spec": {"image": "busybox", "command": "true"}}
        made = Workload("trainings", name, request, project, created=created, phase="Completed")
        made.over.set()
        self.workloads[made.id] = made

    # Authentication

    def admit(self, request: Request) -> None:
        """Every call but POST /token needs a bearer token that is valid."""
        if request.path == f"{self.prefix}/token":
            return
        self.check_token(request)

    def perform(self, request: Request, call: Call) -> Answer:
        """As every server; all times are of its own clock."""
        answer = super().perform(request, call)
        return replace(answer, body=shifted(answer.body, self.skew)) if self.skew else answer

    def check_token(self, request: Request) -> None:
        """Raises: HttpError 401, in the words of the OpenAPI document's example."""
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind != "Bearer" or self.tokens.get(token, 0) < time.time():
            raise HttpError(401, "Issuer is not familiar.")

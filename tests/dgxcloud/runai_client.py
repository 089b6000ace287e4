"""A user's program at the run:ai server of the tests, in few words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import requests
from labs.runai import RunaiLab
from labs.runai.model import Workload
from waiting import LONG, until


@dataclass
class Client:
    """Speaks to the server as a user's program does."""

    lab: RunaiLab
    session: requests.Session = field(default_factory=requests.Session)

    def login(self) -> dict[str, Any]:
        body = {
            "grantType": "client_credentials",
            "clientId": self.lab.client_id,
            "clientSecret": self.lab.client_secret,
        }
        answer: dict[str, Any] = self.session.post(f"{self.lab.base_url}/token", json=body).json()
        self.session.headers["Authorization"] = f"Bearer {answer['accessToken']}"
        return answer

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> requests.Response:
        return self.session.request(method, f"{self.lab.base_url}{path}", json=body, params=params)

    def get(self, path: str, **params: Any) -> Any:
        answer = self.call("GET", path, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def request(self, name: str = "job", script: str = "true", **spec: Any) -> dict[str, Any]:
        """What makes a workload that runs a script, with the claim `data` at /data."""
        mine = self.get("/org-unit/projects", filterBy=f"name=={self.lab.project}")["projects"][0]
        claim = {"claimName": "data", "path": "/data", "existingPvc": True}
        usual: dict[str, Any] = {"image": "lab/any", "command": "/bin/bash", "args": '-c "$SCRIPT"', "backoffLimit": 0}
        usual |= {"args": "-c 'eval \"$SCRIPT\"'", "storage": {"pvc": [claim]}}
        usual["environmentVariables"] = [*spec.pop("variables", ()), {"name": "SCRIPT", "value": script}]
        return {"name": name, "projectId": mine["id"], "clusterId": mine["clusterId"], "spec": {**usual, **spec}}

    def start(self, kind: str, body: dict[str, Any]) -> Workload:
        answer = self.call("POST", f"/workloads/{kind}", body)
        assert answer.status_code == 202, answer.text
        return self.lab.workloads[answer.json()["workloadId"]]

    def training(self, script: str, name: str = "job", **spec: Any) -> Workload:
        return self.start("trainings", self.request(name, script, **spec))

    def two_nodes(self, script: str, name: str = "pair", **spec: Any) -> Workload:
        body = self.request(name, script, distributedFramework="PyTorch", numWorkers=1, **spec)
        return self.start("distributed", {**body, "masterSpecSameAsWorker": True})

    def log(self, pod: str, **params: Any) -> requests.Response:
        path = f"/api/v1/namespaces/runai-{self.lab.project}/pods/{pod}/log"
        answer = self.session.get(f"{self.lab.kube_url}{path}", params=params)
        answer.encoding = "utf-8"  # Kubernetes does not name it
        return answer


def ended(workload: Workload) -> str:
    """Its phase once it is over and nothing of it runs."""
    assert workload.over.wait(LONG), f"{workload.phase} {workload.message}"
    return workload.phase


def reached(workload: Workload, phase: str) -> None:
    until(lambda: workload.shown, f"phase {phase}", lambda shown: shown == phase)


def reasons(client: Client, workload: Workload) -> list[str]:
    return [event["reason"] for event in client.get(f"/workloads/{workload.id}/events", sortOrder="asc")["events"]]

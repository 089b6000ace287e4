"""The run:ai server of the tests: it refuses what it should, and its lists have pages."""

from __future__ import annotations

from typing import Any

import pytest
from labs.runai import RunaiLab
from labs.runai.expand import expanded
from runai_client import Client
from waiting import until

# Who may call


def test_authentication_comes_first(runai_lab: RunaiLab) -> None:
    nobody = Client(runai_lab)
    assert nobody.call("GET", "/no/such/path").status_code == 401
    assert nobody.call("POST", "/workloads/trainings", {"nonsense": 1}).status_code == 401
    assert nobody.log("some-pod").status_code == 401
    wrong = {"grantType": "client_credentials", "clientID": runai_lab.client_id, "clientSecret": "wrong"}
    assert nobody.call("POST", "/token", wrong).status_code == 401
    assert not runai_lab.strays


def test_a_token_ends(runai_lab: RunaiLab) -> None:
    client = Client(runai_lab)
    assert client.login()["expiresIn"] == 3600
    assert client.get("/workloads")["workloads"]
    runai_lab.token_lifetime = 0.1
    client.login()
    until(lambda: client.call("GET", "/workloads").status_code, "the token's end", lambda status: status == 401)
    runai_lab.token_lifetime = 3600
    client.login()
    assert client.get("/workloads")["workloads"]


# What it refuses

LONG = "x" * 10_001
WRONG: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a field that is not documented": ("spec.imageName", {"imageName": "x"}, {}),
    "another field below": ("spec.compute.gpus", {"compute": {"gpus": 1}}, {}),
    "a string for a number": ("spec.compute.gpuDevicesRequest", {"compute": {"gpuDevicesRequest": "8"}}, {}),
    "long arguments": ("spec.args", {"args": LONG}, {}),
    "a long value": ("environmentVariables[0].value", {"variables": [{"name": "A", "value": LONG}]}, {}),
    "two sources": (
        "environmentVariables[0]",
        {"variables": [{"name": "A", "value": "x", "secret": {"name": "s", "key": "k"}}]},
        {},
    ),
    "a reference of another platform": (
        "[0].secretRef",
        {"variables": [{"name": "A", "secretRef": {"name": "s"}}]},
        {},
    ),
    "a name that Kubernetes has not": ("name", {}, {"name": "My_Job"}),
    "a long name": ("name", {}, {"name": "x" * 53}),
    "a number for a project": ("projectId", {}, {"projectId": 55}),
    "a project that is not there": ("projectId", {}, {"projectId": "999"}),
    "another cluster": ("clusterId", {}, {"clusterId": "00000000-0000-0000-0000-000000000000"}),
    "a claim that is not there": (
        "storage.pvc.claimName",
        {"storage": {"pvc": [{"claimName": "lost", "path": "/x", "existingPvc": True}]}},
        {},
    ),
    "a new claim without a size": ("claimInfo.size", {"storage": {"pvc": [{"claimName": "lost", "path": "/x"}]}}, {}),
    "a mount beside the root": (
        "storage.pvc[0].path",
        {"storage": {"pvc": [{"claimName": "data", "path": "data"}]}},
        {},
    ),
    "workers of a training": ("spec.numWorkers", {"numWorkers": 2}, {}),
    "a master of a training": ("masterSpecSameAsWorker", {}, {"masterSpecSameAsWorker": True}),
    "no specification": ("spec", {}, {"spec": None}),
}


@pytest.mark.parametrize("case", WRONG)
def test_it_refuses(client: Client, case: str) -> None:
    field_name, spec, outer = WRONG[case]
    answer = client.call("POST", "/workloads/trainings", {**client.request(**spec), **outer})
    assert answer.status_code == 400
    assert any(issue["field"].endswith(field_name) for issue in answer.json()["complianceIssues"]), answer.text
    assert not client.lab.jobs


def test_it_refuses_a_name_twice_and_a_project_of_others(client: Client) -> None:
    client.lab.scenario(None, "nocapacity")
    client.start("workspaces", client.request("twice"))
    assert client.call("POST", "/workloads/trainings", client.request("twice")).status_code == 409
    other = {**client.request("mine"), "projectId": "1"}
    assert client.call("POST", "/workloads/trainings", other).status_code == 403


def test_suspend_is_a_post_and_an_id_has_one_kind(client: Client) -> None:
    client.lab.scenario(None, "nocapacity")
    workload = client.training("true")
    path = f"/workloads/trainings/{workload.id}"
    assert client.call("GET", f"{path}/suspend").status_code == 405
    assert client.call("POST", f"/workloads/distributed/{workload.id}/suspend").status_code == 404
    assert client.call("GET", f"/workloads/workspaces/{workload.id}").status_code == 404
    assert client.call("GET", "/workloads/trainings/job").status_code == 400
    other = client.get("/workloads", filterBy="name==other-00")["workloads"][0]["id"]
    assert client.call("POST", f"/workloads/trainings/{other}/suspend").status_code == 403
    assert client.call("GET", f"{path}/logs").status_code == 404
    assert [str(call).partition("?")[0].split()[-1] for call in client.lab.strays] == ["405", "404"]
    client.lab.strays.clear()


def test_lists_have_pages_and_filters(client: Client) -> None:
    lab = client.lab
    lab.scenario(None, "nocapacity")
    workload = client.start("workspaces", client.request("listed"))
    first = client.get("/org-unit/projects")
    assert len(first["projects"]) == 50 and lab.project not in [project["name"] for project in first["projects"]]
    rest = client.get("/org-unit/projects", offset=first["next"])
    assert rest["projects"][-1]["name"] == lab.project and "next" not in rest
    found = client.get("/workloads", filterBy=f"name==listed,projectName=={lab.project}")
    assert [item["id"] for item in found["workloads"]] == [workload.id] and "next" not in found
    assert len(client.get("/workloads", limit=5, filterBy="name=^other-")["workloads"]) == 5
    for wrong in ({"limit": 501}, {"limit": 0}, {"offset": -1}, {"filterBy": "colour==red"}, {"page": 2}):
        assert client.call("GET", "/workloads", **wrong).status_code == 400


def test_credentials_and_claims_are_listed_without_values(client: Client) -> None:
    secret = client.lab.credential("hub", {"HF_TOKEN": "hf-secret-value"})
    for path in ("/asset/credentials", "/asset/credentials/generic-secret"):
        answer = client.call("GET", path, name="hub")
        assert "hf-secret-value" not in answer.text
        assert [item["clusterInfo"]["resources"][0]["name"] for item in answer.json()["entries"]] == [secret]
    claims = client.get("/asset/datasource/pvc")["entries"]
    assert {item["spec"]["claimName"] for item in claims} == {"data", "scratch"}


def test_words_are_expanded_as_in_kubernetes() -> None:
    known = {"NAME": "value"}
    assert expanded("$(NAME) $NAME ${NAME} $(OTHER) $$(NAME) $$ $((1+1)) $( $(NAME", known) == (
        "value $NAME ${NAME} $(OTHER) $(NAME) $ $((1+1)) $( $(NAME"
    )

"""`nemotron doctor PROFILE` on the run:ai lab: what is wrong is named, each with its mend; and the fast part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cloud_plans import plan_of
from labs.registry import RegistryLab
from labs.runai.server import RunaiLab
from support import Outcome, Project, call

from nemo_runspec.backends.dgxcloud.api import RunaiApi, connect
from nemo_runspec.backends.dgxcloud.preflight import fast_checks, quota_of

GOOD: dict[str, Any] = {
    "nodes": 2, "gpus_per_node": 8, "pvc_nemo_run_dir": "/data/run", "project_name": RunaiLab.project,
    "client_id": RunaiLab.client_id, "pvcs": [{"claimName": "data", "path": "/data"}],
}  # fmt: skip

Doctor = Callable[..., Outcome]


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryLab]:
    lab = RegistryLab()
    yield lab
    lab.close()


@pytest.fixture
def values(runai_lab: RunaiLab, registry: RegistryLab) -> dict[str, Any]:
    """A good profile."""
    where = {"base_url": runai_lab.base_url, "client_secret": runai_lab.client_secret}
    return {"executor": "dgxcloud", "container_image": f"{registry.name}/open/image:1", **where, **GOOD}


@pytest.fixture
def doctor(values: dict[str, Any], project: Project) -> Doctor:
    """`doctor(nodes=9)`: the doctor's word on a profile that is good but for what is given, as JSON."""

    def ask(**keys: Any) -> Outcome:
        lines = [f"{key} = {toml(value)}" for key, value in {**values, **keys}.items() if value is not None]
        project.write("env.toml", "\n".join(("[c]", *lines, "")))
        return call("doctor", "c", "--json")

    return ask


@pytest.fixture
def api(runai_lab: RunaiLab) -> RunaiApi:
    handle = {"base_url": runai_lab.base_url, "client_id": runai_lab.client_id}
    return connect(handle, {"client_secret": runai_lab.client_secret})


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml(each)}' for key, each in value.items())} }}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def filled(value: Any, registry: RegistryLab) -> Any:
    return value.format(registry=registry.name) if isinstance(value, str) else value


def says(told: Outcome, name: str, verdict: str, *words: str) -> None:
    """Asserts a check of that name and verdict whose text has all the words."""
    found = [check for check in told.json["checks"] if check["name"] == name and check["verdict"] == verdict]
    texts = [" ".join(str(text) for text in check.values()) for check in found]
    assert any(all(word in text for word in words) for text in texts), told.out


def test_a_good_profile(doctor: Doctor, runai_lab: RunaiLab):
    runai_lab.credential("hf", {"HF_TOKEN": "x"})
    told = doctor(kube_apiserver_url=runai_lab.kube_url, secret_vars={"HF_TOKEN": "hf/HF_TOKEN"})
    assert told.code == 0, told.out
    assert "failed" not in {check["verdict"] for check in told.json["checks"]}
    for name, words in {
        "credentials": ("accepted",), "run:ai": ("answers",), "project": (RunaiLab.project,), "pvcs": ("data: listed",),
        "pvc_nemo_run_dir": ("/data/run",), "secret_vars": ("hf: there",), "cluster": ("shows the pods",),
        "image": ("has",), "code": ("inline",),
    }.items():  # fmt: skip
        says(told, name, "ok", *words)
    says(told, "room", "skipped", "does not say")
    assert {call.method for call in runai_lab.calls if not call.path.endswith("/token")} == {"GET"}
    assert len(runai_lab.calls) <= 6
    assert runai_lab.client_secret not in told.out


@pytest.mark.parametrize(
    ("keys", "check", "words"),
    [
        ({"client_secret": "wrong"}, "credentials", ("does not accept",)),
        ({"base_url": "http://{registry}/api/v1"}, "run:ai", ("no run:ai API at base_url",)),
        ({"project_name": "speech"}, "project", ("no project 'speech'", RunaiLab.project)),
        ({"secret_vars": {"HF_TOKEN": "hf/TOKEN"}}, "secret_vars", ("no credential of run:ai hf", "make it in run:ai")),
        ({"pvcs": [{"claimName": "date", "path": "/data"}]}, "pvcs", ("has no claim date", "data, scratch")),
        ({"container_image": "{registry}/open/image:2"}, "image", ("no 127.0.0.1", "its name or its tag")),
        ({"inputs": {"/data/x": "s3://b/x"}}, "S3", ("no ACCESS_KEY and SECRET_KEY",)),
        ({"outputs": ["/out"], "output_url": "dgxcloud://b/x"}, "values", ("dgxcloud://b/x", "s3://b/x")),
        ({"pvc_nemo_run_dir": "/elsewhere"}, "profile", ("is on none of pvcs",)),
        ({"code_transport": "s3"}, "code", ("no code_url",)),
    ],
)
def test_what_fails(doctor: Doctor, registry: RegistryLab, keys: dict[str, Any], check: str, words: tuple[str, ...]):
    told = doctor(
        **{
            key: value.format(registry=registry.name) if isinstance(value, str) else value
            for key, value in keys.items()
        }
    )
    says(told, check, "failed", *words)
    assert told.code == 2
    assert "Traceback" not in told.err


@pytest.mark.slow
def test_what_is_odd(doctor: Doctor, runai_lab: RunaiLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nemo_runspec.backends.dgxcloud.api._KUBE_PATIENCE", 0.5)
    runai_lab.claims.clear()
    told = doctor(kube_apiserver_url="http://127.0.0.1:1")
    says(told, "pvcs", "warning", "lists no claim data, nor any other")
    says(told, "cluster", "warning", "does not answer")
    runai_lab.fault("GET /asset/datasource/pvc", "403", times=None)
    says(doctor(), "pvcs", "skipped", "not known")


def test_no_client_secret(doctor: Doctor, runai_lab: RunaiLab):
    told = doctor(client_secret="")
    says(told, "credentials", "failed", "client secret")
    assert runai_lab.calls == []


def test_a_platform_that_does_not_answer(doctor: Doctor, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nemo_runspec.backends.cloud.preflight.checks.PATIENCE", 0.5)
    told = doctor(base_url="http://127.0.0.1:1/api/v1")
    says(told, "run:ai", "failed", "does not answer as it should")


def test_an_address_that_is_another_platform(doctor: Doctor, runai_lab: RunaiLab):
    runai_lab.fault("*", "404", times=None)
    told = doctor()
    says(told, "run:ai", "failed", "404")
    says(told, "the rest of run:ai", "skipped", "not checked")


POOL = {"gpu": {"deserved": 16, "limit": 24}}
USED = {"quotaStatus": {"allocated": {"gpu": 8.0}}}


@pytest.mark.parametrize(
    ("project", "quota"),
    [
        ({"resources": [POOL, POOL], "status": USED}, (32, 48, 8)),
        ({"resources": [POOL, {"gpu": {"deserved": 1, "limit": -1}}]}, (17, None, 0)),
        ({"resources": [{"gpu": {"deserved": 4, "limit": None}}], "status": {"quotaStatus": {}}}, (4, None, 0)),
        ({"status": {}}, (None, None, 0)),
    ],
)
def test_quotas(project: dict[str, Any], quota: tuple[float | None, float | None, float]):
    assert quota_of(project) == quota


def test_before_a_submission(api: RunaiApi, values: dict[str, Any]):
    """Few questions, and only what is wrong is said."""
    plan = plan_of("dgxcloud", values)
    project = {**api.project(RunaiLab.project), "resources": [POOL], "status": USED}
    api.claims()
    before = api.web.calls
    (room,) = fast_checks(api, plan, project)
    assert (room.verdict, "16 GPUs wanted; the project has 16, of which 8 are in use" in room.seen) == ("warning", True)
    assert api.web.calls == before + 1  # the claims
    (much,) = fast_checks(api, plan_of("dgxcloud", {**values, "nodes": 4}), project)
    assert much.verdict == "failed"
    (claim,) = fast_checks(
        api,
        plan_of("dgxcloud", {**values, "gpus_per_node": 0, "pvcs": [{"claimName": "nope", "path": "/data"}]}),
        project,
    )
    assert (claim.verdict, "no claim nope; it has: data, scratch" in claim.error().what) == ("failed", True)
    (data,) = fast_checks(api, plan_of("dgxcloud", {**values, "gpus_per_node": 0}, {"path": "runai://b/x"}), project)
    assert data.remedy == "write s3://b/x"

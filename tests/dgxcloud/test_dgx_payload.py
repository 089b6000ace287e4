"""What a profile makes of a workload, without anybody being asked; and where its client secret is found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Project

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.cloud.pod.program import boot_program, node_program
from nemo_runspec.backends.cloud.request import UPLOAD
from nemo_runspec.backends.dgxcloud import credentials
from nemo_runspec.backends.dgxcloud.client import DgxCloudProvider
from nemo_runspec.backends.dgxcloud.credentials import client_secret
from nemo_runspec.backends.dgxcloud.fields import _SHORTEST_ARGS, DgxCloudTarget, claim_of
from nemo_runspec.backends.dgxcloud.payload import base_spec, claim_entry
from nemo_runspec.backends.dgxcloud.resubmit import avoid_nodes
from nemo_runspec.backends.provider import Policy
from nemo_runspec.errors import UserError
from nemo_runspec.placeholders import Placeholder, fill
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.records.lifecycle import Attempt, Deadlines

CLAIM = {"claimName": "data", "path": "/data"}


def target(**env: Any) -> DgxCloudTarget:
    merged = {field.name: field.default for field in fields_of("dgxcloud").fields.values()} | env
    made: DgxCloudTarget = get_backend("dgxcloud").make_target(TargetRequest("job", "run", "", "direct", merged))
    return made


def test_too_short_arguments_are_refused():
    assert target(max_args_chars=_SHORTEST_ARGS).max_args_chars == _SHORTEST_ARGS
    assert len(boot_program(node_program("dgxcloud"))) <= _SHORTEST_ARGS
    with pytest.raises(UserError, match="max_args_chars: 1000 characters do not hold what a pod begins with"):
        target(max_args_chars=1000)


def test_one_node_is_a_training_and_several_have_a_master():
    usual = {"image": "i", "gpus": 8, "pvcs": [CLAIM], "framework": "PyTorch", "variables": []}
    one, four = (base_spec(nodes=nodes, **usual) for nodes in (1, 4))
    assert "numWorkers" not in one
    assert (four["numWorkers"], four["distributedFramework"]) == (3, "PyTorch")
    assert one["backoffLimit"] == 0
    assert one["compute"] == {"gpuDevicesRequest": 8, "largeShmRequest": True}


@pytest.mark.parametrize(
    ("claim", "entry"),
    [
        (CLAIM, {**CLAIM, "existingPvc": True, "readOnly": False}),
        ({"name": "data", "path": "/d", "readOnly": True},
         {"claimName": "data", "path": "/d", "existingPvc": True, "readOnly": True}),
        ({**CLAIM, "claimInfo": {"size": "1Ti"}},
         {**CLAIM, "claimInfo": {"size": "1Ti"}, "existingPvc": False, "readOnly": False}),
    ],
)  # fmt: skip
def test_claims_in_the_words_of_the_api(claim: dict[str, Any], entry: dict[str, Any]):
    """A claim that is not said to exist is made anew, also where its name is misspelt."""
    assert claim_entry(claim) == entry


def test_a_custom_spec_is_merged_and_every_replaced_key_named():
    spec = {"compute": {"a": 1, "b": 2}, "image": "i", "environmentVariables": [{"name": "X", "value": "1"}, UPLOAD]}
    more = {
        "compute": {"b": 3, "c": 4}, "image": "i", "nodePools": ["p"],
        "environmentVariables": [{"name": "Y", "value": "2"}, {"name": "X", "value": "3"}],
    }  # fmt: skip
    merged = target(custom_spec=more).merged(spec)
    assert merged.spec == {
        "compute": {"a": 1, "b": 3, "c": 4}, "image": "i", "nodePools": ["p"],
        "environmentVariables": [{"name": "X", "value": "3"}, UPLOAD, {"name": "Y", "value": "2"}],
    }  # fmt: skip
    assert merged.replaced == ("compute.b", "environmentVariables.X")


def test_only_holes_are_filled():
    tree = {"a": Placeholder("UPLOAD"), "b": ["UPLOAD", Placeholder("UPLOAD")], "c": {"d": Placeholder("OTHER")}}
    assert fill(tree, {UPLOAD: [1, 2]}) == {"a": [1, 2], "b": ["UPLOAD", 1, 2], "c": {"d": "OTHER"}}


def test_other_nodes_are_avoided_in_every_alternative():
    spec: dict[str, Any] = {}
    avoid_nodes(spec, ["n1"])
    rule = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1"]}
    assert spec["nodeAffinityRequired"] == {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    avoid_nodes(spec, ["n2"])
    (term,) = spec["nodeAffinityRequired"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [rule, {**rule, "values": ["n2"]}]


@pytest.mark.parametrize(
    ("env", "wrong"),
    [
        ({"secret_vars": {"HF_TOKEN": "hub"}}, "does not say which key"),
        ({"secret_vars": {"HF_TOKEN": "/x"}}, "does not say which key"),
        ({"custom_spec": {"environmentVariables": [{"name": "WANDB_API_KEY", "value": "x"}]}}, "holds a secret"),
        ({"queue_timeout": "soon"}, "queue_timeout"),
        ({"stall_timeout": "0s"}, "stall_timeout"),
        ({"base_url": "https://x\n"}, "line break"),
    ],
)
def test_wrong_profiles_are_refused_with_the_mend(env: dict[str, Any], wrong: str):
    with pytest.raises(UserError, match=wrong) as caught:
        target(**env)
    assert caught.value.remedy


def test_the_directory_for_jobs_must_lie_where_it_can_be_written():
    home = {"pvc_nemo_run_dir": "/data/run"}
    assert "on none of pvcs" in target(**home).unfilled[0]
    assert "which is readOnly" in target(**home, pvcs=[{**CLAIM, "readOnly": True}]).unfilled[0]
    inner = {"name": "inner", "path": "/data/run", "readOnly": True}
    assert "inner, which is readOnly" in target(**home, pvcs=[CLAIM, inner]).unfilled[0]
    good = target(**home, pvcs=[CLAIM])
    assert (good.unfilled, good.shared) == ((), True)
    assert claim_of([CLAIM], "/database/run") is None


def test_in_the_cluster_the_claim_is_seen_as_pods_see_it():
    home = {"pvc_nemo_run_dir": "/data/run", "pvcs": [CLAIM], "launched_from_cluster": True}
    assert target(**home).run_dir_here == "/data/run"
    assert target(**home, run_dir_here="/mnt/x").run_dir_here == "/mnt/x"


class TestClientSecret:
    """Where it is looked for: a submission's, the profile's, the environment's."""

    PROFILE = (
        '[dgx]\nexecutor = "dgxcloud"\nbase_url = "https://x/api/v1"\nclient_id = "{id}"\nclient_secret = "{secret}"\n'
    )

    @pytest.fixture(autouse=True)
    def fresh(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(credentials, "_GIVEN", {})

    def handle(self, file: Path | None) -> dict[str, Any]:
        profile = {"profile": "dgx", "env_file": str(file)} if file else {}
        return {"base_url": "https://x/api/v1/", "client_id": "me", **profile}

    def test_a_submissions_own_serves_this_process(self, project: Project):
        assert client_secret(self.handle(None), {"client_secret": "given"}) == "given"
        assert client_secret(self.handle(None)) == "given"

    def test_the_profile_has_it_again(self, project: Project, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("MINE", "of-the-profile")
        file = project.write("env.toml", self.PROFILE.format(id="me", secret="${oc.env:MINE}"))
        assert client_secret(self.handle(file)) == "of-the-profile"

    def test_the_environment_is_the_last_resort(self, project: Project, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("RUNAI_CLIENT_SECRET", "by-its-earlier-name")
        assert client_secret(self.handle(None)) == "by-its-earlier-name"
        monkeypatch.setenv(credentials.VARIABLE, "of-the-environment")
        assert client_secret(self.handle(None)) == "of-the-environment"

    def test_a_new_profile_refers_to_the_variable_that_is_the_last_resort(self):
        assert credentials.VARIABLE in get_backend("dgxcloud").load_setup().options["client_secret_variable"]

    def test_another_applications_secret_is_not_handed_out(self, project: Project, monkeypatch: pytest.MonkeyPatch):
        """Nor where the environment has it under the name that profiles have."""
        monkeypatch.setenv(credentials.VARIABLE, "hidden-0123")
        file = project.write("env.toml", self.PROFILE.format(id="other", secret=f"${{oc.env:{credentials.VARIABLE}}}"))
        with pytest.raises(UserError, match="names another application by now") as caught:
            client_secret(self.handle(file))
        assert f"export {credentials.VARIABLE}=" in str(caught.value.remedy)
        assert "hidden-0123" not in str(caught.value)
        monkeypatch.setenv(credentials.VARIABLE, "mine")
        assert client_secret({**self.handle(file), "profile": "gone"}) == "mine"

    def test_a_profile_that_is_gone_is_named(self, project: Project):
        with pytest.raises(UserError, match="is not at hand"):
            client_secret(self.handle(project.folder / "gone.toml"))


def test_a_handle_is_plain_json_without_a_secret(project: Project, monkeypatch: pytest.MonkeyPatch):
    from nemo_runspec import plan
    from nemo_runspec.backends.dgxcloud.prepare import place_of

    text = (
        TestClientSecret.PROFILE.format(id="me", secret="hidden-0123") + 'project_name = "p"\ncontainer_image = "i"\n'
    )
    project.write("env.toml", f'{text}pvc_nemo_run_dir = "/data/run"\npvcs = [{{ name = "data", path = "/data" }}]\n')
    project.write("train.py", "pass\n")
    made = plan("./train.py", profile="dgx")
    handle = json.loads(json.dumps(place_of(made)))
    assert "hidden-0123" not in json.dumps(handle)
    assert (handle["kind"], handle["attempt"], handle["here"]) == ("trainings", 0, "")
    policy = DgxCloudProvider().policy(made)
    assert policy == Policy(Attempt(1), Deadlines(queue=900, pull=3600, start=900, action=""))

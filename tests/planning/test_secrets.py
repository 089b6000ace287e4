"""Secrets stay out of a plan: they travel by reference, and a plan that would write one down is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from support import ENV_TOML

import nemo_runspec
from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import plan_from_json, plan_to_json
from nemo_runspec.planning.missing_values import refuse_unfilled

SECRET = "s3cr3t-Value-0815"


@pytest.fixture
def plan(project):
    project.recipe("mine/train", default="value: one\ntoken: null\n")

    def make(*overrides, profile="my-cluster", env_toml=ENV_TOML, args=(), yaml=None):
        project.write("env.toml", env_toml)
        if yaml is not None:
            project.recipe("mine/train", default=yaml)
        return nemo_runspec.plan("mine/train", profile=profile, overrides=overrides, args=args)

    return make


def references(made):
    return {secret.name: secret.origin for secret in made.secrets}


def test_where_the_user_is_logged_in(plan, project, monkeypatch):
    (project.home / ".netrc").write_text(f"machine api.wandb.ai login user password {SECRET}1\n")
    (project.home / ".netrc").chmod(0o600)
    token = project.home / ".cache" / "huggingface" / "token"
    token.parent.mkdir(parents=True)
    token.write_text(f"{SECRET}2")
    made = plan()
    assert references(made) == {"WANDB_API_KEY": "netrc", "HF_TOKEN": "token-file"}
    assert SECRET not in plan_to_json(made)
    monkeypatch.setenv("WANDB_API_KEY", f"{SECRET}3")
    monkeypatch.setenv("HF_TOKEN", f"{SECRET}4")
    made = plan()
    assert references(made) == {"WANDB_API_KEY": "environment", "HF_TOKEN": "environment"}
    assert SECRET not in plan_to_json(made)


def test_secrets_a_profile_lists(plan, monkeypatch):
    listed = ENV_TOML.replace('partition = "batch"', 'partition = "batch"\nsecrets = ["MY_OWN", "OTHER"]')
    monkeypatch.setenv("MY_OWN", SECRET)
    made = plan(env_toml=listed)
    assert references(made) == {"MY_OWN": "environment"}
    assert any("secret OTHER was not found" in line for line in made.unfilled)
    with pytest.raises(UserError) as refused:
        refuse_unfilled(replace(made, unfilled=tuple(line for line in made.unfilled if "OTHER" in line)))
    assert "fix: export OTHER=" in str(refused.value)
    assert "env.toml" not in str(refused.value)
    assert SECRET not in plan_to_json(made)


def test_a_saved_plan_knows_which_secret_is_missing(plan):
    """Whatever the line says; a plan that release 0.1.0 has saved has the line alone."""
    made = plan(env_toml=ENV_TOML.replace('partition = "batch"', 'partition = "batch"\nsecrets = ["OTHER"]'))
    data = json.loads(plan_to_json(made).replace("was not found", "is nowhere"))
    earlier = json.loads(plan_to_json(made))
    del earlier["missing_secrets"]
    for saved in (data, earlier):
        read = plan_from_json(json.dumps(saved), "plan.json")
        (line,) = [line for line in read.unfilled if "OTHER" in line]
        with pytest.raises(UserError, match=r"fix: export OTHER="):
            refuse_unfilled(replace(read, unfilled=(line,)))


def test_env_vars_with_a_secrets_name_are_taken_out(plan):
    text = ENV_TOML.replace("[my-cluster.env_vars]", f'[my-cluster.env_vars]\nHF_TOKEN = "{SECRET}"\nMAX_TOKENS = "7"')
    made = plan(env_toml=text)
    assert references(made) == {"HF_TOKEN": "profile"}
    assert made.run["env"]["env_vars"] == {"HF_TOKEN": "******", "MAX_TOKENS": "7", "NCCL_DEBUG": "WARN"}
    assert "HF_TOKEN" not in {v.name for v in made.env}
    assert SECRET not in plan_to_json(made)


def test_a_secret_on_the_command_line_is_an_override(plan):
    made = plan(f"+run.env.env_vars.HF_TOKEN={SECRET}")
    assert references(made) == {"HF_TOKEN": "override"}
    assert SECRET not in plan_to_json(made)


def test_the_secret_of_a_platform(plan, monkeypatch):
    monkeypatch.setenv("DGX_CLIENT_SECRET", SECRET)
    made = plan(profile="runai")
    assert references(made)["client_secret"] == "profile"
    assert made.run["env"]["client_secret"] == "******"
    assert SECRET not in plan_to_json(made)


@pytest.mark.parametrize(
    "placement", ["config", "args", "startup_commands", "env_vars", "yaml", "name", "mounts", "run"]
)
def test_a_value_that_would_be_written_down_is_refused(plan, monkeypatch, placement):
    monkeypatch.setenv("HF_TOKEN", SECRET)
    options = {
        "config": {"overrides": [f"value=x{SECRET}x"]},
        "args": {"args": [f"--name={SECRET}"]},
        "startup_commands": {"overrides": [f"run.env.startup_commands=['login {SECRET}']"]},
        "env_vars": {"overrides": [f"run.env.env_vars.PLAIN={SECRET}"]},
        "yaml": {"yaml": f"value: [{SECRET}]\n"},
        "name": {"overrides": [f"run.wandb.name={SECRET}"]},
        "mounts": {"overrides": [f"run.env.mounts=['/{SECRET}:/x']"]},
        "run": {"overrides": [f"+run.anything={SECRET}"]},
    }[placement]
    overrides = options.pop("overrides", [])
    with pytest.raises(UserError) as caught:
        plan(*overrides, **options)
    assert SECRET not in str(caught.value)
    assert "HF_TOKEN" in caught.value.what
    assert 'secrets = ["NAME"]' in caught.value.remedy


def test_a_secret_named_in_a_config_is_refused(plan):
    with pytest.raises(UserError, match="api_key") as caught:
        plan(yaml=f"logger:\n  api_key: {SECRET}\n")
    assert SECRET not in str(caught.value)
    assert "default.yaml:2" in caught.value.where


@pytest.mark.parametrize(
    "yaml", ["list:\n  - api_key: {}\n", "run:\n  logger:\n    password: {}\n", "a: {{hf_token: {}}}\n"]
)
def test_a_secret_named_anywhere_is_refused(plan, yaml):
    for value in (SECRET, "4711"):
        with pytest.raises(UserError, match="a secret does not belong in a config") as caught:
            plan(yaml=yaml.format(value))
        assert value not in str(caught.value)
    assert plan(yaml=yaml.format("null"))


@pytest.mark.parametrize(
    "args",
    [
        ["--hf-token={}"], ["--api-key", "{}"], ["WANDB_API_KEY={}"], ["--token", "{}"], ["--db=postgres://me:{}@db/x"],
        ["--url", "https://b.s3/x?X-Amz-Signature={}"], ["--header", "Authorization: Bearer {}"],
    ],
)  # fmt: skip
def test_a_secret_in_an_argument_goes_by_reference(plan, args):
    made = plan(args=["--seed", "3", *(word.format(SECRET) for word in args)])
    assert made.launch.args == ("--seed", "3", *(word.format("******") for word in args))
    assert references(made) == {"NEMOTRON_ARG_1": "override"}
    assert SECRET not in plan_to_json(made)
    assert plan(args=["--tokenizer=x", "--max-tokens", "3"]).launch.secret_args == ()


def test_a_secret_in_an_argument_has_no_way_to_runai(plan):
    made = plan(profile="runai", args=["--token", SECRET])
    assert [line for line in made.unfilled if "a secret among the arguments after -- cannot travel to run:ai" in line]
    assert SECRET not in plan_to_json(made)


def test_several_secrets_in_arguments(plan):
    made = plan(args=["--a-token=one-secret", "x", "postgres://u:two-secret@h --b-token=three-secret"])
    assert made.launch.secret_args == ("NEMOTRON_ARG_1", "NEMOTRON_ARG_2", "NEMOTRON_ARG_3")
    with pytest.raises(UserError, match="stands for a secret that is not shown"):
        plan(args=["--a-token=one-secret", "******"])


SECRETS_AROUND = ["AWS_SECRET_ACCESS_KEY", "COHERE_API_KEY", "PGPASSWORD", "VAULT_TOKEN", "MY_PRIVATE_KEY", "TOKEN"]


@pytest.mark.parametrize("name", SECRETS_AROUND)
@pytest.mark.parametrize("way", ["override", "argument", "startup", "encoded"])
def test_no_secret_of_the_environment_is_written_down(plan, monkeypatch, name, way):
    """What a plan takes from the environment by the name of a secret is refused, listed or not."""
    monkeypatch.setenv(name, SECRET)
    options = {
        "override": {"overrides": [f"value=${{oc.env:{name}}}"]},
        "argument": {"args": [f"value-{SECRET}"]},
        "startup": {"overrides": [f"run.env.startup_commands=['login {SECRET}']"]},
        "encoded": {"yaml": f"value: {base64.b64encode(f'me:{SECRET}'.encode()).decode()}\n"},
    }[way]
    overrides = options.pop("overrides", [])
    with pytest.raises(UserError, match=f"secret {name} would be written down") as caught:
        plan(*overrides, **options)
    assert SECRET not in str(caught.value)
    assert plan("value=other")


def test_an_ordinary_word_in_a_secret_of_the_environment_refuses_nothing(plan, monkeypatch, tmp_path):
    monkeypatch.setenv("SOME_PASSWORD", "postgres")
    monkeypatch.setenv("OTHER_KEY", "banana")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path))
    assert plan("value=banana-postgres").config["value"] == "banana-postgres"
    assert plan(f"value={tmp_path}/x")


def test_a_secret_that_stands_in_the_profile_is_told(plan, monkeypatch):
    others = 'USE_TOKEN = "abc"\nHF_HUB_DISABLE_IMPLICIT_TOKEN = "1"\nEMPTY_TOKEN = ""'
    variables = f'[my-cluster.env_vars]\nMY_PASSWORD = "{SECRET}"\n{others}'
    text = ENV_TOML.replace("[my-cluster.env_vars]", variables)
    made = plan(env_toml=text)
    assert references(made) == {"MY_PASSWORD": "profile", "USE_TOKEN": "profile"}
    plain = {variable.name: variable.value for variable in made.env}
    assert plain["HF_HUB_DISABLE_IMPLICIT_TOKEN"] == "1"
    assert "EMPTY_TOKEN" not in plain
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "MY_PASSWORD" in row)
    told = [warning for warning in made.warnings if "MY_PASSWORD" in warning]
    assert [f"env.toml:{line}" in warning and "it travels as a secret" in warning for warning in told] == [True]
    assert SECRET not in plan_to_json(made)
    assert [warning for warning in made.warnings if warning.startswith("weak secret USE_TOKEN:")]
    monkeypatch.setenv("ELSEWHERE", SECRET)
    taken = text.replace(f'"{SECRET}"', '"${oc.env:ELSEWHERE}"')
    assert not [warning for warning in plan(env_toml=taken).warnings if "MY_PASSWORD" in warning]


ADDRESS = f"postgres://me:{SECRET}@db/x"


@pytest.mark.parametrize("profile", ["my-cluster", "lepton", "laptop", "box"])
def test_an_address_with_a_password_in_it_is_a_secret_whatever_the_variable_is_called(plan, profile):
    made = plan(f"+run.env.env_vars.DATABASE_URL='{ADDRESS}'", profile=profile)
    assert references(made) == {"DATABASE_URL": "override"}
    assert SECRET not in plan_to_json(made)
    assert ["travels as a secret" in w for w in made.warnings if "DATABASE_URL stands as text" in w] == [True]
    plain = plan("+run.env.env_vars.DATABASE_URL='postgres://me:$PW@db/x'", profile=profile)
    assert references(plain) == {}, "a reference is none"


def test_an_address_with_a_password_in_it_is_not_taken_from_the_environment(plan, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", ADDRESS)
    with pytest.raises(UserError, match="secret DATABASE_URL would be written down"):
        plan("value=${oc.env:DATABASE_URL}")


def test_an_address_with_a_password_in_it_has_no_way_to_runai(plan):
    made = plan(f"+run.env.env_vars.DATABASE_URL='{ADDRESS}'", profile="runai")
    lines = [line for line in made.unfilled if "DATABASE_URL" in line]
    assert ["DATABASE_URL cannot travel to run:ai" in line for line in lines] == [True]
    assert SECRET not in plan_to_json(made)


def test_the_place_of_a_wrong_variable_is_that_of_the_variable(plan):
    text = ENV_TOML.replace("[my-cluster.env_vars]", "[my-cluster.env_vars]\nOTHER = 1")
    for profile in ("my-cluster", "laptop"):
        with pytest.raises(UserError, match="A is a list") as caught:
            plan("run.env.env_vars={A: [1]}", profile=profile, env_toml=text)
        assert caught.value.where == "command line"


def test_a_secret_variable_on_the_command_line_is_told(plan):
    made = plan(f"+run.env.env_vars.MY_PASSWORD={SECRET}")
    assert ["command line" in w for w in made.warnings if "MY_PASSWORD stands as text" in w] == [True]


@pytest.mark.parametrize("name", ["tokenizer", "max_tokens", "calculate_per_token_loss", "token_type", "secretary"])
def test_names_that_only_contain_a_secrets_name(plan, name):
    assert plan(yaml=f"{name}: readable\n").config[name] == "readable"


def test_a_short_value_does_not_block_everything(plan, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "a")
    assert plan("value=banana").config["value"] == "banana"


def test_the_environment_of_another_machine_is_not_filled_in(plan, monkeypatch):
    """HF_HOME of the submitting machine says nothing about the cluster's."""
    monkeypatch.setenv("HF_HOME", "/home/me/hf")
    remote = {v.name: v.value for v in plan().env}
    assert remote["HF_HOME"] != "/home/me/hf"
    assert "HF_HOME" not in {v.name for v in plan(profile="laptop").env}

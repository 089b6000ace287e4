"""A backend brings everything that names it: the rest asks it, and knows no executor and no key of one by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from job_scripts import plan_for
from support import Outcome, Project, call, enter

from nemo_runspec import backends
from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.cloud.preflight import storage
from nemo_runspec.backends.setup import Setup
from nemo_runspec.catalog import find_recipe
from nemo_runspec.field import carried_values, key, keys_of, plain, text
from nemo_runspec.pipelines.lead import is_platform_ordered
from nemo_runspec.planning import container_build
from nemo_runspec.plans.model import Plan, Resources
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.common import adopt
from nemo_runspec.profiles.fieldset import fields_of, owners_of
from nemo_runspec.profiles.profile import Profile
from nemo_runspec.runner import inputs
from nemo_runspec.runner.retry import enter_directory
from nemo_runspec.topics import SIZE
from nemotron.cli.commands import init
from nemotron.cli.commands.jobs import complete
from nemotron.cli.commands.steps.examples import examples

SCRIPT = """
# /// script
# [tool.runspec]
# schema = "1"
# name = "mine"
# [tool.runspec.resources]
# gpus_per_node = 0
# ///
"""


@dataclass(frozen=True)
class GuestTarget(Target):
    """A job of a backend of somebody else's, whose keys are called as no other's, or as a cloud's."""

    nodes: int = key(adopt("nodes"))
    prologue: str = plain("str", "Shell text before the job.", default="", topic="Guests", verbatim=True)
    label: str = text("What it is called.", unset="")
    chips: int = plain("count", "GPUs.", default=0, topic=SIZE, asks_gpus=True)
    attempt_limit: int = plain("count", "How often.", default=1, topic=SIZE, of_one_job=True)
    site: str = text("Where.", unset="", in_help=True)
    scratch: str = text("A folder here.", unset="", of_here=True)
    many: str = text("Several tasks.", unset="")
    secret_vars: Mapping[str, str] = plain("table[str]", "Variable = its place.", keeps_secrets=True)
    inputs: Mapping[str, str] = plain("table[str]", "Files of our own.")
    store_urls: tuple[str, ...] = plain("list[str]", "Data on S3.", default=[], on_s3=True)

    array_key = "many"

    def gpus(self, resources: Resources) -> int:
        """As `Target.gpus`."""
        return self.chips


class GuestProvider:
    """Where a job of a plan would be."""

    def make_handle(self, plan: Plan) -> dict[str, Any]:
        return {"site": plan.target.site}

    def endpoint(self, handle: dict[str, Any]) -> str:
        return str(handle["site"])


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Its module, whose `BACKEND` a test may replace before it is asked for."""
    module = ModuleType("guest_backend")
    module.GuestTarget, module.GuestProvider = GuestTarget, GuestProvider
    module.make_target = lambda request: GuestTarget(**carried_values(GuestTarget, request.env))
    module.SETUP = Setup(ask=lambda _: {}, title="Guests", found=lambda: "here", preferred=True, profile="home")
    module.BACKEND = Backend(
        "guest", True, keys_of(GuestTarget), "guest_backend:make_target", "guest_backend:GuestTarget",
        render="nemo_runspec.backends.local.render:render", provider="guest_backend:GuestProvider",
        setup="guest_backend:SETUP", after="guest_backend:later", builds=True, other_names=("visitor",),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "guest_backend", module)
    monkeypatch.setitem(backends.BUILTIN, "guest", "guest_backend")
    caches = (backends.get_backend, fields_of, owners_of, storage._platforms)
    for cached in caches:
        cached.cache_clear()
    yield module
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def planned(guest: ModuleType, project: Project, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`planned("keys of its profile", overrides…)`: the dry run of a script that takes no GPU."""
    enter(project, monkeypatch)
    project.write("train.py", SCRIPT)

    def plan(keys: str, *overrides: str) -> Outcome:
        project.write("env.toml", f'[g]\nexecutor = "guest"\n{keys}\n')
        return call("run", "./train.py", "--run", "g", "--dry-run", "--json", *overrides)

    return plan


def test_its_keys_are_listed_by_topic_a_topic_of_its_own_after_all_others(guest: ModuleType):
    found = {each["name"]: each["topic"] for each in call("env", "fields", "guest", "--json").json}
    assert (found["chips"], found["prologue"], found["label"]) == (SIZE, "Guests", "Other")
    topics = list(dict.fromkeys(found.values()))
    assert topics[-2:] == ["Guests", "Other"]


def test_shell_text_of_its_own_holds_no_placeholder(planned: Any):
    values = 'prologue = "sort <in >out; echo $MY_VAR"\nlabel = "<your name>"'
    (said,) = [line for line in planned(values).json["plan"]["unfilled"] if "placeholder" in line]
    assert said.startswith("label is still a placeholder")


def test_it_says_which_secrets_its_platform_keeps_and_what_needs_keys_of_s3(planned: Any):
    own = 'secret_vars = { WANDB_API_KEY = "vault" }\ninputs = { "/data" = "/other" }'
    plan = planned(own).json["plan"]
    assert (plan["unfilled"], plan["secrets"]) == ([], [])
    said = " ".join(planned('store_urls = ["s3://b/x"]').json["plan"]["unfilled"])
    assert " ACCESS_KEY " in said and " SECRET_KEY " in said
    twice = f'{own}\nenv_vars = {{ WANDB_API_KEY = "x" }}'
    planned(twice).refuses("secret_vars: the platform is to set WANDB_API_KEY, and so does")


def test_gpus_that_nobody_uses_are_named_by_its_own_key(planned: Any):
    (warning,) = [line for line in planned("chips = 4").json["plan"]["warnings"] if "GPU" in line]
    assert warning.startswith("4 GPUs would be taken for a recipe that uses none (env.toml:3")


def test_a_folder_of_this_machine_is_meant_where_its_key_says_so(planned: Any, project: Project):
    folder = project.folder / "x"
    warnings = planned(f'scratch = "{folder}"\nlabel = "{folder}"\non_end = "{folder}/tell"').json["plan"]["warnings"]
    assert [line.split()[0] for line in warnings if "of this machine" in line] == ["run.env.label"]


@pytest.mark.parametrize(("executor", "kept"), [("guest", ["site"]), ("slurm", ["partition"])])
def test_what_is_meant_for_one_job_is_not_carried_to_those_that_make_its_inputs(guest, tmp_path, executor, kept):
    mine = {"guest": ["attempt_limit=3", "site=x"], "slurm": ["array=0-3", "dependencies=[1]", "partition=x"]}
    given = ["nodes=2", "ntasks_per_node=2", "max_parallel=4", "sweep_metric=loss", *mine[executor]]
    if executor == "guest":
        given.remove("ntasks_per_node=2")
    plan = replace(plan_for(tmp_path, executor=executor), overrides=tuple(f"run.env.{each}" for each in given))
    assert [text.removeprefix("run.env.").partition("=")[0] for text in inputs._carried(plan)] == kept


def test_an_array_of_the_users_own_registers_nothing_with_wandb(guest: ModuleType, monkeypatch: pytest.MonkeyPatch):
    from nemo_runspec.artifacts import wandb

    for name in ("_is_named", "run_id", "versions_of"):
        monkeypatch.setattr(wandb, name, lambda _: True)
    plans = [SimpleNamespace(run={"env": {"many": many}}, target=GuestTarget()) for many in ("0-3", None)]
    assert [wandb.registers(plan) for plan in plans] == [False, True]


def test_a_platform_is_told_apart_by_its_endpoint(guest: ModuleType, tmp_path: Path):
    """And not by the name of a key: two sites of one executor are two places."""
    plan = replace(plan_for(tmp_path, executor="guest"), run={"env": {}, "artifacts": {"root": "/s"}})
    one, other = (replace(plan, target=GuestTarget(site=site)) for site in ("one", "other"))
    assert [is_platform_ordered([one, each]) for each in (one, other)] == [True, False]


def test_addresses_by_the_name_of_a_platform_are_no_addresses_of_data(guest: ModuleType):
    config = {name: f"{name}://bucket/x" for name in ("guest", "visitor", "s3", "docker", "runai")}
    said = [check.seen.partition(":")[0] for check in storage.address_checks(config)]
    assert said == ["guest", "visitor", "runai"]


def test_where_jobs_are_meant_to_go_is_what_a_setup_says(guest: ModuleType):
    here = Setup(ask=lambda _: {}, title="This machine", found=lambda: "here")
    away = replace(guest.SETUP, found=lambda: "")
    assert init._where({"local": here, "guest": guest.SETUP}).default == "guest"
    assert init._where({"local": here, "guest": away}).default == "local"


def test_builders_are_named(guest: ModuleType):
    assert container_build._builders() == 'executor = "slurm" or "guest"'


@pytest.mark.parametrize(("executor", "offered"), [("guest", True), ("slurm", True), ("local", False), ("gone", False)])
def test_events_are_of_jobs_elsewhere(guest: ModuleType, executor: str, offered: bool):
    assert complete._elsewhere(SimpleNamespace(executor=executor)) is offered


def test_events_are_not_of_a_worker_of_another_package(guest: ModuleType):
    guest.BACKEND = replace(guest.BACKEND, remote=False)
    assert not complete._elsewhere(SimpleNamespace(executor="guest"))


@pytest.mark.parametrize("identity", [None, "nemo_runspec.script.node_identity:PROCESS"])
def test_a_job_that_sees_this_machine_runs_again_where_it_was_called(guest, tmp_path, monkeypatch, identity):
    guest.BACKEND = replace(guest.BACKEND, node_identity=identity)
    monkeypatch.chdir(Path(__file__).parent)
    enter_directory(SimpleNamespace(cwd=str(tmp_path)), plan_for(tmp_path, executor="guest"))
    assert (Path.cwd() == tmp_path) is (identity is not None)


def test_a_step_has_an_example_where_there_is_a_profile_for_it(
    guest: ModuleType, project: Project, monkeypatch: pytest.MonkeyPatch
):
    enter(project, monkeypatch)
    project.write("env.toml", '[guest_sft_automodel]\nexecutor = "guest"\n')
    found = examples(find_recipe("steps/sft/automodel"))
    assert [line for line in found.lines if "guest" in line] == [f"{found.lines[0]} -r guest_sft_automodel"]
    assert "guest" not in found.missing


def test_the_help_of_a_recipe_shows_its_keys(guest: ModuleType, project: Project, monkeypatch: pytest.MonkeyPatch):
    enter(project, monkeypatch, COLUMNS="100")
    project.write("env.toml", '[g]\nexecutor = "guest"\n')
    out = call("nano3", "pretrain", "--help").out
    assert "site" in out
    assert "chips" not in out


def test_help_words_are_true_of_every_executor():
    """By default a repository is shipped by those that say so, and by no other."""
    shipping = {name for name in backends.BUILTIN if "default git" in fields_of(name).fields["packager"].help}
    assert shipping == {name for name in backends.BUILTIN if backends.get_backend(name).ships_repository}


def test_unfilled_profiles_know_it_too(guest: ModuleType, tmp_path: Path):
    profile = Profile("g", tmp_path, "env.toml", ("g",), "guest", {"prologue": "a <in >b", "label": "MY_NAME"}, {})
    assert [line.key for line in profile.unfilled()] == ["label"]

"""The layers of a plan's `run` section: defaults, header, YAML, profile, command line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import HEADER

import nemo_runspec
from nemo_runspec.errors import UserError
from nemo_runspec.planning import section_checks

SLURM = '[base]\nexecutor = "slurm"\n'


@pytest.fixture
def plan(project):
    """Plans the recipe `mine/train` with this YAML, profile and command line."""

    def make(yaml: str = "value: 1\n", profile: str = SLURM, *overrides: str, header: str = HEADER, name: str = "base"):
        project.recipe("mine/train", header=header, default=yaml)
        project.write("env.toml", profile)
        return nemo_runspec.plan("mine/train", profile=name, overrides=overrides)

    return make


def env(plan: Any) -> dict[str, Any]:
    return plan.run["env"]


def test_a_field_of_the_executor_always_exists(plan):
    found = env(plan())
    assert {"nodes", "partition", "time", "mounts", "exclusive", "env_vars"} <= set(found)
    assert (found["nodes"], found["time"], found["partition"]) == (1, "04:00:00", None)
    assert "resource_shape" not in found


def test_header_then_yaml_then_profile_then_command_line(plan):
    header = HEADER[: HEADER.rindex("# ///")] + "# [tool.runspec.resources]\n# nodes = 2\n# ///\n"
    yaml = "run:\n  env:\n    nodes: 3\n"
    profile = SLURM + "nodes = 4\n"
    seen = [
        env(plan("value: 1\n", SLURM))["nodes"],
        env(plan("value: 1\n", SLURM, header=header))["nodes"],
        env(plan(yaml, SLURM, header=header))["nodes"],
        env(plan(yaml, profile, header=header))["nodes"],
        env(plan(yaml, profile, "run.env.nodes=5", header=header))["nodes"],
    ]
    assert seen == [1, 2, 3, 4, 5]


def test_the_profile_wins_over_the_yaml_whole(plan):
    made = plan("run:\n  env:\n    startup_commands: [a, b]\n", SLURM + 'startup_commands = ["c"]\n')
    assert env(made)["startup_commands"] == ["c"]


def test_aliases_of_yaml_profile_and_command_line_are_one_key(plan):
    yaml = "run:\n  env:\n    ntasks_per_node: 1\n    container: one\n"
    profile = SLURM + 'nprocs_per_node = 2\ncontainer_image = "two"\n'
    made = plan(yaml, profile)
    assert (env(made)["nproc_per_node"], env(made)["container_image"]) == (2, "two")
    made = plan(yaml, profile, "run.env.ntasks_per_node=3", "run.env.container=three")
    assert (env(made)["nproc_per_node"], env(made)["container_image"]) == (3, "three")
    assert "ntasks_per_node" not in env(made)


def test_two_spellings_in_the_yaml(plan):
    with pytest.raises(UserError, match="another spelling") as caught:
        plan("run:\n  env:\n    container: a\n    container_image: b\n")
    assert "config/default.yaml:4" in caught.value.where


def test_env_vars_join_key_by_key(plan):
    yaml = "run:\n  env:\n    env_vars: {ONE: yaml, TWO: yaml}\n"
    made = plan(yaml, SLURM + '[base.env_vars]\nTWO = "profile"\nTHREE = "profile"\n', "run.env.env_vars.FOUR=cli")
    assert env(made)["env_vars"] == {"ONE": "yaml", "TWO": "profile", "THREE": "profile", "FOUR": "cli"}
    sources = {key: made.sources[f"run.env.env_vars.{key}"].layer.value for key in ("ONE", "TWO", "THREE", "FOUR")}
    assert sources == {"ONE": "yaml", "TWO": "profile", "THREE": "profile", "FOUR": "cli"}


def test_mounts_join_without_duplicates(plan):
    yaml = 'run:\n  env:\n    mounts: ["/a:/a", "/b:/b"]\n'
    made = plan(yaml, SLURM + 'mounts = ["/b:/b", "/c:/c"]\n')
    assert env(made)["mounts"] == ["/a:/a", "/b:/b", "/c:/c"]
    assert env(plan(yaml, SLURM + 'mounts = ["/c:/c"]\n', "run.env.mounts=[]"))["mounts"] == []


def test_fields_of_other_executors_in_the_yaml_are_ignored(plan):
    made = plan("run:\n  env:\n    resource_shape: x\n    pvcs: []\n    nodes: 2\n")
    assert env(made)["nodes"] == 2
    assert "resource_shape" not in env(made)


def test_unknown_keys_of_the_yaml_come_all_at_once(plan):
    with pytest.raises(UserError) as caught:
        plan("run:\n  env:\n    nods: 2\n    acount: x\n")
    assert "did you mean 'nodes'?" in str(caught.value)
    assert "did you mean 'account'?" in str(caught.value)
    assert "config/default.yaml:4" in str(caught.value)


def test_a_wrong_type_in_the_yaml_has_its_place(plan):
    with pytest.raises(UserError, match="nodes must be a whole number") as caught:
        plan("run:\n  env:\n    nodes: four\n")
    assert "config/default.yaml:3" in caught.value.where


def test_a_wrong_type_on_the_command_line(plan):
    with pytest.raises(UserError, match="nodes must be a whole number") as caught:
        plan("value: 1\n", SLURM, "run.env.nodes=four")
    assert caught.value.where == "command line"


def test_a_value_is_looked_at_again_only_where_it_refers_to_something(plan, monkeypatch):
    """It may be another once artifacts have their places."""
    looked = []
    see = section_checks.type_problem
    monkeypatch.setattr(section_checks, "type_problem", lambda key, *more: looked.append(key) or see(key, *more))
    yaml = "run:\n  env:\n    comment: made in ${run.output_dir}\n    mem: '200'\n    env_vars: {A: x}\n"
    made = plan(yaml, SLURM, "run.env.cpus_per_task=${run.env.nodes}", "run.output_dir=/out")
    assert {key for key in looked if looked.count(key) > 1} == {"comment", "cpus_per_task"}
    assert set(looked) == env(made).keys()
    assert [env(made)[key] for key in ("comment", "mem", "cpus_per_task")] == ["made in /out", 200, 1]


def test_what_refers_to_a_wrong_type_is_refused(plan):
    with pytest.raises(UserError, match="nodes must be a whole number, 1 or more, not 'four'"):
        plan("value: four\n", SLURM, "run.env.nodes=${value}")
    with pytest.raises(UserError, match="cpus_per_task must be a whole number"):
        plan("value: 1\n", SLURM, "run.env.cpus_per_task=${run.output_dir}")


def test_a_section_that_refers_as_a_whole(plan):
    assert env(plan("other: {executor: slurm, nodes: 2}\n", SLURM, "run.env=${other}"))["nodes"] == 2


WANDB = '[wandb]\nproject = "from-env"\nentity = "team"\n' + SLURM


def test_wandb_is_laid_over_the_yaml_key_by_key(plan):
    yaml = "run:\n  wandb:\n    project: from-yaml\n    group: mine\nname: ${run.wandb.project}/${run.wandb.group}\n"
    made = plan(yaml, WANDB)
    assert {k: v for k, v in made.run["wandb"].items() if v} == {
        "project": "from-env",
        "entity": "team",
        "group": "mine",
    }
    assert made.config["name"] == "from-env/mine"
    assert plan(yaml, SLURM).config["name"] == "from-yaml/mine"
    assert plan(yaml, WANDB, "run.wandb.project=cli").config["name"] == "cli/mine"
    assert made.sources["run.wandb.project"].place().endswith("env.toml:2 [wandb]")
    assert "config/default.yaml:4" in made.sources["run.wandb.group"].place()


def test_wandb_reaches_the_environment(plan):
    variables = {v.name: v.value for v in plan("value: 1\n", WANDB).env}
    assert (variables["WANDB_PROJECT"], variables["WANDB_ENTITY"]) == ("from-env", "team")
    assert variables["WANDB_JOB_TYPE"] == "mine-train"
    assert not [name for name in {v.name for v in plan("value: 1\n", SLURM).env} if name.startswith("WANDB")]


def test_the_artifact_store(plan):
    assert plan("value: 1\n", SLURM).run["artifacts"]["backend"] == "file"
    assert plan("value: 1\n", WANDB).run["artifacts"]["backend"] == "file"
    both = '[artifacts]\nbackend = "file"\nroot = "/store"\n' + WANDB
    assert plan("value: 1\n", both).run["artifacts"] == {
        **dict.fromkeys(("endpoint", "region", "check")),
        "backend": "file",
        "root": "/store",
    }


def test_job_variables_resolve_in_the_config(plan, monkeypatch):
    monkeypatch.setenv("HERE", "process")
    yaml = (
        "a: ${oc.env:HERE}\nb: ${oc.env:MINE}\nc: ${oc.env:GONE,other}\nd: ${oc.env:GONE,null}\n"
        "e: ${oc.env:NEMO_RUN_DIR}\nf: ${run.env.nodes}\ng: ${oc.env:HF_HOME}\n"
    )
    made = plan(yaml, SLURM + 'remote_job_dir = "/lustre/me"\n[base.env_vars]\nMINE = "profile"\n')
    assert made.config == {
        "a": "process", "b": "profile", "c": "other", "d": None, "e": "/lustre/me", "f": 1, "g": "/lustre/me/hf",
    }  # fmt: skip


def test_a_variable_that_is_missing_in_the_config(plan):
    with pytest.raises(UserError, match="GONE is not set") as caught:
        plan("a:\n  b: ${oc.env:GONE}\n", SLURM)
    assert "a.b" in caught.value.what
    assert "config/default.yaml:2" in caught.value.where


def test_text_of_a_profile_is_no_interpolation(plan):
    text = SLURM + 'setup_lines = "echo ${HOME} ${x:-y} $((1+1))"\nstartup_commands = ["echo ${run.env.nodes}"]\n'
    made = plan("value: 1\n", text)
    assert env(made)["setup_lines"] == "echo ${HOME} ${x:-y} $((1+1))"
    assert env(made)["startup_commands"] == ["echo ${run.env.nodes}"]


COUNTS = st.one_of(st.none(), st.integers(1, 9))


@pytest.mark.slow
@given(yaml=COUNTS, parent=COUNTS, profile=COUNTS, argv=COUNTS, spellings=st.tuples(*[st.sampled_from(
    ["nproc_per_node", "ntasks_per_node", "nprocs_per_node"])] * 4))  # fmt: skip
@settings(max_examples=60)
def test_the_strongest_layer_that_says_anything_wins(plan, yaml, parent, profile, argv, spellings):
    text = f"run:\n  env:\n    {spellings[0]}: {yaml}\n" if yaml else "value: 1\n"
    sections = SLURM + (f"{spellings[1]} = {parent}\n" if parent else "") + '[child]\nextends = "base"\n'
    sections += f"{spellings[2]} = {profile}\n" if profile else ""
    overrides = [f"run.env.{spellings[3]}={argv}"] if argv else []
    made = plan(text, sections, *overrides, name="child")
    assert env(made)["nproc_per_node"] == (argv or profile or parent or yaml)
    layer = "cli" if argv else "profile" if profile or parent else "yaml" if yaml else "default"
    source = made.sources["run.env.nproc_per_node"]
    assert source.layer.value == layer
    assert source.inherited == (not argv and not profile and parent is not None)
    assert made.resources.nproc_per_node == (argv or profile or parent or yaml or 1)

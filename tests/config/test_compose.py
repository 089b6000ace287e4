"""Composition, held against Hydra's own `compose` on the same files, and what each value's source is."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from support import HEADER

import nemo_runspec
from nemo_runspec.config.compose import Composition
from nemo_runspec.config.yaml_file import YamlChoice
from nemo_runspec.errors import UserError


def planned(*overrides: str, config: str | None = None, profile: str | None = None) -> Any:
    return nemo_runspec.plan("mine/train", config=config, profile=profile, overrides=overrides)


def hydra_says(folder: Any, *overrides: str, name: str = "default") -> dict[str, Any]:
    with initialize_config_dir(str(folder), version_base="1.3"):
        config = compose(name, overrides=list(overrides))
        found: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    found.pop("run", None)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["train.steps=5"],
        ["optimizer=sgd"],
        ["optimizer=sgd", "optimizer.momentum=0.9"],
        ["optimizer.momentum=0.9", "optimizer=sgd"],
        ["data@train.data=large"],
        ["+data@extra=large"],
        ["+data=placed"],
        ["~optimizer"],
        ["~optimizer.lr"],
        ["~text=plain"],
        ["+new=1"],
        ["+new.deep.down=1", "new.deep.down=2"],
        ["++text=forced", "++also_new=1"],
        ["list=[4,5]"],
        ["list=[]"],
        ["list.0=9"],
        ["+table={a:1,b:{c:[2,3]}}"],
        ["optimizer={lr:3}"],
        ["text='it is quoted'"],
        ['text="it\'s"'],
        ["text=a\\ b"],
        ["text="],
        ["text=null"],
        ["text=1e-3"],
        ["text=0123"],
        ["text=true"],
        ["text=TRUE"],
        ["text='true'"],
        ["text=${train.steps}"],
        ["text=\\${not_resolved}"],
        ["text=/a/b-c_d.e:f"],
        ["text=${oc.env:HOME}"],
        ["text=int(3.0)"],
        ["text=str(3)"],
        ["ratio=.5", "flag=yes"],
        ["train.steps=1", "train.steps=2"],
    ],
    ids=" ".join,
)
def test_as_hydra_composes(recipe, overrides):
    ours = planned(*overrides).config
    theirs = hydra_says(recipe, *[text for text in overrides])
    assert ours == theirs


def test_a_null_key_can_be_removed(recipe):
    assert "nothing" not in planned("~nothing").config
    assert "nothing" not in planned("~nothing=null").config


def test_a_config_by_name_and_by_path(recipe, project):
    assert planned(config="base").config == {"seed": 1, "train": {"steps": 1, "seed": 1}}
    path = project.write("mine.yaml", "defaults:\n  - default\n  - _self_\ntrain:\n  steps: 99\n")
    for spelling in (str(path), "./mine.yaml", "mine.yaml"):
        made = planned(config=spelling)
        assert (made.config["train"]["steps"], made.config["optimizer"]["name"]) == (99, "adam")
        assert made.sources["train.steps"].place() == "mine.yaml:5"
        assert made.sources["optimizer.lr"].place().endswith("config/optimizer/adam.yaml:2")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("defualt", ["no config 'defualt'", "did you mean 'default'?", "default, base, mandatory"]),
        ("./gone.yaml", ["no such config file: ./gone.yaml"]),
        ("optimizer/adam", ["no such config file"]),
        ("a.yml", ["Hydra reads .yaml files only", "rename it"]),
    ],
)
def test_a_config_that_is_not_there(recipe, config, words):
    with pytest.raises(UserError) as caught:
        planned(config=config)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1\n", 2),
        ("a: 1\n b: 2\n", 2),
        ("a: {\n", 2),
        ("a: 1\na: 2\n", 2),
        ("\ta: 1\n", 1),
        ("a: *gone\n", 1),
        ("x: !!python/object:os.system {}\n", 1),
    ],
)
def test_yaml_that_is_none_has_its_line(recipe, project, text, line):
    path = project.write("bad.yaml", text)
    with pytest.raises(UserError) as caught:
        planned(config=str(path))
    assert caught.value.where is not None, caught.value.what
    assert caught.value.where.startswith("bad.yaml"), str(caught.value)
    assert caught.value.where == f"bad.yaml:{line}", str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["- 1\n- 2\n", "1\n", "run: 1\n", "run: []\n", "run:\n  env: 1\n", "run:\n  wandb: x\n"],
)
def test_yaml_of_the_wrong_shape(recipe, project, text):
    path = project.write("bad.yaml", text)
    with pytest.raises(UserError) as caught:
        planned(config=str(path))
    assert "bad.yaml" in str(caught.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "run:\n"])
def test_empty_yaml_is_a_config_without_values(recipe, project, text):
    assert planned(config=str(project.write("empty.yaml", text))).config == {}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("defaults:\n  - gone\n", "gone"),
        ("defaults:\n  - optimizer: gone\n", "gone"),
        ("defaults: 3\n", "defaults"),
        ("a: ${b}\n", "b"),
        ("a: ${b}\nb: ${a}\n", "a"),
        ("a: ${nonsense:x}\n", "nonsense"),
        ("a: ${\n", "a"),
    ],
)
def test_yaml_hydra_cannot_compose(recipe, project, text, word):
    path = project.write("bad.yaml", text)
    with pytest.raises(UserError) as caught:
        planned(config=str(path))
    assert word in str(caught.value)
    assert "bad.yaml" in (caught.value.where or ""), str(caught.value)


@pytest.mark.parametrize("written", ["12:00:00", "4:00:00", "90:00", "04:00:00", '"12:00:00"'])
def test_a_time_is_no_number_in_base_60(recipe, project, written):
    path = project.write("time.yaml", f"run:\n  env:\n    time: {written}\n")
    project.write("env.toml", '[bare]\nexecutor = "slurm"\n')
    made = planned(config=str(path), profile="bare")
    assert made.run["env"]["time"] == made.resources.time == written.strip('"')


@pytest.mark.parametrize(
    "text",
    ['"[": 12:30:00\n', 'a: [1]\n"a.b": 12:30:00\n', "1: {2: 12:30:00}\nb: 1\n", 'a: ${b}\nb: 3\n"a.c": 12:30:00\n'],
)
def test_a_time_below_an_odd_key_changes_nothing_else(tmp_path, text):
    (tmp_path / "odd.yaml").write_text(text)
    composition = Composition("local")
    composition.load_yaml(YamlChoice("odd", tmp_path), ())
    assert OmegaConf.to_container(composition.cfg).keys() == yaml.safe_load(text).keys()


def test_a_mandatory_value(recipe):
    with pytest.raises(UserError, match="value has no value") as caught:
        planned(config="mandatory")
    assert caught.value.where.endswith("config/mandatory.yaml:1")
    assert caught.value.remedy == "give one: value=…"
    assert planned("value=3", config="mandatory").config["value"] == 3


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.stpes=5", ["no key 'train.stpes'", "did you mean 'train.steps'?", "+train.stpes=5"]),
        ("traim.steps=5", ["did you mean 'train.steps'?"]),
        ("zzz=5", ["no key 'zzz'", "to add it on purpose: +zzz=5"]),
        ("run.env.nods=5", ["did you mean 'run.env.nodes'?"]),
        ("~gone", ["cannot remove 'gone'"]),
        ("+text=5", ["cannot apply '+text=5'"]),
        ("optimizer=adm", ["adm"]),
        ("+optimizer=sgd", ["optimizer"]),
        ("gruop=sgd", ["no key 'gruop'"]),
        ("text.deeper=5", ["text.deeper"]),
        ("list.7=1", ["list.7"]),
        ("run=3", []),
        ("run.env=3", []),
        ("~run", []),
        ("~run.env", []),
        ("run.env.executor=lepton", ["it decides where a job runs"]),
        ("run.env.partition=x", ["run.env.partition"]),
    ],
)
def test_an_override_that_does_not_fit(recipe, override, words):
    with pytest.raises(UserError) as caught:
        planned(override)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.where or caught.value.remedy, str(caught.value)


@pytest.mark.parametrize("value", ["abc", "10k", "auto", "1e", "0x10", "/a/b"])
def test_a_word_where_a_number_was(recipe, value):
    """On the way without Hydra and on Hydra's; a number that is meant gets through, and so does a word that is."""
    for more in ((), ("list=[1]",)):
        with pytest.raises(UserError, match="ratio is a number") as caught:
            planned(f"ratio={value}", *more)
        assert caught.value.remedy.endswith(f"++ratio={value}")
        assert planned(f"++ratio={value}", *more).config["ratio"] == value
        for key in ("list.0", "train.seed"):  # an element, an interpolation
            with pytest.raises(UserError, match=f"{key} is a number"):
                planned(f"{key}={value}", *more)


@pytest.mark.parametrize(
    "override",
    [
        "ratio=1e-3", "ratio=.5", "ratio=1_000", "ratio=null", "ratio=${train.steps}",
        "ratio=[1,2]", "ratio={a:1}", "ratio='abc'", "ratio=str(5)", "ratio=true", "flag=abc", "text=1", "nothing=abc",
        "train.name=x", "+new=abc",
    ],
)  # fmt: skip
def test_what_may_stand_where_something_else_was(recipe, override):
    planned(override)


def label(made: Any, path: str) -> str:
    return made.sources[path].label().removeprefix("recipes/mine/train/")


def test_the_source_of_every_value(recipe, project):
    made = planned("optimizer=sgd", "text=hello", "+new.deep=1", profile="my-cluster")
    assert label(made, "train.steps") == "config/default.yaml:8"
    assert label(made, "train.seed") == "config/base.yaml:4"
    assert label(made, "seed") == "config/base.yaml:1"
    assert label(made, "optimizer.lr") == "config/optimizer/sgd.yaml:2"
    assert label(made, "train.data.size") == "config/data/small.yaml:1"
    assert label(made, "list") == "config/default.yaml:10"
    assert label(made, "text") == "command line"
    assert label(made, "new.deep") == "command line"
    assert label(made, "run.env.nodes") == "env.toml:18 [my-cluster]"
    assert label(made, "run.env.time") == "env.toml:11 [base-slurm] via extends"
    assert label(made, "run.env.account") == "env.toml:10 [base-slurm] via extends"
    assert label(made, "run.env.env_vars.NCCL_DEBUG") == "env.toml:23 [my-cluster]"
    assert label(made, "run.wandb.project") == "env.toml:2 [wandb]"
    assert label(made, "run.env.qos") == "default"
    assert label(made, "run.name") == "automatic"


def test_every_leaf_has_a_source(recipe):
    from nemo_runspec.profiles.layers import flatten

    for made in (planned(), planned("+data=placed", "+table={a:{b:1}}", profile="my-cluster")):
        assert set(made.sources) == {*flatten(made.config), *flatten(made.run, "run.")}


def test_a_table_given_on_the_command_line_is_the_command_lines(recipe):
    made = planned("optimizer={lr:3}", "+table={a:{b:1}}")
    assert label(made, "optimizer.lr") == "command line"
    assert label(made, "optimizer.name") == "config/optimizer/adam.yaml:1"
    assert label(made, "table.a.b") == "command line"


def test_the_header_is_a_source(recipe, project):
    header = HEADER[: HEADER.rindex("# ///")] + "# [tool.runspec.resources]\n# gpus_per_node = 3\n# ///\n"
    project.recipe("mine/other", header=header)
    made = nemo_runspec.plan("mine/other", profile="base-slurm")
    assert made.sources["run.env.gpus_per_node"].label() == "recipes/mine/other/main.py:9"


def test_the_dry_run_shows_sources(recipe, nemotron):
    out = nemotron("mine", "train", "--run", "my-cluster", "train.steps=7", "--dry-run").succeeds().out
    rows = {row.split(" = ")[0].strip(): row for row in out.splitlines() if " = " in row}
    assert rows["run.env.nodes"].split(" = ")[1].split() == ["4", "env.toml:18", "[my-cluster]"]
    assert rows["run.env.time"].endswith("env.toml:11 [base-slurm]")
    assert rows["train.steps"].endswith("command line")


def test_config_keys_named_like_ours(recipe, project):
    """A recipe may call its own sections as it likes."""
    yaml = "env: 1\nname: x\nrecipe: {_target_: a.b}\nhydra_like: 1\nconfig: {dir: y}\n"
    made = planned(config=str(project.write("own.yaml", yaml)))
    assert made.config == {
        "env": 1, "name": "x", "recipe": {"_target_": "a.b"}, "hydra_like": 1, "config": {"dir": "y"},
    }  # fmt: skip

"""What is composed without Hydra is what Hydra composes, and where Hydra has a say it is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from support import REPOSITORY

from nemo_runspec.config import compose
from nemo_runspec.config.compose import Composition
from nemo_runspec.config.loader import LayeredLoader
from nemo_runspec.config.plain import plain_config, plain_setting
from nemo_runspec.config.yaml_file import YamlChoice
from nemo_runspec.errors import UserError

NUMBERS = st.one_of(
    st.integers(-(10**19), 10**19).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.from_regex(r"[-+]?[0-9_]{0,3}\.?[0-9]{0,3}([eE][-+]?[0-9]{0,2})?", fullmatch=True),
)
WORDS = st.one_of(
    st.sampled_from(["true", "True", "false", "null", "NULL", "nan", "NaN", "inf", "-inf", "Inf", "yes", "on", "none"]),
    st.text("ab1E_/.-:@", max_size=8),
    st.from_regex(r"([0-9]{1,3}-)?[0-9]{1,4}(:[0-9]{1,3}){0,3}", fullmatch=True),
    st.text("tTrRuUeE", min_size=4, max_size=4),
    st.text(st.sampled_from("aZ09_-./ ,=[]{}()'\"\\:$%*@?|~+é\t\n"), max_size=8),
)
KEYS = st.one_of(
    st.sampled_from(["a", "a.b", "a.b_c.d1", "hydra", "hydra.run.dir", "hydras", "hydra_x", "a-b", "a.0", "a@b", "$a"]),
    st.text("ab._1/", max_size=6),
)


@given(key=KEYS, value=st.one_of(NUMBERS, WORDS))
@settings(max_examples=1500)
def test_a_plain_setting_is_what_hydras_grammar_reads(key, value):
    setting = plain_setting(f"{key}={value}")
    if setting is None:
        return
    theirs = OverridesParser.create().parse_override(setting.text)
    assert (theirs.key_or_group, theirs.package, theirs.type.name) == (setting.key, None, "CHANGE")
    assert not theirs.is_sweep_override()
    assert not theirs.is_hydra_override()
    assert (type(theirs.value()), theirs.value()) == (type(setting.value), setting.value)


@pytest.mark.parametrize(
    "text",
    [
        "train.steps=5",
        "lr=3e-4",
        "lr=-0.5",
        "name=a_b-c",
        "path=/a/b.c",
        "flag=true",
        "run.env.nodes=2",
        "gone=nan1",
        "run.env.time=04:00:00",
        "run.env.time=1-00:30:00",
        "run.env.container_image=nvcr.io/nvidia/nemo:25.04",
        "data=me@host:/data",
    ],
)
def test_what_people_type_is_plain(text):
    assert plain_setting(text) is not None


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=5),
    st.sampled_from(["???", "${a}", "12:30:00", "010", "no", "${oc.env:HOME}"]),
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "run", "env", "env_vars", "model", "defaults", "hydra", "_target_", "1", "a.b"])
VALUES = st.recursive(
    SCALARS,
    lambda below: st.dictionaries(NAMES, below, max_size=3) | st.lists(below, max_size=3),
    max_leaves=6,
)
TREES = st.dictionaries(NAMES, VALUES, max_size=4)


@given(tree=TREES, header=st.sampled_from(["", "# a comment\n", "# @package _global_\n", "# @package a.b\n", "\n"]))
@settings(max_examples=200, deadline=None)
def test_a_plain_config_is_what_hydra_composes(tmp_path_factory, tree, header):
    folder = tmp_path_factory.mktemp("configs")
    (folder / "mine.yaml").write_text(header + yaml.safe_dump(tree, sort_keys=False))
    choice = YamlChoice("mine", folder)
    ours = plain_config(choice, ())
    if ours is None:
        return
    loader = LayeredLoader(choice)
    config, _ = loader.compose([])
    composition = Composition("local")
    composition.load_yaml(choice, ())
    assert OmegaConf.to_container(composition.cfg) == OmegaConf.to_container(config)
    assert OmegaConf.to_yaml(composition.cfg) == OmegaConf.to_yaml(config), "in the same order"
    assert composition.sources == loader.sources
    assert (config._metadata.flags, config._parent) == (ours._metadata.flags, ours._parent)


def written(folder: Path, **files: str) -> YamlChoice:
    for name, text in files.items():
        file = folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return YamlChoice("mine", folder)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a: 1\n", True),
        ("# what it is\na: 1\n", True),
        ("defaults: [base]\n", False),
        ('"defaults": [base]\n', False),
        ("hydra:\n  searchpath: []\na: 1\n", False),
        ("# @package a\nb: 1\n", False),
        ("# text\n#@package a\nb: 1\n", False),
        ("", False),
        ("a: ???\n", False),
        ("- 1\n", False),
        ("a: [\n", False),
        ("a: *gone\n", False),
    ],
)
def test_where_hydra_has_a_say_it_is_asked(tmp_path, text, plain):
    assert (plain_config(written(tmp_path, mine=text), ()) is not None) == plain


def test_an_override_that_may_choose_a_group_is_hydras(tmp_path):
    choice = written(tmp_path, mine="a: 1\n", **{"model/small": "layers: 1\n"})
    assert plain_config(choice, ["a"]) is not None
    assert plain_config(choice, ["a", "model"]) is None
    elsewhere = written(tmp_path / "elsewhere", mine="a: 1\n").folder
    assert plain_config(YamlChoice("mine", elsewhere), ["model"]) is not None
    assert plain_config(YamlChoice("mine", elsewhere, (tmp_path,)), ["model"]) is None


def test_what_a_program_has_registered_with_hydra_is_hydras(tmp_path):
    choice = written(tmp_path, mine="a: 1\n")
    store = ConfigStore.instance()
    try:
        store.store("mine", {"a": 2})
        assert plain_config(choice, ()) is None
        store.repo.pop("mine.yaml")
        store.store("small", {"layers": 2}, group="model")
        assert plain_config(choice, ["a"]) is not None
        assert plain_config(choice, ["model"]) is None
    finally:
        store.repo.pop("mine.yaml", None)
        store.repo.pop("model", None)


@pytest.mark.parametrize("name", ["gone", "model/small", "mine.yaml", "a@b"])
def test_a_name_that_says_more_is_hydras(tmp_path, name):
    written(tmp_path, mine="a: 1\n", **{"model/small": "layers: 1\n", "a@b": "a: 1\n", "mine.yaml": "a: 1\n"})
    assert plain_config(YamlChoice(name, tmp_path), ()) is None


@pytest.mark.parametrize("override", ["a.gone=1", "a.b.c=2", "a=x", "t.b=y", "lst=3", "lst.gone=3", "t=1"])
def test_settings_are_applied_as_hydra_applies_them(tmp_path, monkeypatch, override):
    choice = written(tmp_path, mine="a: 1\nt: {b: 2}\nlst: [1]\n")
    ours = outcome(choice, override)
    monkeypatch.setattr(compose, "plain_setting", lambda text: None)
    assert ours == outcome(choice, override)


def outcome(choice: YamlChoice, override: str) -> Any:
    """What becomes of an override of a closed tree: what is wrong with it, or the tree and its sources."""
    composition = Composition("local")
    composition.load_yaml(choice, (override,))
    OmegaConf.set_struct(composition.cfg, True)
    try:
        composition.apply_overrides()
    except UserError as error:
        return str(error)
    return OmegaConf.to_container(composition.cfg), composition.sources


def test_without_a_word_for_it_hydra_is_not_imported(tmp_path):
    written(tmp_path, mine="train:\n  steps: 1\n")
    code = f"""
import sys
from pathlib import Path
from nemo_runspec.config import compose
from nemo_runspec.config.compose import Composition
from nemo_runspec.config.yaml_file import YamlChoice
made = Composition("local")
made.load_yaml(YamlChoice("mine", Path({str(tmp_path)!r})), ("train.steps=5",))
made.apply_overrides()
print(made.cfg.train.steps, "hydra" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["5", "False"]

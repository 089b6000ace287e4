"""Fine-tuning at full size: every name of its configuration and of its glue is in the published wheel."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest
from nano3 import bridge, bridge_packed
from nano3.settings import SettingsError

from .conftest import SFT, SHARED, header, recipe_config
from .test_pretrain_megatron import IMAGE, Sources, unknown_keys

TARGET = "megatron.bridge.recipes.nemotronh.nemotron_3_nano.nemotron_3_nano_sft_config"


@pytest.fixture(scope="module")
def sources(megatron) -> Sources:
    return Sources(megatron)


def test_every_target_and_key_is_in_the_wheel(sources):
    declared = header(SFT)["tool"]["runspec"]
    assert (declared["image"], declared["resources"]) == (IMAGE, {"nodes": 1, "gpus_per_node": 8})
    config = recipe_config(SFT, "default", output_dir="/out", data__path="/data", base__path="/base")
    assert config["recipe"] == {"_target_": TARGET}
    assert unknown_keys(sources, config) == []
    config["train"]["train_itres"] = 1
    assert unknown_keys(sources, config) == ["train.train_itres"]


def test_every_name_that_the_glue_uses_is_in_the_wheel(sources):
    tree = ast.parse((SHARED / "nano3" / "bridge_packed.py").read_text(encoding="utf-8"))
    imported = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("megatron")
        for alias in node.names
    ]
    assert imported and [name for name in imported if sources.find(name) is None] == []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        if called := next((name for name in imported if name.endswith(f".{call.func.id}")), None):
            definition = sources.find(called)
            assert definition and {word.arg for word in call.keywords} <= sources.fields(definition).keys()


def test_weights_and_data_that_are_not_there_are_told_before_anything_is_imported_from_it(monkeypatch, tmp_path):
    own = SimpleNamespace(pretrained_checkpoint=f"{tmp_path}/base", load=f"{tmp_path}/own")
    made = SimpleNamespace(model=SimpleNamespace(seq_length=0), checkpoint=own)
    modules: dict[str, dict[str, object]] = {
        "megatron": {},
        "megatron.bridge": {},
        "megatron.bridge.recipe": {"config": lambda: made},
        "megatron.bridge.data": {},
        "megatron.bridge.data.datasets": {},
        "megatron.bridge.data.datasets.packed_sequence": {"PackedSequenceSpecs": dict},
        "megatron.bridge.training": {},
        "megatron.bridge.training.utils": {},
        "megatron.bridge.training.utils.checkpoint_utils": {"checkpoint_exists": lambda folder: Path(folder).is_dir()},
        "megatron.bridge.training.config": {"FinetuningDatasetConfig": dict},
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    config = {"recipe": {"_target_": "megatron.bridge.recipe.config"}, "output_dir": str(tmp_path), "data_dir": "/gone"}
    with pytest.raises(SettingsError, match=r"base holds no checkpoint of Megatron's.*random weights"):
        bridge.finetune(config)
    for begun in ("own", "base"):  # a job that is started again goes on from its own, whatever has become of the base
        (tmp_path / begun).mkdir()
        with pytest.raises(SettingsError, match=r"there is no /gone/train\.parquet"):
            bridge.finetune(config)
        (tmp_path / begun).rmdir()
    (tmp_path / "base").mkdir()
    (tmp_path / "train.parquet").write_bytes(b"half of them")
    (tmp_path / "manifest.json").write_text('{"files": {"train.parquet": {"bytes": 24}}}')
    with pytest.raises(SettingsError, match=r"train\.parquet is not what manifest\.json tells of"):
        bridge.finetune({**config, "data_dir": str(tmp_path)})
    assert not (tmp_path / "dataset").exists()
    assert bridge_packed.SPLITS == {"train": "training", "valid": "validation"}

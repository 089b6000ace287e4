"""The model shelf: super3, ultra3 and omni3 stand beside nano3 in their production shapes, on code of nano3 and steps.

Every target and key of Megatron-Bridge is held against its published wheels, which are read and never imported. The
model of these recipes is made from a Hugging Face configuration: its class is what the wheel's own bridge returns.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from support import REPOSITORY

from nemo_runspec.artifacts.types import Types
from nemo_runspec.catalog import find_recipe, find_recipes
from nemo_runspec.packaging.bundle import make_bundle

from .conftest import _environment, _uv
from .test_pretrain_megatron import CONTAINER, Sources, _unknown

RECIPES = REPOSITORY / "recipes"
sys.path.insert(0, str(RECIPES / "steps" / "_shared"))
sys.path.insert(0, str(REPOSITORY / "tests" / "steps"))

import published  # noqa: E402
from nemo_steps import bridge, bridge_data  # noqa: E402

COLUMNS = 'REQUIRED_COLUMNS = {"input_ids", "seq_start_id", "loss_mask"}'
OURS = {"recipe", "output_dir", "data_dir", "data", "base", "run"}
SUPER = "nvcr.io/nvidia/nemo:26.02.nemotron_3_super"
ULTRA = "nvcr.io/nvidia/nemo:26.08"


@dataclass(frozen=True)
class Stage:
    """A recipe of the shelf: how many nodes and GPUs, the image (None: that of what it uses), and what it uses."""

    path: str
    nodes: int
    gpus: int
    image: str | None
    uses: str


SHELF = [
    Stage("super3/data/prep/pretrain", 1, 0, None, "nano3/data/prep/pretrain"),
    Stage("super3/data/prep/sft", 1, 0, None, "steps/data_prep/sft_packing"),
    Stage("super3/data/prep/rl", 1, 0, None, "steps/data_prep/rl_prep"),
    Stage("super3/pretrain", 4, 8, SUPER, "nano3/pretrain"),
    Stage("super3/sft", 4, 8, SUPER, "steps/sft/megatron_bridge"),
    Stage("super3/rl", 16, 8, None, "steps/rl/nemo_rl/rlvr"),
    Stage("super3/eval", 1, 8, None, "steps/eval/model_eval"),
    Stage("ultra3/data/prep/pretrain", 1, 0, None, "nano3/data/prep/pretrain"),
    Stage("ultra3/data/prep/sft", 1, 0, None, "steps/data_prep/sft_packing"),
    Stage("ultra3/pretrain", 96, 8, ULTRA, "nano3/pretrain"),
    Stage("ultra3/sft", 24, 8, ULTRA, "steps/sft/megatron_bridge"),
    Stage("ultra3/eval", 1, 0, None, "steps/eval/model_eval"),
    Stage("omni3/sft", 2, 8, None, "steps/sft/megatron_bridge"),
    Stage("omni3/rl", 2, 8, None, "nemo_rl/grpo"),
]

NEMOTRON_H = "megatron.bridge.models.nemotronh.nemotron_h_bridge.NemotronHBridge"
NEMOTRON_OMNI = "megatron.bridge.models.nemotron_omni.nemotron_omni_bridge.NemotronOmniBridge"

BRIDGE = {
    "super3": ("megatron-bridge==0.4.2", "megatron-core==0.17.1", NEMOTRON_H, "MambaModelProvider"),
    "ultra3": ("megatron-bridge==0.6.2", "megatron-core==0.19.2", NEMOTRON_H, "HybridModelProvider"),
    "omni3": ("megatron-bridge==0.6.2", "megatron-core==0.19.2", NEMOTRON_OMNI, "NemotronOmniModelProvider"),
}
"""Family → the wheels that have its recipe, the bridge of its model, and what `provider_bridge` of that returns."""

DATASETS = {
    "omni3/sft": "megatron.bridge.data.builders.energon.EnergonDatasetConfig",
    "ultra3/sft": "megatron.bridge.data.builders.gpt_sft.GPTSFTDatasetConfig",
}
"""Recipe → the class of its dataset, where the recipe of Megatron-Bridge takes another one than for pretraining."""

OMNI_RL = {
    "examples/run_vlm_grpo.py": "06f6343022f42054946f6c8048b5058aab043680",
    "examples/configs/recipes/vlm/vlm_grpo-nemotron-omni-30ba3b-clevr-2n8g-megatron-tp8ep8.v1.yaml": (
        "3895c1d71f260ac7bae8795d2f9722f426572720"
    ),
}
"""File of NeMo-RL's public source that `omni3/rl` names → the commit at which it was read."""


def config_of(path: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((RECIPES / path / "config" / "default.yaml").read_text(encoding="utf-8"))
    return read


def test_the_catalog_has_them_all():
    found = {recipe.path for recipe in find_recipes([RECIPES]) if recipe.family in BRIDGE}
    others = {"super3/pipe", "ultra3/pipe", "omni3/build/sft", "omni3/build/rl"}
    assert found == {stage.path for stage in SHELF} | others


def test_the_pipe_of_super_plans_on_a_cluster_and_hands_on(nemotron):
    given = ("data:run.data.path=/lustre/chats", "sft:run.base.path=/lustre/base")
    image = "eval:run.env.container_image=example.com/image:1"
    steps = nemotron("super3", "pipe", "--run", "my-cluster", *given, image, "--dry-run", "--json").json["steps"]
    recipes = ["super3/data/prep/sft", "super3/sft", "steps/convert/megatron_to_hf", "super3/eval"]
    assert [each["plan"]["recipe"]["path"] for each in steps] == recipes


def test_the_pipe_of_ultra_plans_on_a_cluster(nemotron):
    given = ("data:run.data.path=/lustre/chats", "sft:run.base.path=/lustre/base")
    steps = nemotron("ultra3", "pipe", "--run", "my-cluster", *given, "--dry-run", "--json").json["steps"]
    assert [each["plan"]["recipe"]["path"] for each in steps] == ["ultra3/data/prep/sft", "ultra3/sft"]


@pytest.mark.parametrize("stage", SHELF, ids=lambda stage: stage.path)
def test_a_default_config_plans_on_a_cluster_in_its_own_shape(nemotron, stage):
    """The profile says where, and nothing of nodes and GPUs."""
    asked = [name for name, value in config_of(stage.path)["run"].items() if value == {"path": "???"}]
    more = [f"run.{name}.path=/lustre/{name}" for name in asked]
    if find_recipe(stage.path, [RECIPES]).spec.image is None or "OMNI3_" in str(config_of(stage.path)["run"]["env"]):
        more.append("run.env.container_image=example.com/image:1")
    words = [*stage.path.split("/"), "--run", "base-slurm", *more]
    plan = nemotron(*words, "--dry-run", "--json").json["plan"]
    assert (plan["resources"]["nodes"], plan["resources"]["gpus_per_node"]) == (stage.nodes, stage.gpus)


@pytest.mark.parametrize("family", ["super3", "ultra3"])
def test_fine_tuning_begins_with_what_pretraining_leaves(family):
    """The checkpoint of `pretrain` lies where the type says: in the folder itself, which `sft` gives as `base`."""
    types, pretrain, sft = Types.load([RECIPES]), config_of(f"{family}/pretrain"), config_of(f"{family}/sft")
    (made,) = find_recipe(f"{family}/pretrain", [RECIPES]).spec.produces
    wanted = next(each for each in find_recipe(f"{family}/sft", [RECIPES]).spec.consumes if each.name == "base")
    assert types.accepts(wanted.type, made.type)
    assert sft["run"]["base"]["artifact"] == pretrain["run"]["model"]["artifact"]
    assert (pretrain["checkpoint"]["save"], sft["base"]) == ("${run.output_dir}", "${run.base.path}")


@pytest.mark.parametrize("recipe", find_recipes([RECIPES]), ids=lambda recipe: recipe.path)
def test_every_input_takes_what_the_recipe_that_it_names_makes(recipe):
    types = Types.load([RECIPES])
    for name in recipe.configs() if recipe.spec.kind != "pipe" else ():
        run = yaml.safe_load((recipe.config_dir / f"{name}.yaml").read_text(encoding="utf-8")).get("run") or {}
        for each in recipe.spec.consumes:
            maker = (run.get(each.name) or {}).get("recipe") or each.recipe
            if maker and maker != "null":
                made = find_recipe(maker, [RECIPES]).spec.produces
                assert any(types.accepts(each.type, output.type) for output in made), (name, each.name, maker)


@pytest.mark.parametrize("stage", SHELF, ids=lambda stage: stage.path)
def test_a_stage_says_its_shape_and_image_and_travels_with_what_it_uses(stage):
    recipe, used = find_recipe(stage.path, [RECIPES]), find_recipe(stage.uses, [RECIPES])
    spec = recipe.spec
    assert (spec.nodes, spec.gpus_per_node, spec.uses) == (stage.nodes, stage.gpus, stage.uses)
    assert spec.image == (stage.image or used.spec.image)
    assert (spec.launch, spec.dependencies) == (used.spec.launch, used.spec.dependencies)
    env = config_of(stage.path)["run"]["env"]
    assert (env["nodes"], env["gpus_per_node"]) == (stage.nodes, stage.gpus)
    files = {Path(file.path).relative_to("recipes") for file in make_bundle(recipe).files}
    assert {used.script.relative_to(RECIPES), recipe.script.relative_to(RECIPES)} <= files
    shared = RECIPES / used.family / "_shared"
    assert any(file.parts[:2] == (used.family, "_shared") for file in files) == shared.is_dir()


def test_a_stage_of_omni_asks_for_the_image_that_is_built():
    for stage in ("sft", "rl"):
        build = f"nemotron omni3 build {stage}"
        image = config_of(f"omni3/{stage}")["run"]["env"]["container_image"]
        assert image.startswith(f"${{oc.env:OMNI3_{stage.upper()}_IMAGE")
        for file in ("README.md", "config/default.yaml"):
            assert build in (RECIPES / "omni3" / stage / file).read_text(encoding="utf-8")


def test_the_default_builds_are_of_what_the_stages_run():
    """Without any `build_args`: the base has the recipe of the one, the commit has the configuration of the other."""
    arguments = {
        stage: dict(re.findall(r"^ARG (\w+)=(.*)$", (RECIPES / f"omni3/build/{stage}/Dockerfile").read_text(), re.M))
        | {name: value for name, value in config_of(f"omni3/build/{stage}")["build_args"].items() if value is not None}
        for stage in ("sft", "rl")
    }
    image = config_of("omni3/sft")["run"]["env"]["container_image"]
    assert arguments["sft"]["BASE"] == ULTRA == image.partition(",")[2].rstrip("}"), "Megatron-Bridge 0.6, as ultra3's"
    assert BRIDGE["omni3"][0] == BRIDGE["ultra3"][0]
    assert arguments["rl"]["NEMO_RL_REF"] == OMNI_RL[config_of("omni3/rl")["config_path"]]
    for name, value in [item for stage in arguments.values() for item in stage.items() if item[0].endswith("_REF")]:
        assert re.fullmatch(r"([0-9a-f]{40})?", value), f"{name} is a whole commit, or the base's own"


def test_what_rl_names_of_nemo_rl_was_read_in_its_source():
    known = {name for file in published.committed()["nemo_rl"]["read"].values() for name in file["names"]}
    config = {key: value for key, value in config_of("super3/rl").items() if key not in {*OURS, "source"}}
    assert set(published._leaves(config)) <= known
    omni = config_of("omni3/rl")
    assert {omni["script_path"], omni["config_path"]} == set(OMNI_RL)
    page = (RECIPES / "omni3/rl/README.md").read_text(encoding="utf-8")
    assert OMNI_RL[omni["config_path"]] in page


@pytest.mark.parametrize("stage", [each for each in SHELF if each.path != "omni3/sft"], ids=lambda stage: stage.path)
def test_its_script_runs_the_one_that_it_uses(stage, monkeypatch):
    ran: list[str] = []
    monkeypatch.setattr(runpy, "run_path", lambda path, run_name: ran.append(path))
    script = find_recipe(stage.path, [RECIPES]).script
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__file__": str(script)})
    assert ran == [str(find_recipe(stage.uses, [RECIPES]).script)]


def test_nothing_is_of_one_person_or_of_one_company():
    for folder in ("nano3", "nemo_rl", "super3", "ultra3", "omni3"):
        for file in (RECIPES / folder).rglob("*"):
            text = file.read_text(encoding="utf-8") if file.is_file() and file.suffix != ".pyc" else ""
            assert not re.search(r"nvidian|/home/|/lustre|gitlab|\.rc\d", text), file


@pytest.fixture(scope="module")
def wheels():
    """The wheels of a family, unpacked side by side."""

    def install(folder: Path, wanted: list[str]) -> None:
        any_python = ("--python-version", "3.12", "--only-binary", ":all:", "--no-deps")
        _uv("pip", "install", *any_python, "--target", str(folder), *wanted)

    def unpack(family: str) -> Sources:
        return Sources(_environment("megatron", list(BRIDGE[family][:2]), install))

    return unpack


@pytest.mark.slow
@pytest.mark.parametrize("path", [each.path for each in SHELF if "_target_" in str(config_of(each.path))])
def test_every_target_and_key_is_in_the_published_wheel(wheels, path):
    family = path.split("/")[0]
    sources, config = wheels(family), config_of(path)
    recipe = sources.find(config["recipe"]["_target_"])
    assert recipe and isinstance(recipe.node, ast.FunctionDef)
    assert not recipe.node.args.args
    _, _, bridge_name, provider_name = BRIDGE[family]
    bridge = sources.find(bridge_name)
    assert bridge
    (made,) = [node for node in ast.walk(bridge.node) if getattr(node, "name", "") == "provider_bridge"]
    assert isinstance(made, ast.FunctionDef)
    assert made.returns
    assert ast.unparse(made.returns) == provider_name
    provider, container = sources.first_class(made.returns, bridge.module), sources.find(CONTAINER)
    assert provider
    assert container
    sections, known = {key: value for key, value in config.items() if key not in OURS}, {"model": provider}
    if path in DATASETS:
        dataset = sources.find(DATASETS[path])
        assert dataset
        known["dataset"] = dataset
    assert list(_unknown(sources, container, sections, "", known)) == []
    # From 0.6 on the container has a length of its own, by which it sets Megatron's when it is finalized.
    lengths = sources.fields(known.get("dataset") or sources.first_class(*sources.fields(container)["dataset"]))
    assert not ("seq_length" in lengths and "sequence_length" in sections.get("dataset", {}))
    wrong = {**sections, "train": {**sections["train"], "train_itres": 1}, "model": {**sections["model"], "tp": 1}}
    assert list(_unknown(sources, container, wrong, "", known)) == ["model.tp", "train.train_itres"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "glue"),
    [
        ("super3", "nano3/_shared/nano3/bridge.py"),
        ("ultra3", "nano3/_shared/nano3/bridge.py"),
        ("super3", "steps/_shared/nemo_steps/bridge.py"),
        ("ultra3", "steps/_shared/nemo_steps/bridge.py"),
        ("ultra3", "steps/_shared/nemo_steps/bridge_packing.py"),
        ("super3", "steps/_shared/nemo_steps/bridge_data.py"),
        ("omni3", "omni3/sft/train.py"),
    ],
)
def test_what_the_scripts_import_is_in_the_published_wheel(wheels, family, glue):
    tree = ast.parse((RECIPES / glue).read_text(encoding="utf-8"))
    names = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("megatron.")
        for alias in node.names
    ]
    assert names
    assert [name for name in names if wheels(family).find(name) is None] == []


@pytest.mark.slow
@pytest.mark.parametrize(("family", "takes_hf"), [("super3", False), ("ultra3", True)])
def test_what_tells_a_checkpoint_is_in_the_published_wheel(wheels, megatron, family, takes_hf):
    for sources, hf in ((wheels(family), takes_hf), (Sources(megatron), False)):
        assert sources.find(f"{bridge.CHECKPOINTS}.checkpoint_exists")
        assert bool(sources.find(f"{bridge.CHECKPOINTS}.is_hf_checkpoint_dir")) == hf


@pytest.mark.slow
def test_packed_rows_are_given_as_each_version_reads_them(wheels, megatron):
    """0.3 looks for NumPy files, 0.4 for Parquet with our columns, 0.6 such where they are; modules tell which."""
    reader, builder = (
        bridge_data.PARQUET_READER.replace(".", "/"),
        "megatron/bridge/data/builders/finetuning_dataset.py",
    )
    for root, names in ((megatron, "training_{self.packed_sequence_size}.npy"),
                        (wheels("super3").root, "training_{self.packed_sequence_size}.idx.parquet")):  # fmt: skip
        assert names in (root / builder).read_text(encoding="utf-8")
        assert (root / f"{reader}.py").is_file() == names.endswith("parquet")
    said = (wheels("super3").root / f"{reader}.py").read_text(encoding="utf-8")
    assert COLUMNS in said
    packing = bridge_data.PACKING.replace(".", "/")
    assert [(root / packing).is_dir() for root in (megatron, wheels("super3").root, wheels("ultra3").root)] == [
        False, False, True
    ]  # fmt: skip
    assert COLUMNS in (wheels("ultra3").root / packing / "parquet.py").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GPTSFTDatasetConfig", "PackedSequenceSpecs"])
def test_what_is_set_of_packed_rows_are_fields_in_0_6(wheels, name):
    sources, tree = wheels("ultra3"), ast.parse((RECIPES / "steps/_shared/nemo_steps/bridge_packing.py").read_text())
    (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == name]
    modules = {"GPTSFTDatasetConfig": "megatron.bridge.data.builders", "PackedSequenceSpecs": bridge_data.PACKING}
    found = sources.find(f"{modules[name]}.{name}")
    assert found
    assert {word.arg for word in call.keywords} <= set(sources.fields(found))


def test_rows_are_given_to_0_6_where_they_are(tmp_path, monkeypatch):
    """Its two classes, of the shape that the wheel's have; validation only where there are rows for it."""
    for name in (
        "megatron",
        "megatron.bridge",
        "megatron.bridge.data",
        "megatron.bridge.data.builders",
        bridge_data.PACKING,
    ):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["megatron.bridge.data.builders"].GPTSFTDatasetConfig = SimpleNamespace  # type: ignore[attr-defined]
    sys.modules[bridge_data.PACKING].PackedSequenceSpecs = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setattr(bridge_data.importlib.util, "find_spec", lambda name: name == bridge_data.PACKING or None)
    monkeypatch.setattr(bridge_data, "length_of", lambda file: 8)
    container = SimpleNamespace(
        model=SimpleNamespace(seq_length=4),
        train=SimpleNamespace(train_iters=3, global_batch_size=5),
        dataset=SimpleNamespace(num_workers=2),
    )
    bridge_data.use_packed(container, str(tmp_path), tmp_path / "out")
    made = container.dataset
    assert (container.model.seq_length, made.seq_length, made.max_train_samples) == (8, 8, 15)
    assert made.offline_packing_specs.packed_train_data_path == str(tmp_path / "train.parquet")
    assert (made.do_validation, made.offline_packing_specs.packed_val_data_path) == (False, None)


def test_packed_rows_are_linked_where_they_are_looked_for(tmp_path):
    (tmp_path / "train.parquet").write_bytes(b"rows")
    bridge_data.give_parquet(tmp_path, tmp_path / "out", 8, ["train"])
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"8_metadata.jsonl", "training_8.idx.parquet"}
    assert (tmp_path / "out" / "training_8.idx.parquet").samefile(tmp_path / "train.parquet")

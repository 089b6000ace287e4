"""The production configuration against the published Megatron-Bridge: every target, key and name must be there.

The wheels are read, never imported: they need a GPU stack. What the glue does with a configuration is tried on a
stand-in that has the same shape.
"""

from __future__ import annotations

import ast
import importlib
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nano3 import bridge
from nano3.settings import SettingsError

from .conftest import MEGATRON, SFT, SHARED, TRAIN, _environment, _uv, header, recipe_config

IMAGE = "nvcr.io/nvidia/nemo:25.11.nemotron_3_nano"
CONTAINER = "megatron.bridge.training.config.ConfigContainer"
TARGET = "megatron.bridge.recipes.nemotronh.nemotron_3_nano.nemotron_3_nano_pretrain_config"


@dataclass(frozen=True)
class Definition:
    """A class or function, and the module that it stands in."""

    node: ast.ClassDef | ast.FunctionDef
    module: str


class Sources:
    """Looks names up in an unpacked wheel, through its re-exports."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, target: str) -> Definition | None:
        module, _, name = target.rpartition(".")
        tree = self._tree(module)
        for node in tree.body if tree else []:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                return Definition(node, module)
        origin = self._imports(module).get(name)
        return self.find(origin) if origin else None

    def fields(self, definition: Definition) -> dict[str, tuple[ast.expr, str]]:
        """The annotated fields of a class with those of its bases: annotation, and the module it is read in."""
        assert isinstance(definition.node, ast.ClassDef)
        found: dict[str, tuple[ast.expr, str]] = {}
        for base in definition.node.bases:
            for name in _names(base):
                parent = self.find(self._absolute(definition.module, name))
                if parent and isinstance(parent.node, ast.ClassDef):
                    found |= self.fields(parent)
        for node in definition.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = (node.annotation, definition.module)
        return found

    def first_class(self, annotation: ast.expr, module: str) -> Definition | None:
        """The first class of the wheel that an annotation names."""
        found = (self.find(self._absolute(module, name)) for name in _names(annotation))
        return next((entry for entry in found if entry and isinstance(entry.node, ast.ClassDef)), None)

    def provider_of(self, recipe: Definition) -> Definition:
        """The model provider that a recipe function uses."""
        names = {name for name in _names(recipe.node) if name.endswith("Provider")}
        (name,) = names
        found = self.find(self._absolute(recipe.module, name))
        assert found
        return found

    def _absolute(self, module: str, name: str) -> str:
        return self._imports(module).get(name, f"{module}.{name}")

    @cache  # noqa: B019 - lives as long as the test session
    def _tree(self, module: str) -> ast.Module | None:
        path = self._path(module)
        return ast.parse(path.read_text(encoding="utf-8")) if path else None

    @cache  # noqa: B019
    def _imports(self, module: str) -> dict[str, str]:
        tree = self._tree(module)
        return {
            alias.asname or alias.name: f"{self._origin(module, node)}.{alias.name}"
            for node in (ast.walk(tree) if tree else ())
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def _origin(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        path = self._path(module)
        levels = node.level - (path is not None and path.name == "__init__.py")
        parents = module.split(".")
        return ".".join([*parents[: len(parents) - levels], *([node.module] if node.module else [])])

    def _path(self, module: str) -> Path | None:
        base = self.root / Path(*module.split("."))
        return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _names(node: ast.AST) -> list[str]:
    """The names in a piece of code, in the order in which they are written."""
    found = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    return [part.id for part in sorted(found, key=lambda part: (part.lineno, part.col_offset))]


def unknown_keys(sources: Sources, config: dict[str, Any]) -> list[str]:
    """The target, when it does not exist, and every key path that no configuration class has."""
    recipe = sources.find(config["recipe"][bridge.TARGET])
    if recipe is None or not isinstance(recipe.node, ast.FunctionDef):
        return [config["recipe"][bridge.TARGET]]
    container = sources.find(CONTAINER)
    assert container
    sections = {key: value for key, value in config.items() if key not in bridge.OURS}
    return list(_unknown(sources, container, sections, "", {"model": sources.provider_of(recipe)}))


def _unknown(
    sources: Sources, holder: Definition, values: dict[str, Any], where: str, known: dict[str, Definition]
) -> Iterator[str]:
    fields = sources.fields(holder)
    for key, value in values.items():
        path = f"{where}.{key}".lstrip(".")
        if key not in fields:
            yield path
        elif isinstance(value, dict):
            inner = known.get(path) or sources.first_class(*fields[key])
            if inner is None:
                yield path
            else:
                yield from _unknown(sources, inner, value, path, {})


@pytest.fixture(scope="module")
def sources(megatron) -> Sources:
    return Sources(megatron)


@pytest.fixture
def default() -> dict[str, Any]:
    return recipe_config(TRAIN, "default", output_dir="/out", data__path="/data")


def test_production_shape(default):
    declared = header(TRAIN)["tool"]["runspec"]
    assert declared["image"] == IMAGE
    assert declared["resources"] == {"nodes": 2, "gpus_per_node": 8}
    assert declared["run"] == {"launch": "torchrun"}
    assert declared["config"]["default"] == "default"
    assert default["recipe"] == {"_target_": TARGET}


def test_every_target_and_key_is_in_the_wheel(sources, default):
    assert unknown_keys(sources, default) == []


def test_the_recipe_needs_no_arguments(sources):
    recipe = sources.find(TARGET)
    assert recipe and isinstance(recipe.node, ast.FunctionDef)
    assert not recipe.node.args.args


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("train", "train_itres"),
        ("model", "tensor_parallel_size"),
        ("scheduler", "warmup_iters"),
        ("dataset", "per_split_data_args_path"),
        ("chekpoint", "save"),
    ],
)
def test_a_misspelt_key_is_found(sources, default, section, key):
    default.setdefault(section, {})[key] = 1
    found = unknown_keys(sources, default)
    assert len(found) == 1
    assert found[0] in {section, f"{section}.{key}"}


def test_a_misspelt_target_is_found(sources, default):
    default["recipe"]["_target_"] = wrong = TARGET + "s"
    assert unknown_keys(sources, default) == [wrong]


def test_every_name_that_the_glue_imports_is_in_the_wheel(sources):
    tree = ast.parse((SHARED / "nano3" / "bridge.py").read_text(encoding="utf-8"))
    imported = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("megatron")
        for alias in node.names
    ]
    assert len(imported) >= 5
    assert [name for name in imported if sources.find(name) is None] == []
    pretrain = sources.find("megatron.bridge.training.pretrain.pretrain")
    assert pretrain and isinstance(pretrain.node, ast.FunctionDef)
    assert [argument.arg for argument in pretrain.node.args.args] == ["config", "forward_step_func", "callbacks"]


def test_the_callback_uses_events_and_fields_that_exist(sources):
    callback = sources.find("megatron.bridge.training.callbacks.Callback")
    context = sources.find("megatron.bridge.training.callbacks.CallbackContext")
    assert callback and context
    methods = {node.name for node in ast.walk(callback.node) if isinstance(node, ast.FunctionDef)}
    assert {"on_train_step_start", "on_train_step_end", "on_eval_end"} <= methods
    assert {"state", "loss_dict", "total_loss_dict"} <= sources.fields(context).keys()


@pytest.fixture
def stand_in(monkeypatch):
    """A `megatron.bridge` with a container of the right shape and a `pretrain` that calls back twice."""
    section = {"pipeline_model_parallel_size": 1, "seq_length": 4, "train_iters": 9, "global_batch_size": 2}
    made = SimpleNamespace(
        model=SimpleNamespace(**section),
        train=SimpleNamespace(**section),
        dataset=SimpleNamespace(blend=None, split="9999,8,2", blend_per_split=None),
        logger=SimpleNamespace(log_interval=1),
        comm_overlap=None,
    )

    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(bridge.time, "monotonic", lambda: clock.now)

    def pretrain(config: Any, forward_step_func: object, callbacks: list[Any]) -> None:
        assert forward_step_func == "the forward step"
        for step in (0, 1):
            state = SimpleNamespace(train_state=SimpleNamespace(step=step), cfg=config)
            if step:  # a validation and a checkpoint before it
                clock.now += 90
                callbacks[0].on_eval_end(SimpleNamespace(state=state, total_loss_dict={}))
                clock.now += 70
            callbacks[0].on_train_step_start(SimpleNamespace(state=state))
            clock.now += 10
            callbacks[0].on_train_step_end(SimpleNamespace(state=state, loss_dict={"lm loss": 3.5 - step}))
        state = SimpleNamespace(train_state=SimpleNamespace(step=2), cfg=config)
        callbacks[0].on_eval_end(SimpleNamespace(state=state, total_loss_dict={"lm loss": 2.25}))

    package = "megatron.bridge.training"
    modules: dict[str, dict[str, object]] = {
        "megatron": {}, "megatron.bridge": {}, package: {},
        f"{package}.gpt_step": {"forward_step": "the forward step"},
        f"{package}.pretrain": {"pretrain": pretrain},
        f"{package}.callbacks": {"Callback": object, "CallbackContext": object},
        "megatron.bridge.recipe": {"config": lambda: made},
        "torch": {}, "torch.distributed": {"get_rank": lambda: 0, "get_world_size": lambda: 1},
    }  # fmt: skip
    for name, content in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    importlib.invalidate_caches()
    sys.modules["torch"].distributed = sys.modules["torch.distributed"]  # type: ignore[attr-defined]
    return made


def stand_in_config(tmp_path: Path, **sections: Any) -> dict[str, Any]:
    (tmp_path / "text_train.idx").touch()
    (tmp_path / "blend.json").write_text('{"train": ["2.0", "/gone/text_train"], "valid": null, "test": null}')
    return {
        "recipe": {"_target_": "megatron.bridge.recipe.config"},
        "output_dir": str(tmp_path / "out"),
        "data_dir": str(tmp_path),
        **sections,
    }


def test_the_glue_sets_values_and_the_blend_and_logs(stand_in, tmp_path, monkeypatch):
    monkeypatch.delenv("NEMOTRON_METRICS_FILE", raising=False)
    assert bridge.train(stand_in_config(tmp_path, train={"global_batch_size": 64})) == 0
    assert (stand_in.train.global_batch_size, stand_in.train.train_iters) == (64, 9)
    assert stand_in.dataset.split is None
    assert stand_in.dataset.blend_per_split == [([str(tmp_path / "text_train")], [2.0]), None, None]
    training, validation = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    # 64 sequences of 4 tokens in the 10 seconds of the step, without the 160 of validation and checkpoint before it.
    assert '"step": 2, "total_steps": 9, "loss": 2.5, "tokens_per_second": 25.6' in training
    assert '"step": 2, "val_loss": 2.25' in validation


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"train": {"train_itres": 1}}, "unknown key 'train.train_itres'; did you mean 'train_iters'?"),
        ({"trian": {"train_iters": 1}}, "unknown key 'trian'; did you mean 'train'?"),
        ({"comm_overlap": {"tp_comm_overlap": True}}, "'comm_overlap' is not set by the recipe"),
        ({"recipe": {"_target_": "megatron.bridge.recipe.none"}}, "cannot be imported here"),
        ({"data_dir": "/nowhere"}, "data_dir /nowhere holds no whole dataset"),
    ],
)
def test_the_glue_refuses_what_would_have_no_effect(stand_in, tmp_path, sections, words):
    with pytest.raises(SettingsError, match=words.replace("?", r"\?")):
        bridge.train(stand_in_config(tmp_path) | sections)


def test_a_megatron_bridge_without_callbacks_trains_and_says_so(stand_in, tmp_path, monkeypatch, capsys):
    def pretrain(config: Any, forward_step_func: object) -> None:
        print("trained")

    monkeypatch.setitem(sys.modules, "megatron.bridge.training.callbacks", None)
    monkeypatch.setattr(sys.modules["megatron.bridge.training.pretrain"], "pretrain", pretrain, raising=False)
    for rank, said in (("0", True), ("1", False)):
        monkeypatch.setenv("RANK", rank)
        assert bridge.train(stand_in_config(tmp_path)) == 0
        out = capsys.readouterr().out
        assert ("has no callbacks" in out) == said
        assert out.endswith("trained\n")
    assert not (tmp_path / "out" / "metrics.jsonl").exists()


def test_a_recipe_is_called_as_the_version_at_hand_calls_it(monkeypatch, capsys):
    """0.3.0 has one function for both kinds of fine-tuning, told apart by its arguments."""
    target = f"{TARGET.rpartition('.')[0]}.nemotron_3_nano_sft_config"
    earlier, arguments = bridge.EARLIER[target]
    names = earlier.split(".")
    for length in range(1, len(names)):
        monkeypatch.setitem(sys.modules, ".".join(names[:length]), types.ModuleType(".".join(names[:length])))
    module = sys.modules[earlier.rpartition(".")[0]]
    made: list[dict[str, object]] = []
    config = {"recipe": {"_target_": target}, "output_dir": "", "data_dir": ""}
    with pytest.raises(SettingsError, match="nemotron_3_nano_sft_config' cannot be imported here"):
        bridge.make_container(config)
    module.nemotron_3_nano_finetune_config = lambda **given: made.append(given)  # type: ignore[attr-defined]
    bridge.make_container(config)
    assert made == [arguments] == [{"packed_sequence": True, "peft": None}]
    assert "it is " + earlier in capsys.readouterr().out
    module.nemotron_3_nano_sft_config = lambda: made.append({})  # type: ignore[attr-defined]
    bridge.make_container(config)
    assert made[1:] == [{}] and capsys.readouterr().out == ""


@pytest.fixture(scope="module")
def earlier() -> Sources:
    """The version before: what its image has is of that time."""
    wanted = ["megatron-bridge==0.3.0", MEGATRON[1]]
    return Sources(
        _environment(
            "megatron", wanted, lambda at, names: _uv("pip", "install", "--no-deps", "--target", str(at), *names)
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("script", [TRAIN, SFT], ids=["pretrain", "sft"])
def test_the_version_before_has_every_key_and_the_recipe_by_its_earlier_name(earlier, script):
    config = recipe_config(script, "default", output_dir="/out", data__path="/data", base__path="/base")
    target = config["recipe"][bridge.TARGET]
    name, arguments = bridge.EARLIER.get(target, (target, {}))
    config["recipe"] = {bridge.TARGET: name}
    assert unknown_keys(earlier, config) == []
    taken = earlier.find(f"{name.rpartition('.')[0]}.Nemotron3NanoFinetuneKwargs")
    assert taken and arguments.keys() <= earlier.fields(taken).keys()

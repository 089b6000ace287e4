"""What the steps name of libraries, and whether a library's published wheel has it; nothing of them is imported.

`python tests/steps/published.py` downloads the wheels and writes `published.json` anew.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

STEPS = Path(__file__).resolve().parents[2] / "recipes" / "steps"
LIST = Path(__file__).with_name("published.json")
DEFAULT = "config/default.yaml"
GLUE = (STEPS / "_shared/nemo_steps/nemo_rl.py", STEPS.parent / "nano3/_shared/nano3/nemo_rl.py")
"""What calls NeMo-RL's programs."""

PACKAGES = {
    "data_designer": ("data-designer", "data-designer-config"),
    "lm_eval": ("lm-eval",),
    "megatron": ("megatron-bridge", "megatron-core"),
    "modelopt": ("nvidia-modelopt",),
    "nemo_automodel": ("nemo-automodel",),
    "nemo_curator": ("nemo-curator",),
    "nemo_evaluator_launcher": ("nemo-evaluator-launcher",),
    "peft": ("peft",),
    "torchdata": ("torchdata",),
    "transformers": ("transformers",),
}
"""Top module → the distributions that have it. What is not here (torch, NumPy, …) is imported by every run on a CPU."""

VERSIONS = {
    "data-designer": "0.9.6",
    "data-designer-config": "0.9.6",
    "lm-eval": "0.4.13",
    "megatron-bridge": "0.3.1",
    "megatron-core": "0.16.1",
    "nemo-automodel": "0.7.0",
    "nemo-curator": "1.4.0",
    "nemo-evaluator-launcher": "0.2.6",
    "nvidia-modelopt": "0.47.0",
    "peft": "0.21.2",
    "torchdata": "0.11.0",
    "transformers": "5.23.0",
}

LATER = {"megatron-bridge": "0.6.2"}
"""A later version of a package, which is looked into for what the first one has not: steps are for both."""

SECTIONS = {
    "model": "GPTModelProvider",
    "dataset": "GPTDatasetConfig",
    "tokenizer": "TokenizerConfig",
    "train": "TrainingConfig",
    "optimizer": "OptimizerConfig",
    "scheduler": "SchedulerConfig",
    "checkpoint": "CheckpointConfig",
    "logger": "LoggerConfig",
    "lora": "LoRA",
}
"""Section of a Megatron-Bridge step's configuration → the class whose fields its keys are."""


@dataclass(frozen=True, order=True)
class Name:
    """A name that steps use. `kind`: import, target (of a configuration), key (of a class) or call (a keyword)."""

    module: str
    kind: str
    name: str


def used() -> set[Name]:
    """Every name of a library in PACKAGES that the steps' code and configurations use."""
    code = {
        name for file in STEPS.rglob("*.py") for name in names_imported(ast.parse(file.read_text(encoding="utf-8")))
    }
    configs = {file: yaml.safe_load(file.read_text(encoding="utf-8")) for file in STEPS.glob("*/**/config/*.yaml")}
    targets = {Name(_top(target), "target", target) for config in configs.values() for target in _targets(config)}
    keys = {
        Name("megatron", "key", f"{SECTIONS[section]}.{key}")
        for file, config in configs.items()
        if file.parts[-3] == "megatron_bridge"
        for section, values in config.items()
        if section in SECTIONS
        for key in values
    }
    return {name for name in code | targets | keys if name.module in PACKAGES}


def nemo_rl_configs() -> dict[str, dict[str, Any]]:
    """Recipe → NeMo-RL's own sections of its `default`, and `recipe`, the file that they are laid over."""
    steps = {f"steps/{file.parent.parent.relative_to(STEPS)}": file for file in STEPS.glob(f"rl/nemo_rl/*/{DEFAULT}")}
    read = {name: _yaml(file) for name, file in {**steps, "super3/rl": STEPS.parent / "super3/rl" / DEFAULT}.items()}
    nano3 = _yaml(STEPS.parent / "nano3/rl" / DEFAULT)
    return {**read, "nano3/rl": {"recipe": nano3["recipe"], **nano3["nemo_rl"]}}


def nemo_rl_used() -> set[str]:
    """Every program, file, option and key of NeMo-RL's source that the steps, nano3 and super3 use."""
    ours = {"run", "defaults", "output_dir", "base", "recipe", "reward", "source"}
    configs = [_yaml(file) for file in STEPS.glob("rl/nemo_rl/*/config/*.yaml")] + [*nemo_rl_configs().values()]
    keys = {key for config in configs for key in _leaves({k: v for k, v in config.items() if k not in ours})}
    code = [*GLUE, *STEPS.glob("rl/nemo_rl/*/step.py")]
    words = {word for file in code for word in _texts(ast.parse(file.read_text(encoding="utf-8")))}
    told = {word for word in words if word.startswith(("examples/", "--")) and word != "--extra" and " " not in word}
    return keys | told | {config["recipe"] for config in configs if "recipe" in config}


def nemo_rl_data(config: Mapping[str, Any]) -> dict[str, Any]:
    """The data sets that NeMo-RL makes of a configuration: laid over those of its file, what is missing from `default`.

    The rules are its own: `load_config` merges tables, and `update_single_dataset_config` fills only what is not there.
    """
    below = committed()["nemo_rl"]["read"][config["recipe"]]["data"]
    data = _laid_over(below, config["data"])
    default = data.get("default") or {}
    return {name: {**default, **data[name]} for name in ("train", "validation") if data[name]}


class Wheel:
    """A published wheel, read as text."""

    def __init__(self, file: Path, package: str) -> None:
        self.package, self._zip = package, zipfile.ZipFile(file)
        self._names = set(self._zip.namelist())

    def where(self, name: Name) -> str | None:
        """The file that has a name; None where none has."""
        if name.kind == "key":
            owner, _, key = name.name.partition(".")
            return self._classes[owner][1] if key in self.fields(owner) else None
        module, _, last = name.name.rpartition(".")
        if not module:
            return self._file(last)
        return self._file(name.name) or self._defines(module, last) or self._method(module, last)

    def fields(self, owner: str) -> set[str]:
        """The annotated fields and properties of a class, and of its bases in this wheel."""
        if owner not in self._classes:
            return set()
        node, _ = self._classes[owner]
        own = {
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        own |= {each.name for each in node.body if isinstance(each, ast.FunctionDef) and each.decorator_list}
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        return own.union(*(self.fields(base) for base in bases if base != owner))

    def _method(self, owner: str, method: str) -> str | None:
        """`module.Class.method`, where the class or a base of it has the method."""
        module, _, name = owner.rpartition(".")
        if not module or not self._defines(module, name) or name not in self._classes:
            return None
        seen, todo = set[str](), [name]
        while todo:
            node, file = self._classes[todo.pop()]
            if any(isinstance(each, ast.FunctionDef) and each.name == method for each in node.body):
                return file
            seen.add(node.name)
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            todo += [base for base in bases if base in self._classes and base not in seen]
        return None

    def _file(self, module: str) -> str | None:
        path = module.replace(".", "/")
        found = [file for file in (f"{path}.py", f"{path}/__init__.py") if file in self._names]
        return found[0] if found else (path if any(name.startswith(path + "/") for name in self._names) else None)

    def _defines(self, module: str, name: str) -> str | None:
        """A module's file, where it defines, imports or lists a name; `*` leads to the file that defines it."""
        file = self._file(module)
        if file is None or file not in self._names:
            return None
        tree = self._tree(file)
        stars = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree))
        lazy = any(isinstance(node, ast.Constant) and node.value == name for node in ast.walk(tree))
        if name in set(_bound(tree)) or (lazy and file.endswith("__init__.py")):
            return file
        below = f"{PurePosixPath(file).parent}/"
        inside = (each for each in sorted(self._names) if stars and each.startswith(below) and each.endswith(".py"))
        return next((each for each in inside if self._binds(each, name)), None)

    def _binds(self, file: str, name: str) -> bool:
        return name.encode() in self._zip.read(file) and name in _bound(self._tree(file))

    def _tree(self, file: str) -> ast.Module:
        return ast.parse(self._zip.read(file))

    @cached_property
    def _classes(self) -> dict[str, tuple[ast.ClassDef, str]]:
        """Every class by its name; of several of one name the one whose file is nearest to the top."""
        found: dict[str, tuple[ast.ClassDef, str]] = {}
        for file in sorted(self._names, key=lambda name: (-name.count("/"), name)):
            if file.endswith(".py"):
                found |= {node.name: (node, file) for node in self._tree(file).body if isinstance(node, ast.ClassDef)}
        return found


def download(package: str, version: str, folder: Path) -> Wheel:
    """The wheel of a package, without what it depends on."""
    uv = ["uv", "run", "--no-project", "--python", sys.executable, "--with", "pip", "python", "-m", "pip"]
    words = ["download", "-q", "--no-deps", "--ignore-requires-python", "--only-binary", ":all:", "-d", str(folder)]
    subprocess.run([*uv, *words, f"{package}=={version}"], check=True, timeout=600)
    return Wheel(next(folder.glob(f"{package.replace('-', '_')}-{version}-*.whl")), package)


def facts(names: set[Name]) -> tuple[list[dict[str, str]], list[Name]]:
    """Where each name is in the published wheels, and the names that none of them has."""
    with tempfile.TemporaryDirectory() as folder:
        packages = sorted({package for name in names for package in PACKAGES[name.module]})
        wanted = [(each, versions[each]) for versions in (VERSIONS, LATER) for each in packages if each in versions]
        wheels = {(package, version): download(package, version, Path(folder)) for package, version in wanted}
        found = {name: list(_found(name, wheels)) for name in names}
    listed = [
        {**asdict(name), "package": places[0][0], "version": places[0][1], "where": places[0][2]}
        for name, places in sorted(found.items())
        if places
    ]
    return listed, sorted(name for name, places in found.items() if not places)


def committed() -> dict[str, Any]:
    """The list: `published`, names with package, version and file; `nemo_rl`, what was read of its source."""
    read: dict[str, Any] = json.loads(LIST.read_text(encoding="utf-8"))
    return read


def _found(name: Name, wheels: Mapping[tuple[str, str], Wheel]) -> Iterator[tuple[str, str, str]]:
    """Package, version and file, the first versions of all packages first."""
    for (package, version), wheel in wheels.items():
        if package in PACKAGES[name.module] and (where := wheel.where(name)):
            yield package, version, where


def names_imported(tree: ast.Module) -> Iterator[Name]:
    """Every name that a module imports, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (Name(_top(node.module), "import", f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (Name(_top(alias.name), "import", alias.name) for alias in node.names)


def _bound(tree: ast.Module) -> Iterator[str]:
    """The names that a module binds, also in `if` and `try`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _targets(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (
            str(each) for key, each in value.items() if key == "_target_" or (key == "collate_fn" and "." in each)
        )
        yield from (found for each in value.values() for found in _targets(each))


def _laid_over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{key: _laid_over(below.get(key), value) for key, value in above.items()}}


def _yaml(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def _leaves(value: Mapping[str, Any], where: str = "") -> Iterator[str]:
    for key, each in value.items():
        path = f"{where}.{key}".lstrip(".")
        if isinstance(each, dict):
            yield from _leaves(each, path)
        else:
            yield path


def _texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _top(name: str) -> str:
    return name.partition(".")[0]


if __name__ == "__main__":
    listed, missing = facts(used())
    kept = committed() if LIST.is_file() else {"nemo_rl": {}}
    LIST.write_text(json.dumps({**kept, "published": listed}, indent=1) + "\n", encoding="utf-8")
    print(f"{len(listed)} names; not found: {[name.name for name in missing]}")

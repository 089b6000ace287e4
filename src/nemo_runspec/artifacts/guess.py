"""Which type a path may be of, by the names of its files and the columns of its tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from nemo_runspec.artifacts.checks.parquet import columns_of

_FILES = 2000
"""How many files of a folder are looked at."""

_TEXT = re.compile(r"\.(jsonl|ndjson)(\.gz)?$")
_RESULTS = re.compile(r"(^|/)results?([_-][^/]*)?\.(json|ya?ml)$")
_PARQUET = re.compile(r"\.(parquet|pq)$")
_WEIGHTS = re.compile(r"^(pytorch_model.*\.bin|.*\.safetensors(\.index\.json)?)$")

_BY_NAMES: tuple[tuple[str, Callable[[list[str]], bool]], ...] = (
    ("pretrain_blend", lambda names: "blend.json" in names),
    ("binidx", lambda names: any(n.endswith(".idx") for n in names) and "blend.json" not in names),
    ("checkpoint_lora", lambda names: "adapter_config.json" in names),
    ("checkpoint_hf", lambda names: "config.json" in names and any(map(_WEIGHTS.match, names))),
    ("checkpoint_megatron", lambda names: any(n.endswith(".distcp") or n.split("/")[-1] == ".metadata" for n in names)),
    ("eval_results", lambda names: any(map(_RESULTS.search, names))),
    ("training_jsonl", lambda names: any(map(_TEXT.search, names))),
    ("env_toml", lambda names: any(n.endswith(".toml") for n in names)),
    ("benchmark_source_corpus", lambda names: all(n.endswith((".txt", ".md")) for n in names)),
)


def guesses(path: Path) -> list[str]:
    """The types that a path may be of, the general one of those that look the same. Empty for none that is known."""
    names = _names(path)
    found = [name for name, fits in _BY_NAMES if names and fits(names)]
    return found + _tables(path, names)


def _names(path: Path) -> list[str]:
    """The paths of its files below it; a prefix of Megatron's has two."""
    if path.is_dir():
        return [file.relative_to(path).as_posix() for file in islice(path.rglob("*"), _FILES) if file.is_file()]
    beside = [path.with_name(path.name + ending) for ending in (".idx", ".bin")]
    return [file.name for file in (path, *beside) if file.is_file()]


def _tables(path: Path, names: list[str]) -> list[str]:
    first = next((name for name in sorted(names) if _PARQUET.search(name)), None)
    if first is None:
        return []
    columns = columns_of(str(path / first if path.is_dir() else path))
    if "input_ids" in columns:
        return ["packed_parquet"]
    if {"options", "choices"} & columns:
        return ["mcq_benchmark_parquet"]
    return ["benchmark_parquet"] if "question" in columns else []

"""Prepares a pretraining dataset: find files, tokenise, split, write Megatron files, describe them in a manifest.

`manifest.json` is moved into place last and names every other file with its size and digest. A folder without it, or
with one that does not fit the files, is not a dataset. Until then all lies in one folder below it, from which a run
that was ended goes on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nano3.blend import SPLITS, write_blend
from nano3.cleaning import FORMS
from nano3.corpus import find_files, pieces_of, split_of, texts_of
from nano3.dataset_folder import fresh, is_whole, partial_folder, publish, tell_rows
from nano3.files import sha256_of, write_text_atomic
from nano3.indexed_parts import histogram_of, join, type_code_of
from nano3.inputs import Input, look_at
from nano3.metrics import ShardProgress
from nano3.prepare_shard import tokenize
from nano3.settings import SettingsError, loading
from nano3.shards import MOST, Result, Shard, folder_of, plan_shards, run_shards

LAYOUT = 1
TOKENIZER = "tokenizer"
TOKENIZER_FILES = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "chat_template*", "vocab*", "merges*", "*.model",
    "config.json",
)  # fmt: skip


@dataclass(frozen=True)
class DatasetSettings:
    """One source of text. Without a weight, its weight in the blend is its number of tokens."""

    name: str
    paths: list[str]
    weight: float | None = None
    field: str = "text"
    separator: str | None = None


@dataclass(frozen=True)
class TokenizerSettings:
    """Either a tokenizer to load or the size of one to train."""

    path: str | None = None
    train_vocab_size: int | None = None


@dataclass(frozen=True)
class SplitSettings:
    """Shares of the documents, by a digest of their text."""

    valid: float = 0.01
    test: float = 0.0


@dataclass(frozen=True)
class CleanSettings:
    """What is changed in texts beside the blanks around them: `normalize` to a normal form of Unicode (`NFC`, `NFKC`),
    and whether control characters but tabs and ends of lines are left out.
    """

    normalize: str | None = None
    drop_control: bool = False


@dataclass(frozen=True)
class PrepareSettings:
    """All that the data preparation can be told."""

    output_dir: Path
    datasets: list[DatasetSettings]
    tokenizer: TokenizerSettings
    split: SplitSettings = field(default_factory=SplitSettings)
    clean: CleanSettings = field(default_factory=CleanSettings)
    seed: int = 1234
    workers: int | None = None
    shard_bytes: int = 16_000_000


@dataclass
class Counts:
    """What one split of one dataset holds."""

    documents: int = 0
    tokens: int = 0


def prepare(settings: PrepareSettings, recipe_folder: Path) -> None:
    """Write the dataset into `settings.output_dir`, or say that it is already there."""
    _check(settings)
    files = {dataset.name: find_files(dataset.paths, recipe_folder) for dataset in settings.datasets}
    inputs = {
        dataset.name: [look_at(path, dataset.separator) for path in files[dataset.name]]
        for dataset in settings.datasets
    }
    fingerprint = _fingerprint(settings, inputs)
    output = settings.output_dir.resolve()
    if is_whole(output, fingerprint):
        print(f"up to date: {output}")
        return
    partial = partial_folder(output, f"data-{fingerprint[:16]}-{settings.shard_bytes}")
    try:
        manifest = _build(settings, files, inputs, partial, output)
    except SettingsError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    manifest["fingerprint"] = fingerprint
    publish(partial / "whole", output, manifest)
    shutil.rmtree(partial, ignore_errors=True)
    _report(manifest, output)


def _check(settings: PrepareSettings) -> None:
    names = [dataset.name for dataset in settings.datasets]
    if not names or len(set(names)) != len(names) or not all(re.fullmatch(r"[\w.-]+", name) for name in names):
        raise SettingsError("datasets must name at least one dataset, each once, with letters, digits and _ . -")
    if (settings.tokenizer.path is None) == (settings.tokenizer.train_vocab_size is None):
        raise SettingsError("tokenizer needs either path or train_vocab_size")
    if not 0 < settings.split.valid < 1 or settings.split.test < 0 or settings.split.valid + settings.split.test >= 1:
        raise SettingsError("split.valid must lie between 0 and 1, and valid and test together below 1")
    if settings.clean.normalize not in (None, *FORMS):
        raise SettingsError(f"clean.normalize must be one of {', '.join(FORMS)}, or null")
    if settings.shard_bytes < 1 or (settings.workers is not None and settings.workers < 1):
        raise SettingsError("shard_bytes and workers must be 1 or more")


def _fingerprint(settings: PrepareSettings, inputs: dict[str, list[Input]]) -> str:
    chosen = dataclasses.asdict(settings)
    for unimportant in ("output_dir", "workers", "shard_bytes"):
        del chosen[unimportant]
    if settings.clean == CleanSettings():  # a dataset of before there was this setting is not made anew
        del chosen["clean"]
    known = [LAYOUT, chosen, {name: [(each.name, each.sha256) for each in found] for name, found in inputs.items()}]
    if settings.tokenizer.path is not None and (folder := Path(settings.tokenizer.path)).is_dir():
        known.append([(file.name, sha256_of(file)) for file in tokenizer_files(folder)])
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def tokenizer_files(folder: Path) -> list[Path]:
    """What of a folder a tokenizer is loaded from; a model's weights may lie beside it."""
    return sorted({file for pattern in TOKENIZER_FILES for file in folder.glob(pattern) if file.is_file()})


def _build(
    settings: PrepareSettings,
    files: dict[str, list[Path]],
    inputs: dict[str, list[Input]],
    partial: Path,
    output: Path,
) -> dict[str, Any]:
    tokenizer = _tokenizer(settings, files, partial)
    shards = _plan(settings, files)
    results = _run(settings, shards, tokenizer, partial)
    kept = sum(sum(result["documents"].values()) for result in results)
    tell_rows(results, kept, [each.rows for found in inputs.values() for each in found])
    counts, built = _counts(settings, shards, results), fresh(partial / "whole")
    totals = {split: _sum(per_split[split] for per_split in counts.values()) for split in SPLITS}
    for split in ("train", "valid"):
        if not totals[split].documents:
            raise SettingsError(f"no document fell into the {split} split; change split.valid, or read more text")
    shutil.copytree(partial / TOKENIZER, built / TOKENIZER)
    histogram = _join(settings, shards, partial, built, counts, tokenizer["vocabulary_size"])
    _write_blend(settings, counts, built, output)
    return {
        "layout": LAYOUT,
        "tokenizer": {
            "folder": TOKENIZER,
            "sha256": sha256_of(built / TOKENIZER / "tokenizer.json"),
            "vocabulary_size": tokenizer["vocabulary_size"],
            "eos_token_id": tokenizer["eos_token_id"],
        },
        "splits": {split: dataclasses.asdict(totals[split]) for split in SPLITS},
        "datasets": {
            name: {split: dataclasses.asdict(count) for split, count in per_split.items()}
            for name, per_split in counts.items()
        },
        "valid_unigram_entropy": _entropy(histogram),
    }


def _tokenizer(settings: PrepareSettings, files: dict[str, list[Path]], partial: Path) -> dict[str, int]:
    """What there is to know of the tokenizer, which is written unless an earlier run has done it."""
    facts = partial / "tokenizer.json"
    if not facts.is_file():
        with loading():  # transformers takes its time
            from nano3.tokens import load_tokenizer, save_tokenizer, train_tokenizer
        if settings.tokenizer.path is not None:
            made = load_tokenizer(settings.tokenizer.path)
        else:
            pieces = (
                (dataset, piece)
                for dataset in settings.datasets
                for path in files[dataset.name]
                for piece in pieces_of(path, path.stat().st_size)
            )
            texts = (text for dataset, piece in pieces for text in texts_of(piece, *_reading(settings, dataset)))
            train = (text for text in texts if text and _split(settings, text) == "train")
            made = train_tokenizer(train, settings.tokenizer.train_vocab_size or 0)
        save_tokenizer(made, fresh(partial / TOKENIZER))
        known = {"vocabulary_size": len(made), "eos_token_id": made.eos_token_id}
        write_text_atomic(facts, json.dumps(known))
    found: dict[str, int] = json.loads(facts.read_text(encoding="utf-8"))
    return found


def _split(settings: PrepareSettings, text: str) -> str:
    return split_of(text, settings.seed, settings.split.valid, settings.split.test)


def _plan(settings: PrepareSettings, files: dict[str, list[Path]]) -> list[Shard]:
    total = sum(path.stat().st_size for paths in files.values() for path in paths)
    size = max(settings.shard_bytes, total // MOST)
    return plan_shards(
        ([piece for path in files[dataset.name] for piece in pieces_of(path, size)] for dataset in settings.datasets),
        size,
    )


def _run(settings: PrepareSettings, shards: list[Shard], tokenizer: dict[str, int], partial: Path) -> list[Result]:
    job = {
        "tokenizer": str(partial / TOKENIZER / "tokenizer.json"),
        "type_code": type_code_of(tokenizer["vocabulary_size"]),
        "eos_token_id": tokenizer["eos_token_id"],
        "shares": [settings.seed, settings.split.valid, settings.split.test],
        "rows": [_reading(settings, dataset) for dataset in settings.datasets],
    }
    progress = ShardProgress(len(shards), sum(shard.size for shard in shards))
    return run_shards(
        shards,
        tokenize,
        job,
        partial / "shards",
        lambda shard, result, earlier: progress.show(
            shard.size, sum(result["tokens"].values()), result["rows"], earlier=earlier
        ),
        settings.workers,
    )


def _reading(settings: PrepareSettings, dataset: DatasetSettings) -> tuple[str, str | None, str | None, bool]:
    """How the texts of a dataset are read, as `texts_of` is told."""
    return dataset.field, dataset.separator, settings.clean.normalize, settings.clean.drop_control


def _counts(settings: PrepareSettings, shards: list[Shard], results: list[Result]) -> dict[str, dict[str, Counts]]:
    counts = {dataset.name: {split: Counts() for split in SPLITS} for dataset in settings.datasets}
    for shard, result in zip(shards, results, strict=True):
        for split, count in counts[settings.datasets[shard.group].name].items():
            count.documents += result["documents"][split]
            count.tokens += result["tokens"][split]
    return counts


def _join(
    settings: PrepareSettings,
    shards: list[Shard],
    partial: Path,
    built: Path,
    counts: dict[str, dict[str, Counts]],
    vocabulary: int,
) -> npt.NDArray[np.int64]:
    """Write the files of all datasets; how often each token is in what is for validation."""
    histogram = np.zeros(vocabulary, dtype=np.int64)
    for group, dataset in enumerate(settings.datasets):
        folders = [folder_of(shard, partial / "shards") for shard in shards if shard.group == group]
        for split in SPLITS:
            if counts[dataset.name][split].documents:  # megatron-core cannot map an empty file
                prefix = built / f"{dataset.name}_{split}"
                join([folder / split for folder in folders], prefix, type_code_of(vocabulary))
                if split == "valid":
                    histogram += histogram_of(prefix, type_code_of(vocabulary), vocabulary)
    return histogram


def _sum(counts: Iterable[Counts]) -> Counts:
    every = list(counts)
    return Counts(sum(count.documents for count in every), sum(count.tokens for count in every))


def _write_blend(settings: PrepareSettings, counts: dict[str, dict[str, Counts]], built: Path, output: Path) -> None:
    blends = {
        split: [
            (
                float(counts[dataset.name][split].tokens) if dataset.weight is None else dataset.weight,
                output / f"{dataset.name}_{split}",
            )
            for dataset in settings.datasets
            if counts[dataset.name][split].documents
        ]
        for split in SPLITS
    }
    write_blend(built / "blend.json", blends)


def _entropy(histogram: npt.NDArray[np.int64]) -> float:
    """Entropy in nats per token: the loss of the best guess that looks at no context."""
    shares = histogram[histogram > 0] / histogram.sum()
    return -math.fsum(float(share) * math.log(float(share)) for share in shares)


def _report(manifest: dict[str, Any], output: Path) -> None:
    for split in SPLITS:
        counts = manifest["splits"][split]
        print(f"{split}: {counts['documents']} documents, {counts['tokens']} tokens")
    print(f"unigram entropy of the validation text: {manifest['valid_unigram_entropy']:.4f} nats per token")
    print(f"wrote {output / 'blend.json'}")

"""Prepares a pretraining dataset: find files, tokenise, split, write Megatron files, describe them in a manifest.

`manifest.json` is moved into place last and names every other file with its size and digest. A folder without it, or
with one that does not fit the files, is not a dataset.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerFast

from nano3.blend import SPLITS, write_blend
from nano3.corpus import documents, find_files, split_of
from nano3.files import sha256_of, staging, write_text_atomic
from nano3.indexed import IndexedWriter
from nano3.settings import SettingsError
from nano3.tokens import load_tokenizer, save_tokenizer, train_tokenizer

MANIFEST = "manifest.json"
LAYOUT = 1
BATCH_DOCUMENTS = 1000


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
class PrepareSettings:
    """All that the data preparation can be told."""

    output_dir: Path
    datasets: list[DatasetSettings]
    tokenizer: TokenizerSettings
    split: SplitSettings = field(default_factory=SplitSettings)
    seed: int = 1234
    workers: int = 1


@dataclass
class Counts:
    """What one split of one dataset holds."""

    documents: int = 0
    tokens: int = 0


def prepare(settings: PrepareSettings, recipe_folder: Path) -> None:
    """Write the dataset into `settings.output_dir`, or say that it is already there."""
    _check(settings)
    files = {dataset.name: find_files(dataset.paths, recipe_folder) for dataset in settings.datasets}
    fingerprint = _fingerprint(settings, files)
    output = settings.output_dir.resolve()
    if _is_whole(output, fingerprint):
        print(f"up to date: {output}")
        return
    with staging(output, "data") as built:
        manifest = _build(settings, files, built, output)
        manifest["fingerprint"] = fingerprint
        _publish(built, output, manifest)
    _report(manifest, output)


def _check(settings: PrepareSettings) -> None:
    names = [dataset.name for dataset in settings.datasets]
    if not names or len(set(names)) != len(names) or not all(re.fullmatch(r"[\w.-]+", name) for name in names):
        raise SettingsError("datasets must name at least one dataset, each once, with letters, digits and _ . -")
    if (settings.tokenizer.path is None) == (settings.tokenizer.train_vocab_size is None):
        raise SettingsError("tokenizer needs either path or train_vocab_size")
    if not 0 < settings.split.valid < 1 or settings.split.test < 0 or settings.split.valid + settings.split.test >= 1:
        raise SettingsError("split.valid must lie between 0 and 1, and valid and test together below 1")


def _fingerprint(settings: PrepareSettings, files: dict[str, list[Path]]) -> str:
    chosen = dataclasses.asdict(settings)
    for unimportant in ("output_dir", "workers"):
        del chosen[unimportant]
    inputs = {name: [(path.name, sha256_of(path)) for path in paths] for name, paths in files.items()}
    text = json.dumps([LAYOUT, chosen, inputs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_whole(output: Path, fingerprint: str) -> bool:
    try:
        manifest = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
        return manifest["fingerprint"] == fingerprint and all(
            (output / name).stat().st_size == entry["bytes"] and sha256_of(output / name) == entry["sha256"]
            for name, entry in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError):
        return False


def _build(settings: PrepareSettings, files: dict[str, list[Path]], built: Path, output: Path) -> dict[str, Any]:
    tokenizer = _tokenizer(settings, files)
    save_tokenizer(tokenizer, built / "tokenizer")
    histogram = np.zeros(len(tokenizer), dtype=np.int64)
    counts = {
        dataset.name: _write_dataset(settings, dataset, files[dataset.name], tokenizer, built, histogram)
        for dataset in settings.datasets
    }
    totals = {split: _sum(per_split[split] for per_split in counts.values()) for split in SPLITS}
    for split in ("train", "valid"):
        if not totals[split].documents:
            raise SettingsError(f"no document fell into the {split} split; change split.valid, or read more text")
    _write_blend(settings, counts, built, output)
    return {
        "layout": LAYOUT,
        "tokenizer": {
            "folder": "tokenizer",
            "sha256": sha256_of(built / "tokenizer" / "tokenizer.json"),
            "vocabulary_size": len(tokenizer),
            "eos_token_id": tokenizer.eos_token_id,
        },
        "splits": {split: dataclasses.asdict(totals[split]) for split in SPLITS},
        "datasets": {
            name: {split: dataclasses.asdict(count) for split, count in per_split.items()}
            for name, per_split in counts.items()
        },
        "valid_unigram_entropy": _entropy(histogram),
    }


def _tokenizer(settings: PrepareSettings, files: dict[str, list[Path]]) -> PreTrainedTokenizerFast:
    if settings.tokenizer.path is not None:
        return load_tokenizer(settings.tokenizer.path)
    texts = (
        text
        for dataset in settings.datasets
        for text in _texts(dataset, files[dataset.name])
        if _split(settings, text) == "train"
    )
    return train_tokenizer(texts, settings.tokenizer.train_vocab_size or 0)


def _texts(dataset: DatasetSettings, files: list[Path]) -> Iterator[str]:
    for path in files:
        yield from documents(path, dataset.field, dataset.separator)


def _split(settings: PrepareSettings, text: str) -> str:
    return split_of(text, settings.seed, settings.split.valid, settings.split.test)


def _write_dataset(
    settings: PrepareSettings,
    dataset: DatasetSettings,
    files: list[Path],
    tokenizer: PreTrainedTokenizerFast,
    built: Path,
    valid_histogram: npt.NDArray[np.int64],
) -> dict[str, Counts]:
    counts = {split: Counts() for split in SPLITS}
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(IndexedWriter(built / f"{dataset.name}_{split}", len(tokenizer)))
            for split in SPLITS
        }
        for batch in _batches(_texts(dataset, files)):
            encodings = tokenizer.backend_tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            for text, encoding in zip(batch, encodings, strict=True):
                split, ids = _split(settings, text), [*encoding.ids, tokenizer.eos_token_id]
                writers[split].append(ids)
                counts[split].documents += 1
                counts[split].tokens += len(ids)
                if split == "valid":
                    np.add.at(valid_histogram, ids, 1)
    for split in SPLITS:
        if not counts[split].documents:  # megatron-core cannot map an empty file
            (built / f"{dataset.name}_{split}.bin").unlink()
            (built / f"{dataset.name}_{split}.idx").unlink()
    return counts


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(texts)
    while batch := list(itertools.islice(iterator, BATCH_DOCUMENTS)):
        yield batch


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


def _publish(built: Path, output: Path, manifest: dict[str, Any]) -> None:
    names = sorted(str(path.relative_to(built)) for path in built.rglob("*") if path.is_file())
    manifest["files"] = {
        name: {"bytes": (built / name).stat().st_size, "sha256": sha256_of(built / name)} for name in names
    }
    (output / MANIFEST).unlink(missing_ok=True)
    for name in names:
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (built / name).replace(output / name)
    write_text_atomic(output / MANIFEST, json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def _report(manifest: dict[str, Any], output: Path) -> None:
    for split in SPLITS:
        counts = manifest["splits"][split]
        print(f"{split}: {counts['documents']} documents, {counts['tokens']} tokens")
    print(f"unigram entropy of the validation text: {manifest['valid_unigram_entropy']:.4f} nats per token")
    print(f"wrote {output / 'blend.json'}")

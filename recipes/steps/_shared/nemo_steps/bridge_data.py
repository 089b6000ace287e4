"""Gives Megatron-Bridge our data: indexed tokens as its blend, packed sequences as the NumPy files that it reads.

Read against megatron-bridge 0.3.1 (`data/builders/finetuning_dataset.py`, `data/datasets/sft.py`): packed sequences are
`.npy` files there, of one record with input_ids, loss_mask and seq_start_id per row. They lie in
`<root>/packed/<tokenizer>_pad_seq_to_mult<n>/`. In 0.4.2 (`data/datasets/packed_parquet.py`) they are Parquet
files there, with the columns that ours have; 0.6 has other classes for them (`bridge_packing.py`).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nemo_steps import binidx, bridge_packing, files
from nemo_steps.config import ConfigError

TOKENIZER = "packed"
"""What Megatron-Bridge calls the tokenizer of sequences that are packed already; part of a folder's name."""

PACKING = "megatron.bridge.data.packing"
"""What holds Megatron-Bridge's classes of packed rows, from 0.6 on."""

PARQUET_READER = "megatron.bridge.data.datasets.packed_parquet"
"""The module with which Megatron-Bridge reads packed rows as Parquet, from 0.4 on."""

SPLITS = {"train": "training", "valid": "validation"}
COLUMNS = ("input_ids", "loss_mask", "seq_start_id")
LENGTH = b"sequence_length"


def use_tokens(container: Any, data: str) -> None:
    """Train on the blend of a folder that data_prep/pretrain_prep wrote, or on one pair of `.bin` and `.idx`.

    Args:
        container: Megatron-Bridge's configuration.
        data: the folder, or the pair's prefix.
    """
    blends = binidx.read_blend(Path(data) if Path(f"{data}.idx").is_file() else files.find(data))
    container.dataset.blend = None
    container.dataset.split = None
    container.dataset.blend_per_split = [_flat(blends[split]) for split in binidx.SPLITS]


def use_packed(container: Any, data: str, output: Path) -> None:
    """Train on rows that data_prep/sft_packing packed; the length of sequences is theirs.

    Args:
        container: Megatron-Bridge's configuration.
        data: the folder with train.parquet, and valid.parquet where there is any.
        output: a folder that every process sees; what Megatron-Bridge reads comes below it, by the first process.

    Raises:
        ConfigError: there are no packed rows.
    """
    folder, root = files.find(data), output / "dataset"
    length = length_of(folder / "train.parquet")
    container.model.seq_length = length
    if importlib.util.find_spec(PACKING):
        container.dataset = bridge_packing.dataset(container, folder, root, length)
        return
    from megatron.bridge.data.datasets.packed_sequence import PackedSequenceSpecs
    from megatron.bridge.training.config import FinetuningDatasetConfig

    validates = (folder / "valid.parquet").is_file()
    if os.environ.get("RANK", "0") == "0":  # the others wait for it where Megatron-Bridge builds its datasets
        place = root / "packed" / f"{TOKENIZER}_pad_seq_to_mult1"
        give = give_parquet if importlib.util.find_spec(PARQUET_READER) else write_numpy
        give(folder, place, length, [split for split in SPLITS if split == "train" or validates])
    container.dataset = FinetuningDatasetConfig(
        dataset_root=root,
        seq_length=length,
        packed_sequence_specs=PackedSequenceSpecs(packed_sequence_size=length, tokenizer_model_name=TOKENIZER),
        dataset_kwargs={"pad_to_max_length": True},
        dataloader_type="batch",
        num_workers=container.dataset.num_workers,
        max_train_samples=container.train.train_iters * container.train.global_batch_size,
        do_validation=validates,
        do_test=False,
    )


def length_of(file: Path) -> int:
    """The length that a Parquet file's rows were packed to.

    Raises:
        ConfigError: there is no such file, or it does not say.
    """
    import pyarrow.parquet as pq

    if not file.is_file():
        raise ConfigError(f"there is no {file}; data_prep/sft_packing writes such")
    said = (pq.read_schema(file).metadata or {}).get(LENGTH)
    if said is None:
        raise ConfigError(f"{file} does not say to which length its rows are packed (metadata {LENGTH.decode()})")
    return int(said)


def give_parquet(folder: Path, place: Path, length: int, splits: Iterable[str]) -> None:
    """Let `train.parquet` and `valid.parquet` be where Megatron-Bridge 0.4 looks for them, by its names.

    Args:
        folder: where the Parquet files lie.
        place: where Megatron-Bridge looks.
        length: of the packed rows.
        splits: `train`, `valid`.
    """
    _begin(place, length)
    for split in splits:
        files.link(folder / f"{split}.parquet", place / f"{SPLITS[split]}_{length}.idx.parquet")


def write_numpy(folder: Path, place: Path, length: int, splits: Iterable[str]) -> None:
    """Write the rows of `train.parquet` and `valid.parquet` as Megatron-Bridge's NumPy files; what is there stays.

    Args:
        folder: where the Parquet files lie.
        place: where the NumPy files go.
        length: of the packed rows.
        splits: `train`, `valid`.
    """
    import numpy as np

    _begin(place, length)
    for split in splits:
        file = place / f"{SPLITS[split]}_{length}.npy"
        if not file.is_file():
            rows = np.fromiter(_rows(folder / f"{split}.parquet"), dtype=object)
            partial = file.with_name(f".partial-{file.name}")
            np.save(partial, rows, allow_pickle=True)
            partial.replace(file)


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """The rows as Megatron-Bridge takes them. Arrays: a list of numbers would take eight times the memory."""
    import numpy as np
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(file).iter_batches(256, columns=[*COLUMNS]):
        for ids, mask, starts in zip(*(batch.column(name) for name in COLUMNS), strict=True):
            yield {
                "input_ids": np.array(ids.values, dtype=np.int32),
                "loss_mask": np.array(mask.values, dtype=np.int8),
                "seq_start_id": starts.as_py(),  # a list, to which Megatron-Bridge adds the end
            }


def _begin(place: Path, length: int) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{length}_metadata.jsonl").write_text("[]")  # read always, of use to CUDA graphs alone


def _flat(blend: list[tuple[float, str]]) -> tuple[list[str], list[float]] | None:
    """Megatron's form of a split: its prefixes and its weights, or None."""
    return ([str(prefix) for _, prefix in blend], [weight for weight, _ in blend]) if blend else None

"""Gives Megatron-Bridge packed conversations: the NumPy files that it reads, made of our Parquet rows.

Read against megatron-bridge 0.3.1 (`data/builders/finetuning_dataset.py`, `data/datasets/sft.py`): packed sequences are
`.npy` files there, of one record with input_ids, loss_mask and seq_start_id per row, in
`<root>/packed/<tokenizer>_pad_seq_to_mult<n>/`. `recipes/steps/_shared` has the same, which travels with steps alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nano3.dataset_folder import check_prepared
from nano3.packed import COLUMNS, packed_length

if TYPE_CHECKING:
    from megatron.bridge.training.config import ConfigContainer

TOKENIZER = "packed"
"""What Megatron-Bridge calls the tokenizer of sequences that are packed already; part of a folder's name."""

SPLITS = {"train": "training", "valid": "validation"}


def use_packed(container: ConfigContainer, folder: Path, output: Path) -> None:
    """Train on the rows in `folder`; the length of sequences is theirs.

    Args:
        container: Megatron-Bridge's configuration.
        folder: with train.parquet, and valid.parquet where there is any.
        output: a folder that every process sees; the NumPy files are written below it, by the first process.

    Raises:
        SettingsError: there are no packed rows, or data preparation has not made all of them.
    """
    check_prepared(folder, *(f"{split}.parquet" for split in SPLITS))
    from megatron.bridge.data.datasets.packed_sequence import PackedSequenceSpecs
    from megatron.bridge.training.config import FinetuningDatasetConfig

    root, length = output / "dataset", packed_length(folder / "train.parquet")
    validates = (folder / "valid.parquet").is_file()
    if os.environ.get("RANK", "0") == "0":  # the others wait for it where Megatron-Bridge builds its datasets
        write_numpy(folder, root / "packed" / f"{TOKENIZER}_pad_seq_to_mult1", length)
    container.model.seq_length = length
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


def write_numpy(folder: Path, place: Path, length: int) -> None:
    """Write `train.parquet` and, where there is one, `valid.parquet` as Megatron-Bridge's; what is there stays."""
    import numpy as np

    place.mkdir(parents=True, exist_ok=True)
    (place / f"{length}_metadata.jsonl").write_text("[]")  # read always, of use to CUDA graphs alone
    for split, name in SPLITS.items():
        source, file = folder / f"{split}.parquet", place / f"{name}_{length}.npy"
        if source.is_file() and not file.is_file():
            rows = np.fromiter(_rows(source), dtype=object)
            with (partial := file.with_name(f".partial-{file.name}")).open("wb") as stream:
                np.save(stream, rows, allow_pickle=True)
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

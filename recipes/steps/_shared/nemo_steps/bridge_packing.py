"""Packed rows for Megatron-Bridge 0.6: it takes Parquet files where they lie, by other classes than 0.3 and 0.4.

Read against megatron-bridge 0.6.2 (`data/builders/gpt_sft.py`, `data/packing/`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

TOKENIZER = "packed"
"""What Megatron-Bridge calls the tokenizer of sequences that are packed already; part of a folder's name."""


def dataset(container: Any, folder: Path, root: Path, length: int) -> Any:
    """The configuration of a dataset of rows that are packed already.

    Args:
        container: Megatron-Bridge's configuration.
        folder: with train.parquet, and valid.parquet where there is any.
        root: a folder for what Megatron-Bridge writes beside them.
        length: of the packed rows.
    """
    from megatron.bridge.data.builders import GPTSFTDatasetConfig
    from megatron.bridge.data.packing import PackedSequenceSpecs

    valid = folder / "valid.parquet"
    return GPTSFTDatasetConfig(
        dataset_root=str(root),
        seq_length=length,
        enable_offline_packing=True,
        offline_packing_specs=PackedSequenceSpecs(
            packed_sequence_size=length,
            tokenizer_model_name=TOKENIZER,
            packed_train_data_path=str(folder / "train.parquet"),
            packed_val_data_path=str(valid) if valid.is_file() else None,
        ),
        dataset_kwargs={"pad_to_max_length": True},
        dataloader_type="batch",
        num_workers=container.dataset.num_workers,
        max_train_samples=container.train.train_iters * container.train.global_batch_size,
        do_validation=valid.is_file(),
        do_test=False,
    )

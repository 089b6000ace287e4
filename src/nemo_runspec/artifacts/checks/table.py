"""Checkers by the name that a type has for them."""

from nemo_runspec.artifacts.checks import binidx, checkpoints, documents, rows, tables

MYPY = False
if MYPY:
    from typing import Callable, Dict, Iterator

    from nemo_runspec.artifacts.checks.look import Defect, Inspection

    Checker = Callable[[str, Inspection], Iterator[Defect]]

CHECKERS: "Dict[str, Checker]" = {
    "rows": rows.check_rows,
    "packed_parquet": tables.check_packed,
    "binidx": binidx.check_binidx,
    "pretrain_blend": binidx.check_blend,
    "checkpoint_hf": checkpoints.check_hf,
    "checkpoint_megatron": checkpoints.check_megatron,
    "checkpoint_lora": checkpoints.check_lora,
    "eval_results": documents.check_results,
    "corpus": documents.check_corpus,
    "benchmark_parquet": tables.check_benchmark,
    "mcq_parquet": tables.check_mcq,
    "env_toml": documents.check_env,
}

WANTED = {"packed_parquet": "pyarrow", "benchmark_parquet": "pyarrow", "mcq_parquet": "pyarrow"}
"""What a checker looks at rows with, where the Python that runs it has that package."""

"""Reads packed conversations: Parquet rows of `input_ids`, `loss_mask` and `seq_start_id`, unpacked again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nano3.settings import SettingsError

COLUMNS = ["input_ids", "loss_mask", "seq_start_id"]
LENGTH = b"sequence_length"


@dataclass(frozen=True)
class Conversation:
    """Its tokens and, for each, 1 where the loss counts the token *after* it."""

    ids: list[int]
    mask: list[int]

    @property
    def counted(self) -> int:
        """How many tokens the loss counts."""
        return sum(self.mask[:-1])


def read_packed(file: Path) -> list[Conversation]:
    """Every conversation of a file, in the order of its rows.

    Raises:
        SettingsError: it is no such file.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(file, columns=COLUMNS).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise SettingsError(f"{file} holds no packed conversations: {error}") from error
    return [conversation for row in rows for conversation in unpacked(*(row[name] for name in COLUMNS))]


def packed_length(file: Path) -> int:
    """The length that a file's rows were packed to.

    Raises:
        SettingsError: there is no such file, or it does not say.
    """
    if not file.is_file():
        raise SettingsError(f"there is no {file}; nano3/data/prep/sft writes such")
    import pyarrow.parquet

    said = (pyarrow.parquet.read_schema(file).metadata or {}).get(LENGTH)
    if said is None:
        raise SettingsError(f"{file} does not say to which length its rows are packed")
    return int(said)


def unpacked(ids: list[int], mask: list[int], starts: list[int]) -> list[Conversation]:
    """The conversations of one row: each begins at one of `starts` and ends where the next one begins."""
    ends = [*starts[1:], len(ids)]
    return [Conversation(ids[start:end], mask[start:end]) for start, end in zip(starts, ends, strict=True)]

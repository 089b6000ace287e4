"""Prepares conversations for supervised fine-tuning: tokens with a mask of the answers, packed into rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nano3.conversations import is_marked
from nano3.dataset_folder import fresh, tell_rows
from nano3.packing import pack_files
from nano3.prepare_sft_shard import render
from nano3.rows import SPLITS, prepare_rows, run
from nano3.settings import SettingsError, loading
from nano3.shards import Result, Shard, folder_of

TOO_LONG = ("drop", "cut", "fail")
SHARED = "shared://"
MASKS = 2
"""Of the masks that are made where a template does not mark the answers: those of before are made anew."""


@dataclass(frozen=True)
class ChatTokenizerSettings:
    """A tokenizer, and where wanted a file with another chat template than its own."""

    path: str
    chat_template: str | None = None


@dataclass(frozen=True)
class SftSettings:
    """All that the preparation of conversations can be told."""

    output_dir: Path
    paths: list[str]
    tokenizer: ChatTokenizerSettings
    sequence_length: int
    too_long: str = "drop"
    valid: float = 0.01
    seed: int = 1234
    workers: int | None = None
    shard_bytes: int = 16_000_000


def prepare(settings: SftSettings, recipe_folder: Path) -> None:
    """Write the dataset into `settings.output_dir`, or say that it is already there."""
    if settings.too_long not in TOO_LONG:
        raise SettingsError(f"too_long must be one of {', '.join(TOO_LONG)}, not {settings.too_long!r}")
    if settings.sequence_length < 2:
        raise SettingsError("sequence_length must be 2 or more")
    tokenizer = _tokenizer(settings.tokenizer)
    from nano3.tokens import save_tokenizer

    def build(shards: list[Shard], partial: Path, there: list[int | None]) -> tuple[Path, dict[str, Any]]:
        built = fresh(partial / "whole")
        save_tokenizer(tokenizer, built / "tokenizer")
        job = {
            "tokenizer": str(built / "tokenizer"),
            "sequence_length": settings.sequence_length,
            "too_long": settings.too_long,
            "seed": settings.seed,
            "valid": settings.valid,
        }
        results = run(settings, shards, render, job, partial)
        dropped = tell_rows(results, sum(sum(result["kept"].values()) for result in results), there)
        _tell_answers(results)
        counts = {}
        for split in SPLITS:
            parts = [folder_of(shard, partial / "shards") / f"{split}.parquet" for shard in shards]
            counts[split] = pack_files(parts, built / f"{split}.parquet", settings.sequence_length)
            filled = counts[split]["tokens"] / max(1, counts[split]["rows"] * settings.sequence_length)
            print(f"{split}: {counts[split]['rows']} rows, {counts[split]['tokens']} tokens, {filled:.1%} filled")
        if not counts["train"]["rows"]:
            raise SettingsError("no conversation is left for training")
        return built, {"sequence_length": settings.sequence_length, "splits": counts, "dropped": dropped}

    template = tokenizer.chat_template
    deciding = [tokenizer.backend_tokenizer.to_str(), template, *([] if is_marked(template) else [MASKS])]
    prepare_rows(settings, recipe_folder, deciding, build)


def _tell_answers(results: list[Result]) -> None:
    """Say what a template has kept from being learnt."""
    if refused := next((result["refused"] for result in results if result["refused"]), ""):
        print(f"the first conversation that the template refused: {refused}")
    if passed_over := sum(result["passed_over"] for result in results):
        print(f"{passed_over} answers are context alone: the template writes them otherwise where more follows them")


def _tokenizer(settings: ChatTokenizerSettings) -> Any:
    with loading():  # transformers takes its time
        from nano3.tokens import load_tokenizer
    tokenizer = load_tokenizer(settings.path)
    if settings.chat_template is not None:
        named = settings.chat_template
        shared = Path(__file__).resolve().parent / named.removeprefix(SHARED)
        file = shared if named.startswith(SHARED) else Path(named).expanduser()
        try:
            tokenizer.chat_template = file.read_text(encoding="utf-8")
        except OSError as error:
            raise SettingsError(f"tokenizer.chat_template {named!r} cannot be read: {error.strerror}") from error
    if not tokenizer.chat_template:
        raise SettingsError(f"tokenizer.path {settings.path!r} has no chat template: name one with chat_template")
    return tokenizer

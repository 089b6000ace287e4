"""What the preparations of rows share, fine-tuning's and reinforcement learning's: settings, planning, the run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from nano3.corpus import find_files, objects_of, pieces_of, place_of
from nano3.dataset_folder import is_whole, partial_folder, publish
from nano3.inputs import look_at
from nano3.metrics import ShardProgress
from nano3.pieces import Piece
from nano3.settings import SettingsError
from nano3.shards import MOST, Result, Shard, plan_shards, run_shards

SPLITS = ("train", "valid")
LAYOUT = 1
FORM = 2
"""Of what a shard leaves: a run goes on from shards of this form alone."""
NOT_DECIDING = ("output_dir", "workers", "shard_bytes")
"""Settings on which what is written does not depend."""


class RowSettings(Protocol):
    """What both are told."""

    output_dir: Path
    paths: list[str]
    valid: float
    seed: int
    workers: int | None
    shard_bytes: int


Build = Callable[[list[Shard], Path, list[int | None]], tuple[Path, dict[str, Any]]]


def prepare_rows(settings: Any, recipe_folder: Path, extra: Sequence[object], build: Build) -> None:
    """Write a dataset of rows into `settings.output_dir`, or say that it is already there.

    Args:
        settings: a dataclass that is a `RowSettings`.
        extra: what decides on the result besides the settings and the inputs.
        build: makes it of shards, in a folder that a run before may have left, and is told how many rows each input
            has (`Input.rows`); the folder and its manifest.
    """
    if not 0 <= settings.valid < 1:
        raise SettingsError("valid must lie between 0 and 1")
    if settings.shard_bytes < 1 or (settings.workers is not None and settings.workers < 1):
        raise SettingsError("shard_bytes and workers must be 1 or more")
    files = find_files(settings.paths, recipe_folder)
    chosen = {key: value for key, value in dataclasses.asdict(settings).items() if key not in NOT_DECIDING}
    inputs = [look_at(path) for path in files]
    known = [LAYOUT, chosen, [(each.name, each.sha256) for each in inputs], *extra]
    fingerprint = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
    output = settings.output_dir.resolve()
    if is_whole(output, fingerprint):
        print(f"up to date: {output}")
        return
    partial = partial_folder(output, f"data-{fingerprint[:16]}-{settings.shard_bytes}-{FORM}")
    size = max(settings.shard_bytes, sum(path.stat().st_size for path in files) // MOST)
    shards = plan_shards([[piece for path in files for piece in pieces_of(path, size)]], size)
    try:
        built, manifest = build(shards, partial, [each.rows for each in inputs])
    except SettingsError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    publish(built, output, {"layout": LAYOUT, "fingerprint": fingerprint, **manifest})
    shutil.rmtree(partial, ignore_errors=True)
    print(f"wrote {output}")


def run(
    settings: RowSettings,
    shards: list[Shard],
    work: Callable[[dict[str, Any], Shard, Path], Result],
    job: dict[str, Any],
    partial: Path,
) -> list[Result]:
    """What `work` has said of each shard, with progress."""
    progress = ShardProgress(len(shards), sum(shard.size for shard in shards))
    return run_shards(
        shards,
        work,
        job,
        partial / "shards",
        lambda shard, result, earlier: progress.show(
            shard.size, result.get("tokens", 0), result["rows"], earlier=earlier
        ),
        settings.workers,
    )


def rows_of(piece: Piece) -> Iterator[tuple[dict[str, Any], Callable[[], str]]]:
    """The rows of a piece, each with what tells its place.

    Raises:
        SettingsError: a row is no object.
    """
    for number, row in objects_of(piece):
        if not isinstance(row, dict):
            raise SettingsError(f"{place_of(piece, number)}: no JSON object")
        yield row, lambda number=number: place_of(piece, number)  # type: ignore[misc]

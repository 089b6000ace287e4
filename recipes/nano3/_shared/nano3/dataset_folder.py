"""The folder of a prepared dataset: its manifest comes last, and what is not whole yet lies in one folder below it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nano3.files import PARTIAL, sha256_of, write_text_atomic
from nano3.settings import SettingsError
from nano3.shards import Result

MANIFEST = "manifest.json"


def is_whole(output: Path, fingerprint: str) -> bool:
    """Whether a dataset of this fingerprint is there, with all of its files as they were."""
    try:
        manifest = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
        return manifest["fingerprint"] == fingerprint and all(
            (output / name).stat().st_size == entry["bytes"] and sha256_of(output / name) == entry["sha256"]
            for name, entry in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError):
        return False


def check_files(folder: Path, *names: str, key: str = "data_dir") -> None:
    """Raise where a folder is no prepared dataset, or one of these files is there and is not what its manifest names.

    A file is held to its size alone: each process of a training looks at it, and may be one of many.

    Args:
        folder: of the dataset.
        names: the files in it.
        key: what the settings call it.

    Raises:
        SettingsError: it is so.
    """
    files, wrong = _files_of(folder), f"{key} {folder} holds no whole dataset:"
    if files is None:
        raise SettingsError(f"{wrong} it has no {MANIFEST}, which is written last")
    for name in names:
        entry, size = files.get(name), (folder / name).stat().st_size if (folder / name).exists() else None
        if entry is None and size is not None:
            raise SettingsError(f"{wrong} {name} is not named in {MANIFEST}; remove it")
        if entry is not None and size != entry["bytes"]:
            raise SettingsError(f"{wrong} {name} is not what {MANIFEST} tells of; prepare it anew")


def check_prepared(folder: Path, *names: str, key: str = "data_dir") -> None:
    """Raise as `check_files` does, where data preparation has made the folder, or had begun to.

    Files that somebody else has made have neither such a manifest nor unfinished shards beside them, and are taken.
    """
    if _files_of(folder) is not None or any(folder.glob(f"{PARTIAL}data-*")):
        check_files(folder, *names, key=key)


def partial_folder(output: Path, name: str) -> Path:
    """The folder in which the dataset comes to be; those of other inputs and settings are cleared away."""
    output.mkdir(parents=True, exist_ok=True)
    partial = output / f"{PARTIAL}{name}"
    for stale in output.glob(f"{PARTIAL}data-*"):
        if stale != partial:
            shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(exist_ok=True)
    return partial


def fresh(folder: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def publish(built: Path, output: Path, manifest: dict[str, Any]) -> None:
    """Move the files of a folder into place, and the manifest, which names them all, after them.

    What the manifest before named and this one does not is removed first: nobody is to read it beside the new files.
    """
    names = sorted(str(path.relative_to(built)) for path in built.rglob("*") if path.is_file())
    manifest["files"] = {
        name: {"bytes": (built / name).stat().st_size, "sha256": sha256_of(built / name)} for name in names
    }
    for stale in sorted((_files_of(output) or {}).keys() - set(names)):
        if (output / stale).resolve().is_relative_to(output.resolve()):
            (output / stale).unlink(missing_ok=True)
    (output / MANIFEST).unlink(missing_ok=True)
    for name in names:
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (built / name).replace(output / name)
    write_text_atomic(output / MANIFEST, json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def tell_rows(
    results: Sequence[Result], kept: int, there: Sequence[int | None], dropped: Counter[str] | None = None
) -> dict[str, int]:
    """Say how many rows were read, kept and dropped, and why; the reasons with their numbers.

    Args:
        kept: how many are in the dataset. `dropped`: those that were dropped after their shard was made.
        there: how many rows each input has, where that was counted before it was cut.

    Raises:
        RuntimeError: a row was lost, or is there twice, or the inputs have changed meanwhile.
    """
    rows = sum(result["rows"] for result in results)
    counted, is_known = sum(each or 0 for each in there), None not in there
    if rows < counted or (is_known and rows > counted):
        raise RuntimeError(f"the inputs have {counted} rows{'' if is_known else ' or more'}, and {rows} were read")
    reasons = sum((Counter(result["dropped"]) for result in results), Counter(dropped or {}))
    if rows != kept + reasons.total():
        raise RuntimeError(f"{rows} rows were read, {kept} were kept and {reasons.total()} were not")
    words = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    print(f"{rows} rows: {kept} kept, {reasons.total()} dropped{f' ({words})' if words else ''}")
    return dict(sorted(reasons.items()))


def _files_of(folder: Path) -> dict[str, dict[str, Any]] | None:
    """What the manifest of a folder names; None where there is none of ours that can be read."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {name: {**entry, "bytes": int(entry["bytes"])} for name, entry in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None

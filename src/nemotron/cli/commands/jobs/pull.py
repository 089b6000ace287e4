"""`nemotron jobs pull`."""

from __future__ import annotations

import sys
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.console import is_quiet
from nemo_runspec.errors import UserError
from nemo_runspec.text import count, size
from nemotron.cli.commands.jobs.messages import say
from nemotron.cli.forms import print_json
from nemotron.cli.text import colour_wanted

if TYPE_CHECKING:
    from nemo_runspec.backends.capabilities import KeptFiles
    from nemo_runspec.remote.pull import Wanted
    from nemo_runspec.transport.tree import FileStore, FileTree, Pulled


def call(job: str, what: str | None, to: str | None, dry_run: bool, as_json: bool) -> int:
    """Brings what a job has made into a folder here."""
    from nemo_runspec.paths import expanded
    from nemo_runspec.records import JobStore
    from nemo_runspec.records.settle import settled
    from nemo_runspec.remote.pull import LOGS, OUTPUTS, kept_files, log_files, wanted_of
    from nemo_runspec.sweeps.overview import find_job

    store = JobStore()
    record = settled(store, find_job(store, job).name)
    kept = log_files(store, record) if what == LOGS else kept_files(store, record)
    wanted = wanted_of(store, record, kept, what or OUTPUTS)
    trees = {each: _tree(kept, each) for each in wanted}
    top = expanded(to) if to else Path.cwd() / record.name
    if dry_run:
        return _show(trees, as_json)
    folders = {each.name: top / each.name for each in wanted}
    for each, tree in trees.items():
        brought(kept.store, tree, folders[each.name] if tree.is_folder else top, each.name)
    if as_json:
        print_json({name: str(folder) for name, folder in folders.items()})
    else:
        print("\n".join(str(folder) for folder in folders.values()))
    return 0


def _tree(kept: KeptFiles, wanted: Wanted) -> FileTree:
    from dataclasses import replace

    from nemo_runspec.remote.pull import not_there

    tree = kept.store.listed(wanted.path)
    if tree is None:
        raise not_there(kept, wanted)
    if not wanted.only:
        return tree
    return replace(tree, files=[f for f in tree.files if any(fnmatch(f.path, pattern) for pattern in wanted.only)])


def _show(trees: dict[Wanted, FileTree], as_json: bool) -> int:
    """What would be brought, and how much it is."""
    if as_json:
        print_json([
            {"name": each.name, "path": each.path, "files": len(tree.files), "bytes": _bytes(tree)}
            for each, tree in trees.items()
        ])  # fmt: skip
        return 0
    for each, tree in trees.items():
        print(f"{each.name}: {count(len(tree.files), 'file')}, {size(_bytes(tree))}, from {each.path}")
    return 0


def _bytes(tree: FileTree) -> int:
    return sum(file.size for file in tree.files if not file.link)


def brought(store: FileStore, tree: FileTree, target: Path, name: str) -> None:
    """Brings files into a folder here, and says how far it is. Raises `UserError` where it cannot."""
    from nemo_runspec.transport.base import Unreachable

    shown = _Shown(name)
    try:
        state = store.pull(tree, target, shown)
    except Unreachable as error:
        error.remedy = "the same command goes on where this ended"
        raise
    except OSError as error:
        raise UserError(f"{name} cannot be written: {error.strerror or error}", where=error.filename) from None
    finally:
        shown.clear()
    there = f", {size(state.there)} of it here before" if state.there else ""
    say(f"{name}: {count(state.files, 'file')}, {size(state.bytes)}{there}")


class _Shown:
    """How far it is, in one line of a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()
        self._drawn = False
        self._wanted = colour_wanted(sys.stderr) and not is_quiet()

    def __call__(self, state: Pulled) -> None:
        if not self._wanted or not state.bytes:
            return
        from nemo_runspec.visible import unfiltered

        rate = (state.done_bytes - state.there) / max(0.001, time.monotonic() - self._began)
        part = f"{100 * state.done_bytes / state.bytes:.0f} %, {size(round(rate))}/s"
        line = f"{self._name}: {size(state.done_bytes)} of {size(state.bytes)}, {part}"
        unfiltered(sys.stderr).write(f"\r\x1b[K{line}")
        sys.stderr.flush()
        self._drawn = True

    def clear(self) -> None:
        """Takes the line away."""
        if self._drawn:
            from nemo_runspec.visible import unfiltered

            unfiltered(sys.stderr).write("\r\x1b[K")
            sys.stderr.flush()

"""Runs one function over many shards in Ray's tasks, keeps what each has made, and goes on where a run was ended.

A shard is what one task reads. What it makes lies in a folder of its own, which is moved into place when it is whole:
what is there is never made again. Ray has the task of a lost worker or node run elsewhere, up to three times.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nano3.files import write_text_atomic
from nano3.pieces import Piece
from nano3.settings import SettingsError

DONE = "done.json"
MOST = 20_000
"""Shards of a run, about: the larger the input, the larger is a shard."""
LEAST_WAITING = 64
"""Tasks that Ray is told of at a time, at least: enough for the nodes that may join a small cluster."""
Result = dict[str, Any]


@dataclass(frozen=True)
class Shard:
    """Some pieces of one dataset. `group`: its number; `size`: bytes to read."""

    number: int
    group: int
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """How many bytes there are to read."""
        return sum(piece.size for piece in self.pieces)


def plan_shards(groups: Iterable[Iterable[Piece]], size: int) -> list[Shard]:
    """Shards of about `size` bytes, in the order of the pieces; none has pieces of two groups."""
    shards: list[Shard] = []
    for group, pieces in enumerate(groups):
        held: list[Piece] = []
        room = size
        for piece in pieces:
            if held and piece.size > room:
                shards.append(Shard(len(shards), group, tuple(held)))
                held, room = [], size
            held.append(piece)
            room -= piece.size
        if held:
            shards.append(Shard(len(shards), group, tuple(held)))
    return shards


def folder_of(shard: Shard, top: Path) -> Path:
    """Where what a shard has made lies."""
    return top / f"{shard.number:06d}"


def run_shards(
    shards: list[Shard],
    work: Callable[[dict[str, Any], Shard, Path], Result],
    job: dict[str, Any],
    top: Path,
    hear: Callable[[Shard, Result, bool], None],
    workers: int | None = None,
) -> list[Result]:
    """What `work(job, shard, folder)` has said of each shard, in order.

    Args:
        work: a function of a module of this package, which is called where the task runs. It writes into the folder.
        job: what it is told besides; JSON.
        top: the folder of all shards, which every node sees.
        hear: told of each shard that is made; the last argument is whether an earlier run has made it.
        workers: the most tasks at a time; by default one for each CPU of the cluster.

    Raises:
        SettingsError: of a shard.
    """
    top.mkdir(parents=True, exist_ok=True)
    found: dict[int, Result] = {}
    for shard in shards:
        if (result := _result(folder_of(shard, top))) is not None:
            found[shard.number] = result
            hear(shard, result, True)
    todo = [shard for shard in shards if shard.number not in found]
    told = {"work": [work.__module__, work.__name__], "job": job, "top": str(top)}
    for result in _through_ray(todo, json.dumps(told), workers) if todo else ():
        if "error" in result:
            raise SettingsError(result["error"])
        found[result["number"]] = result
        hear(shards[result["number"]], result, False)
    _tell_nodes(found.values())
    return [found[shard.number] for shard in shards]


def make(told: str, text: str) -> str:
    """Makes one shard, where its task runs, unless it is there; its result, or the words of a `SettingsError`."""
    order, fields = json.loads(told), json.loads(text)
    shard = Shard(fields["number"], fields["group"], tuple(Piece(**piece) for piece in fields["pieces"]))
    final = folder_of(shard, Path(order["top"]))
    result = _result(final)
    if result is None:
        module, name = order["work"]
        built = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=order["top"]))
        try:
            result = {**getattr(importlib.import_module(module), name)(order["job"], shard, built), **_number(shard)}
            result["node"] = os.uname().nodename
            write_text_atomic(built / DONE, json.dumps(result))
            _move(built, final)
        except SettingsError as error:
            return json.dumps({"error": str(error), **_number(shard)})
        finally:
            shutil.rmtree(built, ignore_errors=True)
    return json.dumps(result)


def _tell_nodes(results: Iterable[Result]) -> None:
    """Says which machine has made how many shards, where that were several."""
    nodes = Counter(result.get("node", "?") for result in results)
    if len(nodes) > 1:
        print(f"shards by node: {', '.join(f'{name} {count}' for name, count in sorted(nodes.items()))}", flush=True)


def _number(shard: Shard) -> Result:
    return {"number": shard.number}


def _result(folder: Path) -> Result | None:
    try:
        found: Result = json.loads((folder / DONE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def _move(built: Path, final: Path) -> None:
    try:
        built.replace(final)
    except OSError:
        if _result(final) is None:  # else another attempt at the same task was first, with the same bytes
            raise


def _through_ray(shards: list[Shard], told: str, workers: int | None) -> Iterator[Result]:
    """The results, as they come. Ray's tasks themselves: Ray Data takes seconds of each process, and has actors."""
    import ray

    if not ray.is_initialized():
        own: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"include_dashboard": False}
        ray.init(logging_level="ERROR", **own)
    task = ray.remote(_task(told, str(Path(__file__).resolve().parents[1])))
    task = task.options(num_cpus=1, scheduling_strategy="SPREAD", name="shard")
    left = iter(shards)
    most = workers or max(LEAST_WAITING, 4 * int(ray.cluster_resources().get("CPU", 1)))
    waiting = [task.remote(_text(shard)) for shard in itertools.islice(left, most)]
    try:
        while waiting:
            made, waiting = ray.wait(waiting)
            waiting += [task.remote(_text(shard)) for shard in itertools.islice(left, len(made))]
            yield from map(json.loads, ray.get(made))
    finally:
        for each in waiting:  # one has said that an input is wrong
            ray.cancel(each)


def _text(shard: Shard) -> str:
    return json.dumps(dataclasses.asdict(shard))


def _task(told: str, shared: str) -> Callable[[str], str]:
    """What Ray sends to a worker, which has this package at the same place but does not look for it there."""

    def task(shard: str) -> str:
        import os
        import sys

        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a task has one core
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that there is no PyTorch here
        if shared not in sys.path:
            sys.path.insert(0, shared)
        from nano3 import shards

        return shards.make(told, shard)

    return task

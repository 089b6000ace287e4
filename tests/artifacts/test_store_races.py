"""Many who change a store at once, in a folder, over a host and in a bucket: each number is one version's, and `latest`
the newest there is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from killed_at import killed_at
from labs.s3.fixtures import s3_lab
from labs.s3.lab import S3Lab

from nemo_runspec.artifacts.local_store import LocalStorage
from nemo_runspec.artifacts.registry import Registry, Version
from nemo_runspec.artifacts.store_changes import WritableStorage, add, remove
from nemo_runspec.errors import UserError
from nemo_runspec.remote.artifact_stores import HostStorage
from nemo_runspec.remote.bucket_store import BucketStorage
from nemo_runspec.transport.connect import connect

__all__ = ["s3_lab"]

Opened = Callable[[], WritableStorage]


@pytest.fixture(params=["folder", "host", "bucket"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, s3_lab: S3Lab, monkeypatch) -> Iterator[Opened]:
    """Opens the store once more, as another process would."""
    for name, value in s3_lab.environment().items():
        monkeypatch.setenv(name, value)
    root = str(tmp_path / "store")
    (tmp_path / "data").mkdir()
    for number in range(20):
        (tmp_path / "data" / f"{number}.txt").write_text(str(number))
    ways: dict[str, Opened] = {
        "folder": lambda: LocalStorage(root),
        "host": lambda: HostStorage(connect(), root),
        "bucket": lambda: BucketStorage("s3://bucket/store", s3_lab.endpoint, s3_lab.region),
    }
    yield ways[request.param]


def versions(opened: Opened) -> list[Version]:
    return Registry(opened()).versions("words")


def test_twenty_at_once_have_a_number_each(opened, tmp_path):
    def register(number: int) -> int:
        return add(opened(), "words", str(tmp_path / "data" / f"{number}.txt"), type="text").number

    with ThreadPoolExecutor(20) as pool:
        assert sorted(pool.map(register, range(20))) == list(range(1, 21))
    found = versions(opened)
    assert [each.number for each in found] == list(range(20, 0, -1))
    assert [each.number for each in found if each.latest] == [20]
    assert len({each.path for each in found}) == 20 and len({each.digest for each in found}) == 20


def test_what_is_added_while_others_are_removed_is_there_and_latest_is_the_newest(opened, tmp_path):
    for number in range(4):
        add(opened(), "words", str(tmp_path / "data" / f"{number}.txt"), type="text")
    old = versions(opened)

    def change(number: int) -> None:
        if number % 2:
            with suppress(UserError):  # two of them may remove the same
                remove(opened(), old[number // 2 % len(old)], data=False)
        else:
            add(opened(), "words", str(tmp_path / "data" / f"{number + 4}.txt"), type="text")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(16)))
    found = versions(opened)
    assert [each.number for each in found] == list(range(12, 4, -1))
    assert [each.number for each in found if each.latest] == [12]


REMOVES = killed_at(("replace", "symlink", "unlink", "fsync"), 'changes.remove(sys.argv[1], "words", 2, False)')


def test_a_removal_that_is_killed_anywhere_leaves_a_store_that_can_be_read_and_added_to(tmp_path):
    (tmp_path / "x").write_text("x")
    for at in range(1, 20):
        storage = LocalStorage(str(tmp_path / str(at)))
        for _ in range(2):
            add(storage, "words", str(tmp_path / "x"), type="text")
        code = subprocess.run([sys.executable, "-c", REMOVES, storage.root, str(at)]).returncode
        assert {each.number for each in Registry(storage).versions("words")} in ({1, 2}, {1})
        assert add(storage, "words", str(tmp_path / "x"), type="text").number == 3
        assert os.path.lexists(f"{storage.root}/words/latest")
        assert json.loads(Path(storage.root, "words", ".versions", "v3.json").read_text())["version"] == 3
        if code == 0:
            break
    assert code == 0 and at > 3

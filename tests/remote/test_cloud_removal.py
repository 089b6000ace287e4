"""What is left of a cloud's job, on its storage and on its platform: removed, or said, and taken up the next time."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from job_records import record, stored

from nemo_runspec.backends.capabilities import KeepsJobs
from nemo_runspec.backends.cloud.removal import remove_directory
from nemo_runspec.backends.provider import Handle, LogChunk
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobStore
from nemo_runspec.remote import deletion

NOBODY = 65534


@contextmanager
def as_user() -> Iterator[None]:
    """Without root's right to remove everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A job's directory below one that every user can reach, with a file that its owner may not remove."""
    top = Path(tempfile.mkdtemp(dir="/tmp"))
    top.chmod(0o755)
    job = top / "jobs" / "job-[1]"
    (job / "checkpoint").mkdir(parents=True)
    (job / "checkpoint" / "a").write_text("a")
    for path in (top / "jobs", job, job / "checkpoint") if os.geteuid() == 0 else ():
        os.chown(path, NOBODY, -1)
    (job / "checkpoint").chmod(0o555)
    try:
        yield job
    finally:
        for path in top.rglob("checkpoint"):
            path.chmod(0o755)
        shutil.rmtree(top)


def test_what_could_not_be_removed_is_taken_up_again(folder):
    other = folder.with_name(f".{folder.name}x.01234567")
    handle = {"name": folder.name, "here": str(folder), "id": "j-1"}
    with as_user():
        other.mkdir()
        for _ in range(2):
            with pytest.raises(UserError, match="cannot be removed: Permission denied"):
                remove_directory(handle)
        assert not folder.exists()
        (left,) = folder.parent.glob(".*/checkpoint")
        left.chmod(0o755)
        remove_directory(handle)
        assert list(folder.parent.iterdir()) == [other]
        remove_directory(handle)


@KeepsJobs.register
class Platform:
    """Keeps attempts; those in `refused` cannot be deleted."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def read_log(
        self, handle: Handle, offsets: Mapping[str, int], limit: int, *, platform: bool = False
    ) -> list[LogChunk]:
        return []

    def delete_remote(self, handle: Handle) -> Sequence[str]:
        if handle["id"] in self.refused:
            raise UserError("no permission")
        return [f"workload {handle.get('workload') or handle['name']} ({handle['id']})"]


@pytest.fixture
def forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Sequence[str], bool]]:
    """What is said to be deleted of a job of two attempts, and whether that is all."""

    def forget(*refused: str) -> tuple[Sequence[str], bool]:
        platform, store = Platform(), JobStore(tmp_path / "jobs")
        platform.refused = set(refused)
        monkeypatch.setattr(deletion, "get_backend", lambda name: SimpleNamespace(load_provider=lambda: platform))
        handle = {"name": "job", "id": "j-1", "workload": "job-r1", "attempt": 1, "tried": [{"id": "j-0"}]}
        made = stored(store, record("job", ("planned", "cancelled"), executor="cloud", handle=handle))
        deleted, problems = deletion.delete_ended(store, [made], lambda line: print(line, file=sys.stderr))
        return deleted["job"], not problems

    return forget


def test_each_attempt_is_named_as_its_platform_knows_it(forgotten):
    assert forgotten() == (["workload job (j-0)", "workload job-r1 (j-1)"], True)


def test_what_was_deleted_is_said_where_the_rest_was_not(forgotten, capsys):
    assert forgotten("j-1") == (["workload job (j-0)"], False)
    assert "what its platform keeps of it was not deleted whole: no permission" in capsys.readouterr().err

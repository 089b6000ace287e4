"""A copy of a job's logs that came damaged, at any byte: its logs as they were, or an error for the person."""

from __future__ import annotations

import gzip
import io
import random
import tarfile

import pytest

from nemo_runspec.backends.dgxcloud.logs import s3_copy
from nemo_runspec.errors import UserError
from nemo_runspec.packaging.unpack import unpack

LOGS = {"logs/node-0.log": b"step 1\nstep 2\n" * 20, "logs/node-1.log": bytes(range(256))}


def archive(files=LOGS) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def attempt(content: bytes) -> bool:
    try:
        s3_copy.logs_in(content)
    except UserError as error:
        assert "cut off or damaged" in error.what
        return False
    return True


def test_whole():
    assert s3_copy.logs_in(archive()) == LOGS


def test_cut_off_at_every_byte():
    content = archive()
    assert not any([attempt(content[:end]) for end in range(len(content) - 8)])


def test_every_byte_changed():
    content = archive()
    for at in range(len(content)):
        for value in (0, 255, content[at] ^ 1, content[at] ^ 128):
            attempt(content[:at] + bytes([value]) + content[at + 1 :])


def test_a_damaged_tar_in_a_whole_gzip():
    """A number that is none in a header, sizes beyond the end, unknown kinds, extended headers of nothing."""
    dice = random.Random(1)
    plain = gzip.decompress(archive())
    for _ in range(1500):
        changed = bytearray(plain)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        attempt(gzip.compress(bytes(changed), 1))


def test_more_than_anybody_reads(monkeypatch):
    monkeypatch.setattr(s3_copy, "_MOST", 100)
    with pytest.raises(UserError, match="larger than"):
        s3_copy.logs_in(archive())


@pytest.mark.parametrize("with_tar", [True, False])
def test_a_damaged_package(tmp_path, monkeypatch, with_tar):
    """The code package as it lies in the cache: the same, with the system's tar and without."""
    if not with_tar:
        monkeypatch.setattr("shutil.which", lambda name: None)
    content = archive()
    file = tmp_path / "package.tar.gz"
    for number, end in enumerate(range(0, len(content), 97 if with_tar else 7)):
        file.write_bytes(content[:end])
        with pytest.raises(UserError, match=r"cannot be unpacked|damaged"):
            unpack(file, tmp_path / f"x{number}")
        assert not list(tmp_path.glob("x*")) and not list(tmp_path.glob(".x*"))

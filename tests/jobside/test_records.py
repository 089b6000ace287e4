"""Records: whole or not at all, whenever their writer is killed and however full the disk is."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_scripts import kill

from nemo_runspec.jobside import values
from nemo_runspec.jobside.records import Folder

WRITER = """
import sys
from nemo_runspec.jobside.records import Folder
folder, number = Folder(sys.argv[1]), 0
while True:
    number += 1
    folder.write("one", {"number": number, "text": "x" * 20000})
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_writer_that_is_killed_at_any_moment_leaves_a_whole_record(tmp_path: Path, seed: int):
    folder = Folder(str(tmp_path))
    folder.write("one", {"number": 0, "text": "x" * 20000})
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    time.sleep(0.1 + random.Random(seed).random() / 10)
    kill(writer.pid)
    writer.wait()
    assert folder.read("one")["text"] == "x" * 20000


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": 1} x', "\0", '{"a": NaN', "9" * 5000])
def test_what_is_no_record_reads_as_none(tmp_path: Path, text: str):
    (tmp_path / "one").write_text(text)
    assert Folder(str(tmp_path)).read("one") == {}


def test_a_record_is_its_owners_alone_and_there_is_no_draft_of_it(tmp_path: Path):
    folder = Folder(str(tmp_path / "status"))
    folder.make()
    folder.write("one", {"a": 1})
    assert list(folder.names()) == ["one"]
    assert (Path(folder.path).stat().st_mode & 0o777, Path(folder.file("one")).stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_writes_is_the_folders_owners(tmp_path: Path):
    os.chown(tmp_path, 12345, 12346)
    Folder(str(tmp_path)).write("one", {"a": 1})
    found = (tmp_path / "one").stat()
    assert (found.st_uid, found.st_gid) == (12345, 12346)


def test_where_it_cannot_be_written_nothing_has_changed(tmp_path: Path):
    folder = Folder(str(tmp_path / "gone"))
    with pytest.raises(OSError, match="No such file"):
        folder.write("one", {"a": 1})
    assert not folder.note("one", "text")
    assert (folder.read("one"), folder.text("one"), list(folder.names())) == ({}, "", [])


def test_a_draft_is_no_name_of_a_record(tmp_path: Path):
    (tmp_path / "here.1.77.tmp").touch()
    (tmp_path / "here.1").touch()
    assert list(Folder(str(tmp_path)).names()) == ["here.1"]


NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda more: st.lists(more, max_size=4) | st.dictionaries(st.text(), more, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_values_are_written_and_read_as_json_does(value: object):
    assert json.loads(values.write(value)) == value
    assert values.read(json.dumps(value, indent=2)) == value
    assert "\n" not in values.write(value)

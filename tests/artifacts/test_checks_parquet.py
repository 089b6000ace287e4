"""Tables as pyarrow writes them, tensors as safetensors does: they pass, and what is wrong is found with its row."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labs.cache import CACHE, UV_CACHE
from support import make_project, process

from nemo_runspec.artifacts.checks.main import check
from nemo_runspec.artifacts.checks.parquet import columns_of
from nemo_runspec.artifacts.guess import guesses
from nemo_runspec.envs import ensure_env
from nemo_runspec.plans.model import PythonEnv
from nemo_runspec.script.programs import CHECKS_PROGRAM, program_text

pytestmark = pytest.mark.slow

PACKED = {"input_ids": [1, 2, 3, 4], "loss_mask": [0, 1, 1, 1], "seq_start_id": [0, 2]}
MCQ = {"question": "What?", "options": ["this", "that"], "answer": "B"}

WRITE = """
import json, sys
import pyarrow as pa, pyarrow.parquet as parquet
rows, path = json.loads(sys.argv[1]), sys.argv[2]
table = pa.table({name: [row[name] for row in rows] for name in rows[0]}) if rows else pa.table({"input_ids": []})
parquet.write_table(table, path, row_group_size=int(sys.argv[3]))
"""
TENSORS = """
import sys, numpy, safetensors.numpy
made = {"a": numpy.zeros((2, 3), numpy.float32), "b": numpy.ones(0, numpy.int8), "c": numpy.ones((), numpy.float16)}
safetensors.numpy.save_file(made, sys.argv[1])
"""


@pytest.fixture(scope="session")
def python() -> Path:
    """A Python with what writes these files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEMOTRON_HOME", str(CACHE / "tables"))
        patch.setenv("UV_CACHE_DIR", str(UV_CACHE))
        made = PythonEnv(dependencies=("pyarrow>=17", "safetensors", "numpy"), requires_python=">=3.10")
        folder = ensure_env(made, print)
    assert folder is not None
    return folder / "python"


@pytest.fixture
def write(python, tmp_path) -> Callable[..., Path]:
    def written(*rows: dict[str, Any], name: str = "x.parquet", group: int = 3) -> Path:
        subprocess.run([python, "-c", WRITE, json.dumps(rows), tmp_path / name, str(group)], check=True)
        return tmp_path / name

    return written


@pytest.fixture
def found(python) -> Callable[..., list[str]]:
    """What the checkers' program says where pyarrow is to be had."""

    def said(path: Path, checker: str, *, whole: bool = True) -> list[str]:
        asked = json.dumps({"look": [{"path": str(path), "check": checker}], "whole": whole})
        words = [python, "-c", program_text(CHECKS_PROGRAM), "--equipped"]
        done = subprocess.run(words, input=asked, capture_output=True, text=True, check=True)
        (answer,) = json.loads(done.stdout)["found"]
        assert (answer["unchecked"], answer["notes"]) == ("", [])
        return [f"{each['place']}|{each['what']}" for each in answer["findings"]]

    return said


def test_packed_sequences_are_as_they_should_be(write, found, tmp_path):
    for number in range(3):
        write(*([PACKED] * 8), name=f"shard_{number}.idx.parquet")
    assert found(tmp_path, "packed_parquet") == found(tmp_path, "packed_parquet", whole=False) == []
    assert guesses(tmp_path) == ["packed_parquet"]
    assert columns_of(str(tmp_path / "shard_0.idx.parquet")) == set(PACKED)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"loss_mask": [0, 1, 1]}, "input_ids has 4 entries, loss_mask 3"),
        ({"loss_mask": [0, 1, 1, 2]}, "loss_mask holds more than 0 and 1"),
        ({"input_ids": [1, 2, 3, -4]}, "input_ids holds what is no token"),
        ({"input_ids": [1, 2, 3, None]}, "input_ids holds what is no token"),
        ({"input_ids": None}, "input_ids is not a list"),
        ({"seq_start_id": [1, 2]}, "seq_start_id does not begin with 0"),
        ({"seq_start_id": []}, "seq_start_id does not begin with 0"),
        ({"seq_start_id": [0, 2, 2]}, "seq_start_id does not increase"),
        ({"seq_start_id": [0, 4]}, "seq_start_id 4 is outside its 4 tokens"),
    ],
)
def test_a_packed_row_that_is_wrong_is_found_by_its_number(write, found, changed, what):
    path = write(*([PACKED] * 7), {**PACKED, **changed}, PACKED)
    assert found(path, "packed_parquet") == [f"row 7|{what}"]


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({}, None),
        ({"answer": "that"}, None),
        ({"answer": "1"}, None),
        ({"answer": "(a)"}, None),
        ({"answer": "C"}, 'the answer "C" is none of its 2 options'),
        ({"answer": "other"}, 'the answer "other" is none of its 2 options'),
        ({"answer": None}, "has no answer"),
        ({"question": " "}, "has no question"),
        ({"options": ["this"]}, "options are no list of two or more"),
    ],
)
def test_questions(write, found, changed, what):
    path = write(MCQ, {**MCQ, **changed})
    assert found(path, "mcq_parquet") == ([f"row 1|{what}"] if what else [])
    assert guesses(path) == ["mcq_benchmark_parquet"]


def test_a_table_without_a_column_or_rows(write, found):
    path = write({"input_ids": [1], "other": {"loss_mask": [1]}})
    assert found(path, "packed_parquet") == [
        "|has no column loss_mask; it has input_ids, other",
        "|has no column seq_start_id; it has input_ids, other",
    ]
    assert found(write({"question": "a"}), "benchmark_parquet")[0].startswith("|has no column answer or")
    assert found(write(), "packed_parquet")[-1].startswith("|has no column")


def test_a_damaged_table_is_found_without_pyarrow_too(write, tmp_path):
    """By its footer: this Python has no pyarrow."""
    path = write(*([PACKED] * 9))
    content = path.read_bytes()
    answer = check(str(path), "packed_parquet", True, 0)
    assert (answer["findings"], answer["notes"]) == ([], ["rows of Parquet files: this Python has no pyarrow"])
    for broken in (content[:-1], content[:100], b"PAR1PAR1", b"", content[:-8] + b"\xff\xff\xff\x7fPAR1"):
        path.write_bytes(broken)
        (one,) = check(str(path), "packed_parquet", True, 0)["findings"]
        assert one["file"] == str(path)
    for place in range(4, len(content) - 8, 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        assert check(str(path), "packed_parquet", True, 0)["unchecked"] == ""
    path.write_bytes(b"PAR1" + content[-(int.from_bytes(content[-8:-4], "little") + 8) :])
    found = check(str(path), "packed_parquet", True, 0)["findings"]
    assert found and "lies outside the file" in found[0]["what"]


def test_damaged_pages_are_a_finding(write, found):
    path = write(*([PACKED] * 9))
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(bytes(content))
    (one,) = found(path, "packed_parquet")
    assert one.startswith("|cannot be read: ")


def test_tensors_of_the_library(python, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    subprocess.run([python, "-c", TENSORS, tmp_path / "model.safetensors"], check=True)
    assert check(str(tmp_path), "checkpoint_hf", True, 0)["findings"] == []


def test_the_command_makes_an_environment_with_what_it_needs(write, tmp_path):
    project = make_project(tmp_path / "project")
    good, bad = write(PACKED, name="a.parquet"), write(PACKED, {**PACKED, "seq_start_id": [0, 9]}, name="b.parquet")
    done = process(project, "artifacts", "check", str(good), UV_CACHE_DIR=str(UV_CACHE)).succeeds()
    assert done.out == f"{good} is packed_parquet: nothing wrong\n"
    assert "the checker's" in done.err
    told = process(project, "artifacts", "check", str(bad), "--type", "packed_parquet")
    assert told.code == 1
    assert told.out.splitlines()[1] == f"  {bad}, row 1: seq_start_id 9 is outside its 4 tokens"
    answer = process(project, "artifacts", "check", str(bad), "--json")
    assert (answer.code, answer.json["type"], answer.json["findings"][0]["place"]) == (1, "packed_parquet", "row 1")

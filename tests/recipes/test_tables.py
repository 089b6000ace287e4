"""Rows of tables that data preparation reads: in the order of the files, each once, whatever the pieces are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import DATA_PREP, recipe_environment

pytestmark = pytest.mark.slow

SHARED = DATA_PREP.parents[3] / "_shared"
SAVE = """
import json, sys
from pathlib import Path
import pyarrow as pa
folder = Path(sys.argv[1])
folder.mkdir()
schema = pa.schema([("text", pa.string())], metadata={"huggingface": '{"info": {}}'})
for file in (0, 1):
    with pa.ipc.new_stream(str(folder / f"data-0000{file}-of-00002.arrow"), schema) as stream:
        for batch in range(3):
            rows = [f"{file}-{batch}-{row}" for row in range(4)]
            stream.write_batch(pa.record_batch([pa.array(rows)], schema=schema))
(folder / "dataset_info.json").write_text("{}")
(folder / "state.json").write_text("{}")
"""
READ = """
import json, sys
from pathlib import Path
from nano3 import corpus
files = corpus.find_files(json.loads(sys.argv[1]), Path("/"))
pieces = [piece for file in files for piece in corpus.pieces_of(file, int(sys.argv[2]))]
texts = [text for piece in pieces for text in corpus.texts_of(piece, "text", None)]
print(json.dumps([len(pieces), texts, corpus.place_of(pieces[-1], 2)]))
"""


def read(python: Path, patterns: list[Path], size: int):
    done = subprocess.run(
        [str(python), "-c", READ, json.dumps(list(map(str, patterns))), str(size)],
        env={**recipe_environment(), "PYTHONPATH": str(SHARED)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_dataset_that_was_saved_to_disk_is_read_by_its_folder_or_its_files(recipe_python, tmp_path):
    """Files and folder are named as `datasets` 5.2 leaves them."""
    folder = tmp_path / "saved"
    subprocess.run([str(recipe_python), "-c", SAVE, str(folder)], env=recipe_environment(), check=True)
    rows = [f"{file}-{batch}-{row}" for file in (0, 1) for batch in range(3) for row in range(4)]
    last = f"{folder}/data-00001-of-00002.arrow"
    assert read(recipe_python, [folder], 1) == [6, rows, f"{last}:10"]
    assert read(recipe_python, [folder / "*.arrow"], 1 << 20) == [2, rows, f"{last}:2"]

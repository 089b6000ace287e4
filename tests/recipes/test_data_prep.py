"""Data preparation: Megatron's format, the blend, the same bytes every time, and never half a dataset."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from job_scripts import kill
from nano3 import story_grammar
from nano3.corpus import split_of
from waiting import until

from nemo_runspec.jobside.processes import environment_of, words_of

from .conftest import DATA_PREP, NANO3, RAY_MARK, recipe_config, recipe_environment
from .prepared_inputs import REFERENCE, configurations, digests

TEXT = DATA_PREP.parent / "text"
EOS = 2
COUNTED = {
    "several": "2428 rows: 2329 kept, 99 dropped (99 empty)\n",
    "large": "2301 rows: 2202 kept, 99 dropped (99 empty)\n",
}


def read_documents(prefix: Path) -> list[tuple[int, ...]]:
    """A second reader, written from the format alone, for vocabularies of 16 bits."""
    index = Path(f"{prefix}.idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, boundaries = struct.unpack_from("<QBQQ", index, 9)
    assert (version, code, boundaries) == (1, 8, sequences + 1)
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    offsets = struct.unpack_from(f"<{sequences}q", index, 34 + 4 * sequences)
    assert struct.unpack_from(f"<{boundaries}q", index, 34 + 12 * sequences) == tuple(range(sequences + 1))
    assert len(index) == 34 + 12 * sequences + 8 * boundaries
    content = Path(f"{prefix}.bin").read_bytes()
    assert len(content) == 2 * sum(lengths)
    return [struct.unpack_from(f"<{length}H", content, offset) for length, offset in zip(lengths, offsets, strict=True)]


def ray_workers() -> list[int]:
    """The processes that run tasks of this test process's cluster, or wait for one."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    mine = [pid for pid in pids if environment_of(pid).get(RAY_MARK) == str(os.getpid())]
    return [pid for pid in mine if " ".join(words_of(pid)).startswith(("ray::shard", "ray::IDLE"))]


def is_killed(pid: int) -> bool:
    """Kills a process; False for one that has gone meanwhile, as workers of a client that was killed do."""
    try:
        kill(pid)
    except ProcessLookupError:
        return False
    return True


def test_text_is_what_the_grammar_writes(tmp_path):
    written = story_grammar.write_text(tmp_path)
    assert {path.name: path.read_bytes() for path in written} == {p.name: p.read_bytes() for p in TEXT.glob("*.txt")}


def test_files_hold_the_documents_that_the_manifest_counts(tiny_data):
    manifest = json.loads((tiny_data / "manifest.json").read_text())
    for split, counts in manifest["splits"].items():
        found = read_documents(tiny_data / f"tiny_{split}")
        assert counts == {"documents": len(found), "tokens": sum(map(len, found))}
        assert all(document[-1] == EOS and EOS not in document[:-1] for document in found)


def test_tokens_decode_to_the_text(tiny_data, run_code, tmp_path):
    texts = [text.strip() for path in sorted(TEXT.glob("*.txt")) for text in path.read_text().split("\n\n\n")]
    expected = [text for text in texts if split_of(text, 1234, 0.08, 0.02) == "valid"]
    documents = [list(document[:-1]) for document in read_documents(tiny_data / "tiny_valid")]
    (tmp_path / "ids.json").write_text(json.dumps(documents))
    code = (
        "import json; from transformers import AutoTokenizer;"
        "t = AutoTokenizer.from_pretrained(sys.argv[1]);"
        "print(json.dumps([t.decode(ids) for ids in json.load(open(sys.argv[2]))]))\n"
    )
    assert json.loads(run_code(code, tiny_data / "tokenizer", tmp_path / "ids.json")) == expected


def test_entropy_is_that_of_the_validation_tokens(tiny_data):
    counts = Counter(token for document in read_documents(tiny_data / "tiny_valid") for token in document)
    total = sum(counts.values())
    entropy = -sum(count / total * math.log(count / total) for count in counts.values())
    assert json.loads((tiny_data / "manifest.json").read_text())["valid_unigram_entropy"] == pytest.approx(entropy)


def test_blend_is_weights_and_prefixes_per_split(tiny_data):
    blend = json.loads((tiny_data / "blend.json").read_text())
    assert list(blend) == ["train", "valid", "test"]
    for split, (weight, prefix) in blend.items():
        assert float(weight) == sum(map(len, read_documents(Path(prefix))))
        assert Path(prefix) == tiny_data / f"tiny_{split}"


def test_megatron_core_reads_the_files(tiny_data, recipe_python, megatron):
    code = (
        "import json, sys\n"
        "from megatron.core.datasets.indexed_dataset import IndexedDataset\n"
        "from megatron.core.datasets.utils import get_blend_from_list\n"
        "prefixes, weights = get_blend_from_list(json.load(open(sys.argv[1]))['valid'])\n"
        "data = IndexedDataset(prefixes[0])\n"
        "print(json.dumps([weights, [data[i].tolist() for i in range(len(data))], data.document_indices.tolist()]))\n"
    )
    done = subprocess.run(
        [str(recipe_python), "-W", "ignore", "-c", code, str(tiny_data / "blend.json")],
        env=recipe_environment(PYTHONPATH=str(megatron)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    weights, documents, boundaries = json.loads(done.stdout.splitlines()[-1])
    ours = [list(document) for document in read_documents(tiny_data / "tiny_valid")]
    assert documents == ours
    assert weights == [sum(map(len, ours))]
    assert boundaries == list(range(len(ours) + 1))


def test_same_inputs_give_the_same_bytes_and_a_second_run_writes_nothing(tiny_data, prepare, tmp_path):
    config = recipe_config(DATA_PREP, "tiny", output_dir=tmp_path) | {"workers": 1, "shard_bytes": 5000}
    assert prepare(config).returncode == 0
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {str(path.relative_to(tiny_data)) for path in tiny_data.rglob("*") if path.is_file()}
    for name in names - {"blend.json", "manifest.json"}:  # these two name the folder
        assert (tmp_path / name).read_bytes() == (tiny_data / name).read_bytes(), name
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in names}
    again = prepare(config)
    assert again.returncode == 0
    assert "up to date" in again.stdout
    assert before == {name: (tmp_path / name).stat().st_mtime_ns for name in names}


def test_a_damaged_dataset_is_made_anew(prepare, tmp_path):
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": f"Line {n} of many."}) + "\n" for n in range(200)))
    config = {
        "output_dir": str(tmp_path / "out"),
        "datasets": [{"name": "lines", "paths": [f"{tmp_path}/*.jsonl"], "weight": 0.5}],
        "tokenizer": {"train_vocab_size": 300},
        "split": {"valid": 0.1},
    }
    assert prepare(config).returncode == 0
    file = tmp_path / "out" / "lines_train.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:-2])
    done = prepare(config)
    assert (done.returncode, file.read_bytes()) == (0, whole)
    blend = json.loads((tmp_path / "out" / "blend.json").read_text())
    assert blend["train"][0] == "0.5"
    assert blend["test"] is None, "an empty split is null: megatron-core can map no empty file"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"datasets": [{"name": "none", "paths": ["/nowhere/*.txt"]}]}, "no file matches '/nowhere/*.txt'"),
        ({"splits": {"valid": 0.1}}, "unknown key 'splits'; did you mean 'split'?"),
        ({"tokenizer": {}}, "tokenizer needs either path or train_vocab_size"),
        ({"split": {"valid": "some"}}, "split.valid must be a number, not 'some'"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(prepare, tmp_path, change, words):
    done = prepare(recipe_config(DATA_PREP, "tiny", output_dir=tmp_path / "out") | change)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert not (tmp_path / "out").exists()


def test_nothing_of_the_recipes_imports_the_cli():
    for path in NANO3.rglob("*.py"):
        words = path.read_text(encoding="utf-8")
        assert not any(f"import {name}" in words or f"from {name}" in words for name in ("nemotron", "nemo_runspec"))


@pytest.mark.parametrize("shard_bytes", [None, 3000])
def test_the_bytes_are_what_they_have_always_been(tiny_data, prepare, recipe_python, tmp_path, shard_bytes):
    reference = json.loads(REFERENCE.read_text())
    assert digests(tiny_data, "tiny") == reference["tiny"]
    configs = configurations(tmp_path, recipe_python)
    for name in ("several", "large"):
        done = prepare(configs[name] | ({"shard_bytes": shard_bytes} if shard_bytes else {}))
        assert done.returncode == 0, done.stderr
        assert digests(tmp_path / name, name) == reference[name]
        assert COUNTED[name] in done.stdout


def test_rows_are_counted_and_a_line_that_is_none_is_named_in_its_file(prepare, tmp_path):
    lines = [json.dumps({"text": f"Line {n} of many."}) for n in range(300)]
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join([*lines, '{"texts": 1}']))
    config = {
        "output_dir": str(tmp_path / "out"),
        "datasets": [{"name": "lines", "paths": [str(file)]}],
        "tokenizer": {"path": None, "train_vocab_size": 300},
        "split": {"valid": 0.1},
        "shard_bytes": 1000,
    }
    done = prepare(config)
    assert (done.returncode, f"{file}:301: no JSON object with a field 'text'" in done.stderr) == (2, True), done.stderr
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_another_tokenizer_in_the_same_folder_makes_the_dataset_anew(prepare, recipe_python, tmp_path):
    config = configurations(tmp_path, recipe_python)["large"]
    assert prepare(config).returncode == 0
    assert "up to date" in prepare(config).stdout
    file = tmp_path / "words" / "tokenizer.json"
    before = (tmp_path / "large" / "lines_train.bin").read_bytes()
    file.write_text(file.read_text().replace('"bread"', '"stone-"').replace('"stone"', '"bread"'))
    done = prepare(config)
    assert (done.returncode, "up to date" in done.stdout) == (0, False), done.stderr
    assert (tmp_path / "large" / "lines_train.bin").read_bytes() != before


def test_texts_are_cleaned_as_it_is_asked_for_and_odd_ones_are_counted(prepare, recipe_python, tmp_path):
    rows = [*(f"Cafe\u0301 number {n}.\x00" for n in range(200)), {"text": 1}, "half \ud83d"]
    lines = [json.dumps({"text": text}).encode() for text in rows] + [b'{"text": "caf\xe9"}']
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines))
    config = {
        "output_dir": str(tmp_path / "out"),
        "datasets": [{"name": "lines", "paths": [str(tmp_path / "in.jsonl")]}],
        "tokenizer": {"train_vocab_size": 300},
        "split": {"valid": 0.1},
        "clean": {"normalize": "NFC", "drop_control": True},
    }
    done = prepare(config)
    assert "203 rows: 200 kept, 3 dropped (2 not Unicode, 1 not text)\n" in done.stdout, done.stderr
    words = (tmp_path / "out" / "tokenizer" / "tokenizer.json").read_text()
    known = json.loads(words)["model"]["vocab"]
    assert any("Ã©" in word for word in known), "the letter of NFC, as a byte-level BPE writes its bytes"
    done = prepare(config | {"clean": {"normalize": "NFX"}})
    assert (done.returncode, "clean.normalize must be one of NFC, NFKC" in done.stderr) == (2, True)


def test_a_run_that_was_killed_goes_on_and_ray_runs_again_what_a_lost_worker_had(
    prepare, recipe_python, ray_cluster, tmp_path
):
    """The driver is killed once some shards are there; the next run loses a worker in the middle of one."""
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": f"Line {n} of many."}) + "\n" for n in range(2000)))
    config = {
        "datasets": [{"name": "lines", "paths": [f"{tmp_path}/*.jsonl"]}],
        "tokenizer": {"train_vocab_size": 300},
        "split": {"valid": 0.1},
        "shard_bytes": 2000,
    }
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert prepare(config | {"output_dir": str(whole)}).returncode == 0
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config | {"output_dir": str(out)}))

    def shards() -> set[Path]:
        return set(out.glob(".partial-data-*/shards/[0-9]*"))

    environment = recipe_environment(**ray_cluster)
    command = [str(recipe_python), str(DATA_PREP), "--config", str(path)]
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: len(shards()) >= 3, "three shards")
    first.kill()
    first.wait()
    left = shards()
    made = {file: (file / "done.json").stat().st_mtime_ns for file in left}
    assert not (out / "manifest.json").exists()
    second = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until(lambda: len(shards()) > len(left), "one more shard")
    assert [pid for pid in ray_workers() if is_killed(pid)]
    assert all((file / "done.json").stat().st_mtime_ns == when for file, when in made.items() if file.exists())
    said, _ = second.communicate()
    assert second.returncode == 0, said
    assert {p.name: p.read_bytes() for p in out.glob("lines_*")} == {
        p.name: p.read_bytes() for p in whole.glob("lines_*")
    }
    assert not list(out.glob(".partial-*"))

"""Checkers: files as their libraries write them pass, and each thing a checker claims to find is found where it is."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import REPOSITORY

from nemo_runspec.artifacts.checks import lines
from nemo_runspec.artifacts.checks.main import check
from nemo_runspec.artifacts.checks.table import CHECKERS
from nemo_runspec.artifacts.guess import guesses
from nemo_runspec.artifacts.types import Types
from nemo_runspec.catalog import builtin_root

CHAT = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}


def found_in(path: Path, checker: str, *, whole: bool = True) -> list[str]:
    """What is wrong, a line each: file below the path, place, words."""
    answer = check(str(path), checker, whole, 60)
    assert answer["unchecked"] == ""
    names = (each["file"].removeprefix(f"{path}/").removeprefix(str(path)) for each in answer["findings"])
    return [f"{n}|{each['place']}|{each['what']}" for n, each in zip(names, answer["findings"], strict=True)]


def test_every_type_has_a_checker_that_there_is():
    types = Types.load([builtin_root()])
    named = {name: types.checker(name) for name in types.names()}
    assert {name for name, checker in named.items() if not checker} == {"model"}
    assert set(filter(None, named.values())) == set(CHECKERS)


# Rows ---------------------------------------------------------------------------------------------------------------


def write_rows(file: Path, *rows: object) -> Path:
    texts = (row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
    file.write_bytes(b"".join(text + b"\n" for text in texts))
    return file


@pytest.mark.parametrize(
    "row",
    [
        CHAT,
        {"text": ""},
        {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "tools": []},
        {"prompt": "a", "chosen": "b", "rejected": "c"},
        {
            "prompt": [{"role": "user", "content": "a"}],
            "chosen": [{"role": "assistant", "content": "b"}],
            "rejected": "c",
        },
        {"input": "a", "output": "b"},
        {"anything": "of one's own"},
    ],
)
def test_rows_of_all_forms_are_as_they_should_be(tmp_path, row):
    assert found_in(write_rows(tmp_path / "x.jsonl", row, row), "rows") == []


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (b"{", "is not JSON: Expecting property name enclosed in double quotes: column 2 (char 1)"),
        (b'{"text": "\xff"}', "is not UTF-8 text (byte 10 of the line)"),
        (b"[" * 100_000, "is nested too deeply"),
        ([1], "is a list, not an object with keys"),
        ({"content": "x"}, "has no 'messages', which rows before it have"),
        ({"messages": "x"}, "'messages' is a string, not a list of turns"),
        ({"messages": []}, "'messages' is empty"),
        ({"messages": ["x"]}, "messages[0] is a string, not an object with keys"),
        (
            {"messages": [{"role": "asistant", "content": "x"}]},
            'messages[0] has the role "asistant" (known: system, developer, user, assistant, tool, ...)',
        ),
        (
            {"messages": [{"content": "x"}]},
            "messages[0] has no 'role' (known: system, developer, user, assistant, tool, ...)",
        ),
        ({"messages": [{"role": "user"}]}, "messages[0] has no 'content'"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content is a number, not a string"),
        ({"messages": [{"role": "user", "content": [1]}]},
         "messages[0].content is a list with more than strings and objects"),
    ],
)  # fmt: skip
def test_a_row_that_is_wrong_is_found_with_its_line(tmp_path, row, what):
    file = write_rows(tmp_path / "x.jsonl", CHAT, b"", row, CHAT)
    assert found_in(tmp_path, "rows") == [f"x.jsonl|line 3|{what}"]
    assert found_in(file, "rows") == [f"|line 3|{what}"]


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([], "||holds no rows"),
        ([{"text": "a"}, {"text": 1}], "x.jsonl|line 2|'text' is a number, not a string"),
        ([{"input": "a", "output": None}], "x.jsonl|line 1|'output' is null"),
        ([{"id": 1}], "x.jsonl|line 1|holds no text: none of its keys has a string, a list or an object"),
        ([{"prompt": [{"role": "x", "content": "y"}], "chosen": "", "rejected": ""}],
         "x.jsonl|line 1|prompt[0] has the role"),
        ([{"conversations": [{"from": "me", "value": "y"}]}], 'x.jsonl|line 1|conversations[0] has the from "me"'),
    ],
)  # fmt: skip
def test_rows_of_other_forms(tmp_path, rows, what):
    write_rows(tmp_path / "x.jsonl", *rows)
    (found,) = found_in(tmp_path, "rows")
    assert found.startswith(what)


def test_a_folder_without_rows(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    assert found_in(tmp_path, "rows") == ["||holds no file that ends with .jsonl or .jsonl.gz"]
    assert found_in(tmp_path / "gone", "rows") == ["||is not there"]


def test_compressed_rows(tmp_path):
    content = b"".join(json.dumps(CHAT).encode() + b"\n" for _ in range(2000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content))
    assert found_in(tmp_path, "rows") == []
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(content)[:-40])
    (tmp_path / "c.jsonl.gz").write_bytes(content)
    cut, plain = found_in(tmp_path, "rows")
    assert cut.startswith("b.jsonl.gz||its compressed data are cut short or damaged")
    assert plain.startswith("c.jsonl.gz||it is not compressed as its name says")


def test_of_many_rows_the_first_the_last_and_some_between_are_looked_at_and_the_line_is_known(tmp_path):
    row = json.dumps({"text": "x" * 90}).encode()
    rows = [row] * 40_000
    for wrong in (0, 1_999, 39_999):
        broken = [*rows[:wrong], b"{", *rows[wrong + 1 :]]
        (found,) = found_in(write_rows(tmp_path / "x.jsonl", *broken), "rows", whole=False)
        assert found.startswith(f"|line {wrong + 1}|is not JSON"), wrong
    write_rows(tmp_path / "x.jsonl", *rows[:4000], *([b"{"] * 33_000), *rows[-3000:])
    assert found_in(tmp_path / "x.jsonl", "rows", whole=False), "some between"
    answer = check(str(write_rows(tmp_path / "x.jsonl", *rows)), "rows", False, 60)
    assert answer["notes"] == ["lines at the beginning, at the end and between"]
    assert check(str(tmp_path / "x.jsonl"), "rows", True, 0)["notes"] == []


def test_a_line_too_long_to_be_read_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_LONGEST", 1000)
    write_rows(tmp_path / "x.jsonl", {"text": "a"}, {"text": "x" * 5000}, {"text": 1})
    answer = check(str(tmp_path), "rows", True, 0)
    assert [each["place"] for each in answer["findings"]] == ["line 3"]
    assert "line 2 of" in answer["notes"][0]


# Indexed data -------------------------------------------------------------------------------------------------------


def write_indexed(prefix: Path, *documents: list[int]) -> None:
    """As recipes/nano3 writes them, which is tried with megatron-core's own reader there."""
    sys.path.insert(0, str(REPOSITORY / "recipes" / "nano3" / "_shared"))
    try:
        from nano3.indexed import IndexedWriter
    finally:
        sys.path.pop(0)
    with IndexedWriter(prefix, 1000) as writer:
        for document in documents:
            writer.append(document)


def change(file: Path, place: int, form: str, value: int) -> None:
    content = bytearray(file.read_bytes())
    struct.pack_into(form, content, place if place >= 0 else len(content) + place, value)
    file.write_bytes(bytes(content))


@pytest.fixture
def indexed(tmp_path) -> Path:
    write_indexed(tmp_path / "a", [1, 2, 3], [4], [5, 6])
    return tmp_path


def test_indexed_data_are_as_they_should_be(indexed):
    assert found_in(indexed, "binidx") == []
    for name in ("a", "a.idx", "a.bin"):
        assert found_in(indexed / name, "binidx") == [], name


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _changed(place: int, form: str, value: int) -> Callable[[Path], None]:
    return lambda folder: change(folder / "a.idx", place, form, value)


def _cut(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-2])


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (_without("a.idx"), ["||holds no .idx file", "a.bin||has no .idx beside it"]),
        (_without("a.bin"), ["a.idx||there is no a.bin"]),
        (_changed(0, "B", 0), ["a.idx||is no index of Megatron's: it does not begin with its magic number"]),
        (_changed(9, "<Q", 2), ["a.idx||has version 2 and token type 8; known: version 1, types 1 to 8"]),
        (_changed(17, "B", 9), ["a.idx||has version 1 and token type 9; known: version 1, types 1 to 8"]),
        (_cut("a.idx"), ["a.idx||100 bytes long; its 3 sequences and 4 document boundaries take 102"]),
        (_changed(18, "<Q", 4), ["a.idx||102 bytes long; its 4 sequences and 4 document boundaries take 114"]),
        (_changed(34, "<i", -1), ["a.idx|sequence 0|has -1 tokens at byte 0; the one before it ends at 0"]),
        (_changed(54, "<q", 8), ["a.idx|sequence 1|has 1 tokens at byte 8; the one before it ends at 6"]),
        (_changed(70, "<q", 1), ["a.idx|document boundary 0|is 1, not 0"]),
        (_changed(86, "<q", 0), ["a.idx|document boundary 2|is 0, below the one before it, 1"]),
        (_changed(-8, "<q", 9), ["a.idx|document boundary 3|is 9; there are 3 sequences"]),
        (_cut("a.bin"), ["a.bin||is 10 bytes long; its index names 6 tokens of 2 bytes: 12"]),
    ],
)
def test_indexed_data_that_are_wrong_are_found(indexed, broken, what):
    broken(indexed)
    assert found_in(indexed, "binidx") == what


def test_a_long_index_is_looked_at_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("nemo_runspec.artifacts.checks.binidx._BLOCK", 7)
    write_indexed(tmp_path / "a", *([[1, 2]] * 500))
    assert found_in(tmp_path, "binidx") == found_in(tmp_path, "binidx", whole=False) == []
    for number in (6, 7, 13, 499):
        write_indexed(tmp_path / "a", *([[1, 2]] * 500))
        change(tmp_path / "a.idx", 34 + 4 * number, "<i", 3)
        assert found_in(tmp_path, "binidx"), number


def test_a_blend_names_what_is_there(indexed):
    blend = {"train": ["1.0", str(indexed / "a")], "valid": None, "test": ["1.0", "/elsewhere/a"]}
    (indexed / "blend.json").write_text(json.dumps(blend))
    assert found_in(indexed, "pretrain_blend") == []
    for split, what in (
        (["1.0"], "is not a list of weights and prefixes"),
        (["heavy", "a"], 'has the weight "heavy", which is no number'),
        ([1, "/gone/b"], "names /gone/b, of which there is no .idx"),
    ):
        (indexed / "blend.json").write_text(json.dumps({**blend, "train": split}))
        assert found_in(indexed, "pretrain_blend") == [f"blend.json|split train|{what}"]
    (indexed / "blend.json").write_text("[]")
    assert found_in(indexed, "pretrain_blend") == ["blend.json||is not an object with splits"]
    (indexed / "blend.json").unlink()
    assert found_in(indexed, "pretrain_blend") == ["||has no blend.json"]


# Checkpoints --------------------------------------------------------------------------------------------------------


def write_tensors(file: Path, **changed: object) -> None:
    """A safetensors file of two tensors, written by hand; the library's own are tried in `test_checks_parquet.py`."""
    header = {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "b": {"dtype": "BF16", "shape": [2], "data_offsets": [16, 20]},
        **changed,
    }
    text = json.dumps({name: facts for name, facts in header.items() if facts}).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(20))


@pytest.fixture
def model(tmp_path) -> Path:
    """A model of Hugging Face's in two shards."""
    (tmp_path / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    for number in (1, 2):
        write_tensors(tmp_path / f"model-0000{number}-of-00002.safetensors")
    shards = {"w": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    return tmp_path


SHARD = "model-00002-of-00002.safetensors"


def _tensors(**changed: object) -> Callable[[Path], None]:
    return lambda folder: write_tensors(folder / SHARD, **changed)


def _text(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (lambda folder: None, []),
        (_without("config.json"), ["||has no config.json"]),
        (_text("config.json", "{}"), ["config.json||names neither model_type nor architectures"]),
        (_text("config.json", "[]"), ["config.json||is no JSON object"]),
        (_text("model.safetensors.index.json", "{}"), ["model.safetensors.index.json||has no weight_map"]),
        (
            _without("model.safetensors.index.json"),
            [f"||has {SHARD.replace('2-of', '1-of')}, but no model.safetensors.index.json that says what is in which"],
        ),
        (_without(SHARD), [f"model.safetensors.index.json||names {SHARD}, which is not there"]),
        (_tensors(b=None), [f"{SHARD}||has 20 bytes of tensors; its header names 16",]),
        (_cut(SHARD), [f"{SHARD}||has 18 bytes of tensors; its header names 20"]),
        (_text(SHARD, "short"), [f"{SHARD}||is no whole safetensors file: its header does not fit into it"]),
        (_tensors(b={"dtype": "F32", "shape": [2], "data_offsets": [16, 20]}),
         [f"{SHARD}|tensor b|is at bytes 16 to 20; its shape takes 8 bytes"]),
        (_tensors(b={"dtype": "BF16", "shape": [2], "data_offsets": [14, 18]}),
         [f"{SHARD}|tensor b|begins at byte 14; the tensor before it ends at 16"]),
        (_tensors(b={"dtype": "BF16", "shape": [2]}),
         [f"{SHARD}|tensor b|has no dtype, shape and data_offsets",
          f"{SHARD}||has 20 bytes of tensors; its header names 16"]),
        (_tensors(b={"dtype": "BF16", "shape": [-2], "data_offsets": [16, 20]}),
         [f"{SHARD}|tensor b|has no dtype, shape and data_offsets",
          f"{SHARD}||has 20 bytes of tensors; its header names 16"]),
    ],
)  # fmt: skip
def test_a_model_that_is_not_whole_is_found(model, broken, what):
    broken(model)
    assert found_in(model, "checkpoint_hf") == what


def test_a_tensor_is_where_the_index_says(model):
    shards = {"w": SHARD, "b": SHARD, "gone": SHARD}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    what = f"model.safetensors.index.json|tensor gone|is not in {SHARD}, where the index says that it is"
    assert found_in(model, "checkpoint_hf") == [what]


def test_a_model_in_one_file(model):
    (model / "model.safetensors.index.json").unlink()
    for file in model.glob("*.safetensors"):
        file.unlink()
    assert found_in(model, "checkpoint_hf") == ["||has no weights: no *.safetensors"]
    write_tensors(model / "model.safetensors")
    assert found_in(model, "checkpoint_hf") == []
    assert found_in(model / "config.json", "checkpoint_hf") == ["||is no folder"]


@pytest.fixture
def megatron(tmp_path) -> Path:
    """What megatron-core's torch_dist format writes, in the folders of Megatron-Bridge."""
    for number in (10, 20):
        folder = tmp_path / f"iter_{number:07}"
        folder.mkdir()
        (folder / "metadata.json").write_text('{"sharded_backend": "torch_dist", "sharded_backend_version": 1}')
        (folder / ".metadata").write_bytes(b"\x80\x04\x8c\x0b__0_0.distcp\x94\x8c\x0b__0_1.distcp\x94.")
        (folder / "run_config.yaml").write_text("model: {}\n")
        for name in ("__0_0.distcp", "__0_1.distcp"):
            (folder / name).write_bytes(b"x")
        _archive(folder / "common.pt")
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("20")
    return tmp_path


def _archive(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02.")


def _at_all(folder: Path, name: str) -> None:
    (folder / "iter_0000020" / name).unlink()


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (lambda folder: None, []),
        (lambda f: (_without("latest_checkpointed_iteration.txt")(f), _archive(f / "latest_train_state.pt")), []),
        (_without("iter_0000020/metadata.json"), []),
        (_without("iter_0000010/.metadata"), []),
        (lambda f: shutil.rmtree(f / "iter_0000010"), []),
        (lambda f: [shutil.rmtree(f / f"iter_00000{n}0") for n in (1, 2)], ["||holds no iter_<step> folder"]),
        (_text("latest_checkpointed_iteration.txt", "30"),
         ["latest_checkpointed_iteration.txt||says '30'; there is iter_0000010, iter_0000020"]),
        (_without("latest_checkpointed_iteration.txt"),
         ["||says nowhere which iteration is the latest: no latest_train_state.pt, "
          "no latest_checkpointed_iteration.txt"]),
        (lambda f: (_without("latest_checkpointed_iteration.txt")(f), _text("latest_train_state.pt", "x")(f)),
         ["latest_train_state.pt||is no whole file of torch.save"]),
        (_without("iter_0000020/.metadata"), ["iter_0000020||has no .metadata"]),
        (_cut("iter_0000020/.metadata"), ["iter_0000020/.metadata||is cut short: it is no whole pickle"]),
        (_without("iter_0000020/common.pt"), ["iter_0000020||has no common.pt"]),
        (_cut("iter_0000020/common.pt"), ["iter_0000020/common.pt||is no whole file of torch.save"]),
        (_without("iter_0000020/__0_1.distcp"), ["iter_0000020/.metadata||names __0_1.distcp, which is not there"]),
        (_text("iter_0000020/__0_0.distcp", ""), ["iter_0000020/__0_0.distcp||is empty"]),
        (_text("iter_0000020/metadata.json", '{"sharded_backend": "none"}'),
         ["iter_0000020/metadata.json||has the format 'none'; known: torch_dist, zarr, fsdp_dtensor, torch_dcp"]),
        (lambda f: (f / "iter_0000020/.metadata").write_bytes(b"\x80\x04."),
         ["iter_0000020/.metadata||names no shard"]),
    ],
)  # fmt: skip
def test_a_distributed_checkpoint_that_is_not_whole_is_found(megatron, broken, what):
    broken(megatron)
    assert found_in(megatron, "checkpoint_megatron") == what


def test_one_iteration_and_an_adapter_in_one(megatron):
    assert found_in(megatron / "iter_0000020", "checkpoint_megatron") == []
    assert found_in(megatron, "checkpoint_lora") == []
    (megatron / "iter_0000020").rename(megatron / "release")
    shutil.rmtree(megatron / "iter_0000010")
    (megatron / "latest_checkpointed_iteration.txt").write_text("release")
    assert found_in(megatron, "checkpoint_megatron") == []


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (lambda folder: None, []),
        (_without("adapter_config.json"), ["||has no adapter_config.json"]),
        (_text("adapter_config.json", "{}"), ["adapter_config.json||names no peft_type"]),
        (_without("adapter_model.safetensors"), ["||has no adapter_model.safetensors"]),
        (
            _cut("adapter_model.safetensors"),
            ["adapter_model.safetensors||has 18 bytes of tensors; its header names 20"],
        ),
    ],
)
def test_an_adapter_that_is_not_whole_is_found(tmp_path, broken, what):
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8}')
    write_tensors(tmp_path / "adapter_model.safetensors")
    broken(tmp_path)
    assert found_in(tmp_path, "checkpoint_lora") == what


# Documents ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("results.json", '{"results": {"mmlu": {"acc,none": 0.5}}}', []),
        ("results.yml", "results:\n  tasks:\n    mmlu: {metrics: {acc: {scores: {micro: {value: 0.5}}}}}\n", []),
        ("results_2026.json", "{", ["|cannot be read: Expecting property name"]),
        ("results.yml", "a: [", ["|cannot be read: while parsing"]),
        ("results.json", '{"results": {}}', ["|holds no scores: no numbers"]),
        ("results.json", '{"results": {"mmlu": NaN}}', ["results.mmlu|is not a number (NaN)"]),
    ],
)
def test_results(tmp_path, name, text, what):
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / name).write_text(text)
    found = found_in(tmp_path, "eval_results")
    assert len(found) == len(what)
    assert all(one.startswith(f"deep/{name}|{begin}") for one, begin in zip(found, what, strict=True))


def test_no_results(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert found_in(tmp_path, "eval_results") == ["||holds no results.json, results.yml or results_*.json"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[a]\nexecutor = "local"\n[b]\nextends = "a"\n', []),
        ("[a\n", ["||is not TOML: "]),
        ("a = 1\n", ["||holds no profile"]),
        ('[b]\nextends = "a"\n', ["|[b]|extends 'a', which is not there"]),
    ],
)
def test_profiles(tmp_path, text, what):
    file = tmp_path / "env.toml"
    file.write_text(text)
    found = found_in(file, "env_toml")
    assert len(found) == len(what) and all(one.startswith(two) for one, two in zip(found, what, strict=True))


def test_a_corpus(tmp_path):
    assert found_in(tmp_path, "corpus")[0].startswith("||holds no text")
    (tmp_path / "a.txt").write_bytes(b"")
    assert found_in(tmp_path, "corpus") == ["||all its files are empty"]
    (tmp_path / "a.txt").write_bytes(b"x\xff")
    assert found_in(tmp_path, "corpus") == ["a.txt|byte 1|is not UTF-8 text"]
    (tmp_path / "a.txt").write_bytes("ä".encode() * 40_000)
    assert found_in(tmp_path, "corpus") == []


# Whatever lies there -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checker", sorted(CHECKERS))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200), st.sampled_from(["x.jsonl", "a.idx", "blend.json", "x.parquet", "results.json", "x.txt"])
)
def test_whatever_lies_there_a_checker_says_something(tmp_path, checker, content, name):
    folder = tmp_path / "random"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / name).write_bytes(content)
    (folder / "a.bin").write_bytes(b"")
    for path in (folder, folder / name):
        for whole in (True, False):
            assert check(str(path), checker, whole, 5)["unchecked"] == ""


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_is_no_checkers_end(tmp_path, data):
    """Of files that are as they should be, any bytes are changed or cut off."""
    folder = tmp_path / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_indexed(folder / "a", [1, 2, 3], [4])
    write_rows(folder / "x.jsonl", CHAT, CHAT)
    write_tensors(folder / "model.safetensors")
    write_tensors(folder / "adapter_model.safetensors")
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (folder / "blend.json").write_text('{"train": ["1.0", "a"]}')
    (folder / "results.json").write_text('{"results": {"mmlu": 0.5}}')
    file = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    for checker in ("rows", "binidx", "pretrain_blend", "checkpoint_hf", "checkpoint_lora", "eval_results"):
        assert check(str(folder), checker, True, 5)["unchecked"] == ""


# What it looks like --------------------------------------------------------------------------------------------------


def test_what_a_path_looks_like(tmp_path, model):
    for name, make in (
        ("training_jsonl", lambda folder: write_rows(folder / "x.jsonl", CHAT)),
        ("binidx", lambda folder: write_indexed(folder / "a", [1])),
        ("env_toml", lambda folder: (folder / "env.toml").write_text("")),
        ("eval_results", lambda folder: (folder / "results_1.json").write_text("")),
        ("benchmark_source_corpus", lambda folder: (folder / "a.md").write_text("")),
    ):
        folder = tmp_path / "some" / name
        folder.mkdir(parents=True)
        make(folder)
        assert guesses(folder) == [name]
    assert guesses(tmp_path / "some" / "binidx" / "a") == ["binidx"]
    assert guesses(tmp_path / "nothing") == []
    shutil.rmtree(tmp_path / "some")
    assert guesses(model) == ["checkpoint_hf"]

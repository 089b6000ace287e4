"""What data preparation makes of rows, without Ray and tokenizers: cleaning, counting, rows that repeat, the folder."""

from __future__ import annotations

import gc
import gzip
import hashlib
import json
import random
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nano3 import indexed_parts, inputs, metrics, repeats
from nano3.cleaning import EMPTY, NOT_TEXT, NOT_UNICODE, text_of
from nano3.corpus import objects_of, pieces_of, texts_of
from nano3.dataset_folder import check_files, check_prepared, fresh, is_whole, partial_folder, publish, tell_rows
from nano3.prepare_rl import once
from nano3.prepare_rl_shard import choose
from nano3.settings import SettingsError, loading
from nano3.shards import Shard

ODD = st.sampled_from(["\n", "\r\n", "\r", " ", "\t", '{"text": "é"}', "{}", "\u3000", "\u2028", "\x1c", "[1]", "x"])


@given(text=st.lists(ODD, max_size=40).map("".join), block=st.integers(1, 9), size=st.integers(1, 30))
def test_lines_are_counted_as_they_are_read_however_the_file_is_cut(tmp_path_factory, text, block, size):
    file = tmp_path_factory.getbasetemp() / "counted.jsonl"
    file.write_bytes(text.encode())
    read = sum(len(list(objects_of(piece))) for piece in pieces_of(file, size))
    assert inputs.look_at(file).rows == read
    counter, content = inputs.Lines(), text.replace("\u3000", " ").replace("\u2028", " ").encode()
    for start in range(0, len(content), block):  # a character is not cut: blank ones are seen whole alone
        counter.add(content[start : start + block])
    assert counter.rows == read


@given(text=st.text("ab-", max_size=40), block=st.integers(1, 9), separator=st.sampled_from(["-", "--", "a-a", None]))
def test_parts_of_a_text_are_counted_as_it_is_split(text, block, separator):
    counter = inputs.Parts(separator)
    for start in range(0, len(text), block):
        counter.add(text[start : start + block].encode())
    assert counter.rows == (len(text.split(separator)) if separator else 1)


def test_a_row_that_was_lost_or_read_twice_is_an_error(capsys):
    results = [{"rows": 3, "dropped": {"empty": 1}}, {"rows": 2, "dropped": {}}]
    assert tell_rows(results, 4, [5]) == {"empty": 1}
    assert tell_rows(results, 4, [3, None]) == {"empty": 1}, "a compressed file is not counted beforehand"
    for there in ([6], [4], [6, None]):
        with pytest.raises(RuntimeError, match=f"the inputs have {there[0]} rows.*, and 5 were read"):
            tell_rows(results, 4, there)


@pytest.mark.parametrize(
    ("value", "options", "made"),
    [
        (" plain \n", (), ("plain", "")),
        (17, (), ("17", "")),
        (None, (), ("", EMPTY)),
        (" \t", (), ("", EMPTY)),
        ({"text": "in it"}, (), ("", NOT_TEXT)),
        (["a"], (), ("", NOT_TEXT)),
        (True, (), ("", NOT_TEXT)),
        ("half \ud83d", (), ("", NOT_UNICODE)),
        ("e\u0301 \ufb01", (), ("e\u0301 \ufb01", "")),
        ("e\u0301 \ufb01", ("NFC",), ("\u00e9 \ufb01", "")),
        ("e\u0301 \ufb01", ("NFKC",), ("\u00e9 fi", "")),
        ("a\x00b\tc\x85\r\n\x7fd", ("NFC", True), ("ab\tc\r\nd", "")),
        ("\x00", (None, True), ("", EMPTY)),
    ],
)
def test_a_text_is_cleaned_as_far_as_is_asked(value, options, made):
    assert text_of(value, *options) == made


def test_bytes_that_are_no_text_are_counted_and_the_rows_beside_them_stay(tmp_path):
    lines = [
        b'{"text": "one"}',
        b'{"text": "caf\xe9"}',
        rb'{"text": "\ud800"}',
        b'{"text": "\xc3\xa9"}',
        b'{"text": {}}',
    ]
    for name, content in (("in.jsonl", b"\n".join(lines)), ("in.jsonl.gz", gzip.compress(b"\n".join(lines)))):
        (tmp_path / name).write_bytes(content)
        for size in (20, 1000):
            dropped = Counter[str]()
            pieces = pieces_of(tmp_path / name, size)
            found = [text for piece in pieces for text in texts_of(piece, "text", None, dropped=dropped)]
            assert found == ["one", "", "", "é", ""]
            assert dropped == {NOT_UNICODE: 2, NOT_TEXT: 1}
    (tmp_path / "in.txt").write_bytes(b"one--caf\xe9--\xc3\xa9")
    dropped = Counter[str]()
    [piece] = pieces_of(tmp_path / "in.txt", 5)
    assert list(texts_of(piece, "text", "--", dropped=dropped)) == ["one", "", "é"] and dropped == {NOT_UNICODE: 1}


def test_a_file_that_is_no_lines_of_json_or_no_gzip_is_named_with_its_place(tmp_path):
    (tmp_path / "wide.jsonl").write_bytes('{"text": "one"}\n'.encode("utf-16"))
    (tmp_path / "none.jsonl.gz").write_bytes(b"plain")
    (tmp_path / "half.jsonl.gz").write_bytes(gzip.compress(random.Random(1).randbytes(5000))[:3000])
    for name, said in (("wide.jsonl", ":1: no JSON object"), ("none.jsonl.gz", " cannot be"), ("half.jsonl.gz", "")):
        with pytest.raises(SettingsError) as error:
            [list(texts_of(piece, "text", None)) for piece in pieces_of(tmp_path / name, 10)]
        assert str(error.value).startswith(f"{tmp_path}/{name}{said}")


def test_prompts_that_are_no_text_are_counted(tmp_path):
    rows: list[object] = [{"prompt": "one?", "answer": 1}, {"prompt": {"of": "two"}, "answer": "2"}]
    rows += [{"prompt": "three?", "answer": [3]}, {"prompt": "half \ud83d", "answer": "4"}]
    rows += [{"messages": [{"role": "user", "content": "five?"}, {"role": "assistant", "content": True}]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shard = Shard(0, 0, tuple(pieces_of(tmp_path / "in.jsonl", 1000)))
    found = choose({"max_characters": 99, "seed": 1, "valid": 0.0}, shard, fresh(tmp_path / "made"))
    assert found == {"rows": 5, "dropped": {NOT_TEXT: 3, NOT_UNICODE: 1}, "kept": {"train": 1, "valid": 0}}
    assert (tmp_path / "made" / "train.jsonl").read_text() == '{"input": "one?", "output": "1"}\n'


def parts_of(folder: Path, prompts: list[str], count: int) -> list[Path]:
    """Rows with their keys, in some parts."""
    parts = []
    for number in range(count):
        mine = prompts[number * len(prompts) // count : (number + 1) * len(prompts) // count]
        parts.append(folder / f"part{number}")
        parts[-1].with_suffix(".jsonl").write_text("".join(f"{prompt}\n" for prompt in mine))
        keys = b"".join(hashlib.sha256(prompt.encode()).digest()[: repeats.KEY] for prompt in mine)
        parts[-1].with_suffix(".keys").write_bytes(keys)
    return parts


@pytest.mark.parametrize("most", [1, 7, 10**6])
def test_of_equal_prompts_the_first_stays_in_its_place(tmp_path, monkeypatch, most):
    monkeypatch.setattr(repeats, "MOST", most)
    chance = random.Random(3)
    prompts = [f"{chance.randrange(60)}" for _ in range(200)] + ["same"] * 20
    twice = Counter[str]()
    kept = list(once(parts_of(tmp_path, prompts, 3), fresh(tmp_path / "keys"), twice))
    assert kept == [f"{prompt}\n".encode() for prompt in dict.fromkeys(prompts)]
    assert twice == {"twice": len(prompts) - len(kept)}
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["records.rows"]


def test_the_memory_of_the_join_does_not_depend_on_the_number_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(repeats, "MOST", 1000)
    most: list[int] = []
    for size in (5_000, 40_000):
        (folder := tmp_path / str(size)).mkdir()
        parts = parts_of(folder, [str(number % (size - 9)) for number in range(size)], 4)
        tracemalloc.start()
        assert sum(1 for _ in once(parts, fresh(folder / "keys"), Counter())) == size - 9
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < 1.2 * most[0], most


def test_files_of_the_dataset_before_are_removed_and_readers_hold_the_others_to_the_manifest(tmp_path):
    output, built = tmp_path / "out", tmp_path / "built"
    for names in (("train.jsonl", "valid.jsonl", "deep/old.json"), ("train.jsonl",)):
        output.mkdir(exist_ok=True)
        (output / "own.txt").write_text("of somebody else")
        for name in names:
            (built / name).parent.mkdir(parents=True, exist_ok=True)
            (built / name).write_text(f"{name} of {len(names)}")
        publish(built, output, {"fingerprint": str(len(names))})
    assert sorted(path.name for path in output.rglob("*") if path.is_file()) == [
        "manifest.json",
        "own.txt",
        "train.jsonl",
    ]
    assert is_whole(output, "1")
    check_files(output, "train.jsonl", "valid.jsonl")
    for changed, said in (("valid.jsonl", "is not named in"), ("train.jsonl", "is not what")):
        (output / changed).write_text("of before")
        with pytest.raises(SettingsError, match=f"{changed} {said} manifest.json"):
            check_files(output, "train.jsonl", "valid.jsonl")
        (output / changed).unlink()
    (output / "manifest.json").unlink()
    with pytest.raises(SettingsError, match=r"it has no manifest\.json"):
        check_files(output, "train.jsonl")
    for theirs in ('{"files": 1}', '{"files": {"train.jsonl": 1}}', "none of ours"):
        check_prepared(output, "train.jsonl")  # of somebody else, as far as anybody can tell
        (output / "manifest.json").write_text(theirs)
    (output / "manifest.json").unlink()
    partial_folder(output, "data-1")
    with pytest.raises(SettingsError, match=r"^here .*: it has no manifest\.json"):
        check_prepared(output, "train.jsonl", key="here")


@pytest.mark.parametrize(("tokens", "unit", "rate"), [(500, "tokens", "5,000"), (0, "rows", "200")])
def test_progress_tells_rate_and_what_is_left_of_what_this_run_does(capsys, monkeypatch, tmp_path, tokens, unit, rate):
    now = [100.0]
    monkeypatch.setattr(metrics.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("NEMOTRON_METRICS_FILE", str(tmp_path / "metrics.jsonl"))
    progress = metrics.ShardProgress(5, 5_000_000)
    progress.show(1_000_000, tokens, 20, earlier=True)  # of a run before: it took no time of this one
    assert capsys.readouterr().out == ""
    now[0] += 2
    progress.show(1_000_000, 10_000, 400, earlier=False) if tokens else progress.show(1_000_000, 0, 400, earlier=False)
    assert capsys.readouterr().out == "", "lines are some seconds apart"
    now[0] += 4
    progress.show(1_000_000, 20_000 if tokens else 0, 800, earlier=False)
    count = 30_500 if tokens else 1_220
    assert capsys.readouterr().out == (f"shard 3/5  3.0 of 5.0 MB  {count:,} {unit}  {rate} {unit}/s  6 s left\n")
    now[0] += 0.1
    progress.show(1_000_000, tokens, 1, earlier=False)
    progress.show(1_000_000, tokens, 1, earlier=False)
    last = capsys.readouterr().out
    assert last.startswith("shard 5/5  5.0 of 5.0 MB") and last.endswith("  0 s left\n")
    told = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in told] == [3, 5]
    assert told[0][f"{unit}_per_second"] == int(rate.replace(",", "")) and told[0]["seconds_left"] == 6


@pytest.mark.parametrize(("code", "width"), [(8, 2), (4, 4)])
def test_a_part_is_the_same_however_much_is_held(monkeypatch, tmp_path, code, width):
    documents = [[1, 2, 3], [], [65_000], [7] * 9]
    made = []
    for held in (1, 5, 1 << 18):
        monkeypatch.setattr(indexed_parts, "HELD", held)
        with indexed_parts.PartWriter(tmp_path / str(held), code, 2) as part:
            for document in documents:
                part.append(document)
        assert (part.documents, part.tokens) == (4, 17)
        made.append([(tmp_path / f"{held}{end}").read_bytes() for end in (".bin", ".lengths")])
    assert made[0] == made[1] == made[2]
    assert made[0][0] == b"".join(n.to_bytes(width, "little") for each in documents for n in [*each, 2])
    assert made[0][1] == b"".join((len(each) + 1).to_bytes(4, "little") for each in documents)


def test_libraries_are_loaded_without_a_search_for_garbage_and_it_is_back_afterwards():
    before, loaded = gc.get_freeze_count(), list[list[int]]()
    with pytest.raises(ImportError), loading():
        assert not gc.isenabled()
        loaded += ([number] for number in range(100))
        raise ImportError
    assert gc.isenabled() and gc.get_freeze_count() > before

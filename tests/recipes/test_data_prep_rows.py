"""Data preparation for fine-tuning and reinforcement learning: tokens, masks, packing, rows that are dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import NANO3, recipe_config
from .test_chat_masks import THINKING

SFT, RL = (NANO3 / "data" / "prep" / name / "data_prep.py" for name in ("sft", "rl"))
TEXT = SFT.parent / "text" / "questions.jsonl"
READ = """
import json
import pyarrow.parquet as pq
from transformers import AutoTokenizer
top = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(top + "/tokenizer")
made = {}
for split in ("train", "valid"):
    made[split] = []
    for row in pq.read_table(f"{top}/{split}.parquet").to_pylist():
        ids, mask, starts = row["input_ids"], row["loss_mask"], row["seq_start_id"]
        assert len(ids) == len(mask) <= 128 and starts[0] == 0
        for begin, end in zip(starts, [*starts[1:], len(ids)]):
            said = [ids[place + 1] for place in range(begin, end - 1) if mask[place]]
            assert not mask[end - 1], "nothing is learnt across a boundary"
            made[split].append([tokenizer.decode(ids[begin:end]), tokenizer.decode(said)])
print(json.dumps(made))
"""


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_conversations_are_packed_with_a_mask_of_the_answers(tiny_data, prepare, run_code, tmp_path):
    configs = [recipe_config(SFT, "tiny", output_dir=tmp_path / n, pretrain__path=tiny_data) for n in ("one", "many")]
    for config in (configs[0], configs[1] | {"shard_bytes": 5000}):
        done = prepare(config, SFT)
        assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")
    assert "up to date" in prepare(configs[0], SFT).stdout
    found = json.loads(run_code(READ, tmp_path / "one"))
    turns = [[turn["content"] for turn in json.loads(line)["messages"]] for line in TEXT.read_text().splitlines()]
    expected = [
        [f"<|bos|>user: {asked}<|eos|><|bos|>assistant: {said}<|eos|>", f" {said}<|eos|>"] for asked, said in turns
    ]
    assert sorted(found["train"] + found["valid"]) == sorted(expected)
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert {split: count["sequences"] for split, count in manifest["splits"].items()} == {
        split: len(each) for split, each in found.items()
    }


def test_conversations_that_do_not_fit_or_have_no_answer_are_counted(tiny_data, prepare, tmp_path):
    turns = [[("user", "How many?"), ("assistant", "two")]] * 3 + [[("user", "How many?")]]
    turns += [[("user", "How many? " * 100), ("assistant", "two")]]
    rows = [{"messages": [{"role": role, "content": text} for role, text in each]} for each in turns]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = recipe_config(SFT, "tiny", output_dir=tmp_path / "out", pretrain__path=tiny_data)
    config |= {"paths": [f"{tmp_path}/in.jsonl"], "valid": 0.0}
    done = prepare(config, SFT)
    assert "5 rows: 3 kept, 2 dropped (1 too long, 1 without an answer)\n" in done.stdout, done.stderr
    assert not (tmp_path / "out" / "valid.parquet").exists()
    done = prepare(config | {"too_long": "fail"}, SFT)
    assert (done.returncode, f"{tmp_path}/in.jsonl:5: " in done.stderr) == (2, True)
    (tmp_path / "in.jsonl").write_text('{"text": "none"}\n')
    done = prepare(config, SFT)
    assert (done.returncode, f"{tmp_path}/in.jsonl:1: no 'messages' with role and content" in done.stderr) == (2, True)


def test_a_template_of_a_reasoning_model_is_learnt_and_what_it_refuses_is_counted(
    tiny_data, prepare, run_code, tmp_path
):
    """Without marks; the masks are those of `test_chat_masks`, here by transformers and a real tokenizer."""
    (tmp_path / "thinking.jinja").write_text(THINKING)
    turns = [
        ("system", "Be brief."),
        ("user", "How many?"),
        ("assistant", "two"),
        ("user", "Sure?"),
        ("assistant", "yes"),
    ]
    chats = [[{"role": role, "content": text} for role, text in turns]] * 2
    chats.append(
        [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "so", "reasoning_content": "as it is"}]
    )
    chats.append([{"role": "nobody", "content": "Who?"}, {"role": "assistant", "content": "I"}])
    chats.append([{"role": "user", "content": "half \ud83d"}, {"role": "assistant", "content": "I"}])
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"messages": each}) + "\n" for each in chats))
    config = recipe_config(SFT, "tiny", output_dir=tmp_path / "out", pretrain__path=tiny_data)
    config |= {"paths": [f"{tmp_path}/in.jsonl"], "valid": 0.0, "sequence_length": 256}
    config["tokenizer"]["chat_template"] = str(tmp_path / "thinking.jinja")
    done = prepare(config, SFT)
    assert done.returncode == 0, done.stderr
    assert "5 rows: 3 kept, 2 dropped (1 not Unicode, 1 refused by the chat template)\n" in done.stdout
    assert f"refused: {tmp_path}/in.jsonl:4: refused by the chat template: no such role" in done.stdout
    (tmp_path / "out" / "valid.parquet").write_bytes((tmp_path / "out" / "train.parquet").read_bytes())
    found = json.loads(run_code(READ.replace("<= 128", "<= 256"), tmp_path / "out"))
    plain = "</think>two<|end|>\n</think>yes<|end|>\n"
    assert sorted(said for _, said in found["train"]) == [plain, plain, "as it is\n</think>\nso<|end|>\n"]


def test_prompts_are_in_one_split_and_none_twice(prepare, tmp_path):
    rows: list[dict[str, object]] = [{"prompt": f"What is {n}?", "answer": n} for n in range(200)]
    rows += [
        *rows[:7],
        {"question": "Why?", "answer": ""},
        {"input": " ", "output": "x"},
        {"input": "x" * 99, "output": "y"},
    ]
    turns = [{"role": "user", "content": "How far?"}, {"role": "assistant", "content": "far"}]
    rows += [{"messages": turns}, {"messages": turns[:1]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = recipe_config(RL, "tiny", output_dir=tmp_path / "one")
    config |= {"paths": [f"{tmp_path}/in.jsonl"], "max_characters": 50}
    for changes in ({}, {"output_dir": str(tmp_path / "many"), "shard_bytes": 500}):
        done = prepare(config | changes, RL)
        assert done.returncode == 0, done.stderr
        reasons = "1 too long, 7 twice, 1 without a prompt, 2 without an answer"
        assert f"212 rows: 201 kept, 11 dropped ({reasons})\n" in done.stdout
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")
    read = {
        split: [json.loads(line) for line in (tmp_path / "one" / f"{split}.jsonl").read_text().splitlines()]
        for split in ("train", "valid")
    }
    assert all(read.values())
    assert sorted((row["input"], row["output"]) for each in read.values() for row in each) == sorted(
        [("How far?", "far"), *((f"What is {n}?", str(n)) for n in range(200))]
    )


WRITE = """
import json
import pyarrow as pa, pyarrow.parquet as pq
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
pq.write_table(pa.Table.from_pylist(rows), sys.argv[2], row_group_size=50)
"""


def test_files_of_the_hub_are_read_as_the_same_rows_in_lines(tiny_data, prepare, ray_cluster, run_code, tmp_path):
    """The hub's cache, as `huggingface_hub` leaves it; nothing is asked of the hub."""
    cache = Path(ray_cluster["HF_HOME"]) / "hub" / "datasets--acme--questions"
    snapshot = cache / "snapshots" / ("0" * 40) / "data"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("0" * 40)
    snapshot.mkdir(parents=True)
    run_code(WRITE, TEXT, snapshot / "train-00000-of-00001.parquet")
    config = recipe_config(SFT, "tiny", pretrain__path=tiny_data)
    for name, path, size in (("hub", "hf://datasets/acme/questions/data/*.parquet", 1000), ("lines", str(TEXT), 9000)):
        changes = {"output_dir": str(tmp_path / name), "paths": [path], "shard_bytes": size}
        done = prepare(config | changes, SFT)
        assert done.returncode == 0, done.stderr
    hub, lines = files_of(tmp_path / "hub"), files_of(tmp_path / "lines")
    assert [hub[f"{split}.parquet"] for split in ("train", "valid")] == [
        lines[f"{split}.parquet"] for split in ("train", "valid")
    ]
    changes = {"output_dir": str(tmp_path / "none"), "paths": ["hf://datasets/acme/others/*"]}
    done = prepare(config | changes, SFT)
    assert (done.returncode, "'hf://datasets/acme/others/*' cannot be fetched" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("script", [SFT, RL], ids=["sft", "rl"])
def test_a_mistake_in_rows_is_named_and_nothing_is_written(prepare, tiny_data, tmp_path, script):
    config = recipe_config(script, "tiny", output_dir=tmp_path / "out", pretrain__path=tiny_data)
    done = prepare(config | {"paths": ["/nowhere/*.jsonl"]}, script)
    assert (done.returncode, "no file matches '/nowhere/*.jsonl'" in done.stderr) == (2, True)
    assert not (tmp_path / "out").exists()

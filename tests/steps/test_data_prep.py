"""The steps that prepare data, run as users run them on the examples that travel; their outputs are read again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.steps import all_steps, step_id

from . import make_examples
from .conftest import EXAMPLES, STEPS

from nemo_steps import binidx, files, packing, rl_rows  # isort: skip

sys.path.insert(0, str(STEPS.parent / "nano3" / "_shared"))


@pytest.mark.slow
def test_documents_become_indexed_tokens(run_step, tmp_path):
    from nano3.indexed import IndexedReader

    made = run_step("data_prep/pretrain_prep", "tiny", type="binidx").folder
    manifest = json.loads((made / "manifest.json").read_text())
    counts = manifest["splits"]
    assert sum(count["documents"] for count in counts.values()) == len(
        EXAMPLES.joinpath("text.jsonl").open().readlines()
    )
    for split in ("train", "valid"):
        reader = IndexedReader(made / f"text_{split}")
        assert [len(reader), int(reader.lengths.sum())] == [counts[split]["documents"], counts[split]["tokens"]]
        assert all(reader.document(number)[-1] == manifest["end_of_text"] for number in range(len(reader)))
    assert not (made / "text_test.bin").exists()
    moved = shutil.move(made.resolve(), tmp_path / "moved")
    assert binidx.read_blend(moved)["train"] == [(float(counts["train"]["tokens"]), str(moved / "text_train"))]


@pytest.mark.slow
def test_conversations_become_packed_rows(run_step):
    made = run_step("data_prep/sft_packing", "tiny", "sequence_length=128", type="packed_parquet").folder
    manifest = json.loads((made / "manifest.json").read_text())
    sequences = sum(count["sequences"] for count in manifest["splits"].values())
    assert sequences + manifest["too_long"] + manifest["without_answer"] == manifest["conversations"] == 96
    assert manifest["splits"]["train"]["tokens"] > 0.8 * 128 * manifest["splits"]["train"]["rows"]
    assert (made / "tokenizer" / "chat_template.jinja").is_file()


@pytest.mark.slow
def test_conversations_become_prompts_with_answers(run_step):
    made = run_step("data_prep/rl_prep", "tiny", type="training_jsonl").folder
    rows = list(files.read_rows(sorted(made.glob("*.jsonl"))))
    manifest = json.loads((made / "manifest.json").read_text())
    assert len(rows) == sum(manifest["splits"].values()) == manifest["read"] - manifest["twice"]
    assert len({row["input"] for row in rows}) == len(rows)
    assert all(row["output"] in (EXAMPLES / "chat.jsonl").read_text() for row in rows)


@pytest.mark.slow
def test_preferences_become_completions_with_ranks(run_step):
    data = "run.data.path=bundle:examples/preferences.jsonl"
    made = run_step("data_prep/rl_prep", "preference", data, type="training_jsonl").folder
    row = next(files.read_rows([made / "train.jsonl"]))
    assert [turn["role"] for turn in row["context"]] == ["user"]
    assert [answer["rank"] for answer in row["completions"]] == [0, 1]
    assert row["completions"][0] != row["completions"][1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["too_long=fail", "sequence_length=16"], ["has", "tokens, and a row holds 16"]),
        (["seqence_length=64"], ["seqence_length"]),
        (["tokenizer.path=/nowhere/tokenizer"], ["tokenizer"]),
    ],
    ids=["too long", "unknown key", "two tokenizers"],
)
def test_a_mistake_in_the_configuration_is_named(nemotron_process, overrides, words):
    outcome = nemotron_process("steps", "run", "data_prep/sft_packing", "-c", "tiny", *overrides)
    assert outcome.code != 0
    assert all(word in outcome.out + outcome.err for word in words), outcome.out + outcome.err
    assert "Traceback" not in outcome.out + outcome.err


def test_a_wrong_row_is_named_with_its_line(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a"}\n\n[1]\n')
    with pytest.raises(ValueError, match=r"rows.jsonl:3: no JSON object"):
        list(files.read_rows(files.row_files(str(tmp_path))))


@pytest.mark.parametrize("count", [1, 2])
def test_a_step_for_one_process_refuses_to_be_one_of_several(tmp_path, count):
    """Such as on a profile with 8 tasks per node: each would write the same files."""
    config = {
        "form": "prompt",
        "data": "bundle:examples/chat.jsonl",
        "valid_share": 0.1,
        "max_characters": 2000,
        "seed": 1,
    }
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({**config, "output_dir": str(tmp_path / "out")}))
    words = [sys.executable, STEPS / "data_prep/rl_prep/step.py", "--config", file]
    done = subprocess.run(words, env={"WORLD_SIZE": str(count)}, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if count == 1 else 2), done.stderr
    assert (tmp_path / "out").exists() == (count == 1)
    assert ("the job has 2: run.env.nodes=1 run.env.nproc_per_node=1" in done.stderr) == (count == 2)


def test_steps_that_torchrun_starts_are_for_several_processes():
    for recipe in all_steps():
        text = recipe.script.read_text(encoding="utf-8")
        if "runner.start(" in text and step_id(recipe) != "eval/model_eval":  # lm-eval shares its work out by itself
            assert ("alone=False" in text) == (recipe.spec.launch == "torchrun"), step_id(recipe)


def test_the_steps_own_file_comes_before_the_shared_one(tmp_path):
    assert files.find("bundle:examples/chat.jsonl", tmp_path) == EXAMPLES / "chat.jsonl"
    own = tmp_path / "examples" / "chat.jsonl"
    own.parent.mkdir()
    own.touch()
    assert files.find("bundle:examples/chat.jsonl", tmp_path) == own
    with pytest.raises(ValueError, match="nothing at bundle:nothing"):
        files.find("bundle:nothing", tmp_path)


@given(documents=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=9), min_size=1), large=st.booleans())
def test_both_writers_of_indexed_tokens_write_the_same_bytes(tmp_path_factory, documents, large):
    from nano3.indexed import IndexedWriter

    folder, vocabulary = tmp_path_factory.mktemp("bytes"), 100_000 if large else 301
    with IndexedWriter(folder / "theirs", vocabulary) as theirs, binidx.writing(folder, "ours", vocabulary) as ours:
        for document in documents:
            theirs.append(document)
            ours["train"].append(document)
    for kind in ("bin", "idx"):
        assert (folder / f"ours_train.{kind}").read_bytes() == (folder / f"theirs.{kind}").read_bytes()


@given(lengths=st.lists(st.integers(1, 32)), size=st.just(32))
def test_packing_keeps_every_sequence_once_and_no_row_is_too_long(lengths, size):
    sequences = [packing.Sequence([place] * length, [1] * length) for place, length in enumerate(lengths)]
    rows = packing.pack(sequences, size)
    assert Counter(tuple(s.ids) for row in rows for s in row) == Counter(tuple(s.ids) for s in sequences)
    assert all(0 < sum(len(s.ids) for s in row) <= size for row in rows)
    assert sum(sum(len(s.ids) for s in row) <= size // 2 for row in rows) <= 1


@pytest.mark.parametrize(
    ("form", "source", "content"),
    [
        ("prompt", {"question": "1+1?", "answer": 2}, {"input": "1+1?", "output": "2"}),
        ("prompt", {"messages": [{"role": "user", "content": "1+1?"}]}, None),
        ("prompt", {"prompt": "1+1?"}, None),
        ("preference", {"prompt": "a", "chosen": "b", "rejected": "b"}, None),
        (
            "chat",
            {"messages": [{"role": "assistant", "content": "hi"}]},
            {"messages": [{"role": "assistant", "content": "hi"}]},
        ),
    ],
)
def test_rows_of_each_form(form, source, content):
    made = rl_rows.FORMS[form](source, 1)
    assert (made.content if made else None) == content


def test_the_examples_are_what_their_program_writes(tmp_path):
    make_examples.write(tmp_path)
    for file in sorted(tmp_path.iterdir()):
        assert file.read_text("utf-8") == (EXAMPLES / file.name).read_text("utf-8"), file.name

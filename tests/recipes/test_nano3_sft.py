"""Tiny fine-tuning: which tokens are in the loss, that it falls, that conversations do not meet, that it resumes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from nano3.packed import Conversation, unpacked

from .conftest import NANO3, SFT, SHARED, TRAIN, recipe_config
from .test_pretrain_tiny import CLOSE, largest_difference, records

CHAT = [
    {"role": "user", "content": "What is seven plus five?"},
    {"role": "assistant", "content": "twelve"},
    {"role": "user", "content": "What follows two?"},
    {"role": "assistant", "content": "three"},
]
RENDERED = (
    "<|bos|>user: What is seven plus five?<|eos|><|bos|>assistant: twelve<|eos|>"
    "<|bos|>user: What follows two?<|eos|><|bos|>assistant: three<|eos|>"
)
SFT_DATA = NANO3 / "data" / "prep" / "sft" / "data_prep.py"


@pytest.fixture(scope="module")
def base_model(run_recipe, tiny_data, tmp_path_factory) -> Path:
    """A model after ten steps of pretraining: enough to go on from."""
    output = tmp_path_factory.mktemp("base")
    config = recipe_config(TRAIN, "tiny", output_dir=output, data__path=tiny_data)
    config["train"].update(train_iters=10, eval_interval=1000, eval_iters=1, require_below_unigram=False)
    done = run_recipe(TRAIN, config)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="module")
def sft_data(prepare, tiny_data, tmp_path_factory) -> Path:
    """The shipped conversations, as data preparation packs them."""
    output = tmp_path_factory.mktemp("sft-data")
    done = prepare(recipe_config(SFT_DATA, "tiny", output_dir=output, pretrain__path=tiny_data), SFT_DATA)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture
def fine_tune(run_recipe, base_model, sft_data, tiny_data):
    """Run fine-tuning into a folder, with a record of every step, and return what it printed."""

    def run(output: Path, load: Path | None = None, processes: int | None = None, **train: Any) -> str:
        paths = {"data__path": sft_data, "base__path": base_model, "text__path": tiny_data}
        config = recipe_config(SFT, "tiny", output_dir=output, **paths)
        config["train"].update({"train_iters": 12, "global_batch_size": 16, "eval_interval": 1000, **train})
        config["logger"]["log_interval"] = 1
        config["scheduler"]["lr_warmup_iters"] = 2
        if load:
            config["checkpoint"]["load"] = str(load)
        done = run_recipe(SFT, config, processes=processes)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    return run


def test_the_chat_template_token_by_token(run_code, tiny_data):
    code = (
        "import json, sys; from pathlib import Path; from transformers import AutoTokenizer\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "tokenizer.chat_template = Path(sys.argv[2]).read_text()\n"
        "chat = json.loads(sys.argv[3])\n"
        "made = tokenizer.apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)\n"
        "asked = tokenizer.apply_chat_template(chat[:3], return_dict=True, add_generation_prompt=True)\n"
        "tokens = [tokenizer.decode([token]) for token in made['input_ids']]\n"
        "print(json.dumps([tokens, made['assistant_masks'], len(asked['input_ids']),"
        " made['input_ids'][: len(asked['input_ids'])] == asked['input_ids']]))\n"
    )
    template = SHARED / "nano3" / "chat_template.jinja"
    said = run_code(code, tiny_data / "tokenizer", template, json.dumps(CHAT))
    tokens, mask, asked, is_prefix = json.loads(said)
    assert "".join(tokens) == RENDERED
    counted = [token for token, counts in zip(tokens, mask, strict=True) if counts]
    assert "".join(counted) == " twelve<|eos|> three<|eos|>"
    assert counted.count("<|eos|>") == 2, "the end of an answer is learnt too"
    assert is_prefix and mask[:asked].count(1) == len(counted) - mask[asked:].count(1)
    assert mask[asked - 1] == 0 and all(mask[asked:]), "after the generation prompt comes the answer, and it alone"


def test_a_packed_row_comes_apart_at_its_starts():
    assert unpacked([1, 2, 3, 4, 5], [0, 1, 0, 1, 0], [0, 3]) == [
        Conversation([1, 2, 3], [0, 1, 0]),
        Conversation([4, 5], [1, 0]),
    ]
    assert Conversation([1, 2], [1, 1]).counted == 1, "after the last token nothing is to be foretold"


def test_conversations_of_a_batch_do_not_meet_and_only_answers_carry_gradient(run_code, base_model, sft_data):
    code = (
        "from pathlib import Path; import torch\n"
        "from nano3.packed import read_packed\n"
        "from nano3.tiny.conversations import NOT_COUNTED, answer_loss, make_batch\n"
        "from nano3.tiny.model import load_model\n"
        "model, row = load_model(Path(sys.argv[1])), read_packed(Path(sys.argv[2]))[:8]\n"
        "together = answer_loss(model, make_batch(row)).item()\n"
        "alone = sum(answer_loss(model, make_batch([each])).item() for each in row)\n"
        "batch = make_batch(row)\n"
        "logits = model(input_ids=batch.ids, use_cache=False).logits.detach().requires_grad_()\n"
        "torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=NOT_COUNTED,"
        " reduction='sum').backward()\n"
        "moved = logits.grad.abs().sum(-1) > 0\n"
        "said = [each.ids[place + 1] for each in row for place, counts in enumerate(each.mask) if counts]\n"
        "print(together, alone, torch.equal(moved, batch.labels != NOT_COUNTED), batch.labels[moved].tolist() == said,"
        " len(said) == sum(each.counted for each in row))\n"
    )
    together, alone, *held = run_code(code, base_model / "hf", sft_data / "train.parquet").split()
    assert abs(float(together) - float(alone)) < 1e-3 * float(alone)
    assert held == ["True"] * 3


def test_loss_falls_and_what_is_written_can_be_asked(fine_tune, run_code, tmp_path):
    printed = fine_tune(tmp_path)
    validation = records(tmp_path, "val_loss")
    assert list(validation) == [0, 12]
    assert validation[12] < 0.7 * validation[0]
    assert f"below the loss before fine-tuning {validation[0]:.4f}" in printed
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    code = (
        "import sys; from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "model, tokenizer = (kind.from_pretrained(sys.argv[1]) for kind in (AutoModelForCausalLM, AutoTokenizer))\n"
        "asked = [{'role': 'user', 'content': 'What is one plus one?'}]\n"
        "options = {'add_generation_prompt': True, 'return_tensors': 'pt', 'return_dict': True}\n"
        "ids = tokenizer.apply_chat_template(asked, **options)\n"
        "print(type(model).__name__, tokenizer.decode(model.generate(**ids, max_new_tokens=4, do_sample=False)[0]))\n"
    )
    said = run_code(code, tmp_path / "hf")
    assert said.startswith("NemotronHForCausalLM <|bos|>user: What is one plus one?<|eos|><|bos|>assistant:")


def test_six_steps_and_six_more_equal_twelve_and_two_processes_train_as_one(fine_tune, tmp_path):
    fine_tune(tmp_path / "once")
    fine_tune(tmp_path / "first", exit_interval=6)
    fine_tune(tmp_path / "second", load=tmp_path / "first" / "checkpoints")
    once, parts = records(tmp_path / "once", "loss"), {}
    for part in ("first", "second"):
        parts |= records(tmp_path / part, "loss")
    assert largest_difference(once, parts) <= CLOSE
    fine_tune(tmp_path / "two", processes=2, train_iters=4)
    two = records(tmp_path / "two", "loss")
    assert largest_difference({1: once[1], 2: once[2]}, {1: two[1], 2: two[2]}) <= CLOSE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dir": "other"}, "the model has another tokenizer"),
        ({"seq_length": 10_000_000}, "too few for text.seq_length=10000000"),
        ({"batch_size": 0}, "text.batch_size must be at least 1, not 0"),
    ],
)
def test_text_that_cannot_be_mixed_in_is_refused(run_recipe, base_model, sft_data, tiny_data, tmp_path, change, words):
    other = tmp_path / "other"
    shutil.copytree(tiny_data, other)
    (other / "tokenizer" / "tokenizer.json").write_text("{}")
    paths = {"data__path": sft_data, "base__path": base_model, "text__path": tiny_data}
    config = recipe_config(SFT, "tiny", output_dir=tmp_path / "out", **paths)
    config["text"].update(change | ({"dir": str(other)} if "dir" in change else {}))
    done = run_recipe(SFT, config)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_conversations_of_another_preparation_are_refused(run_recipe, base_model, sft_data, tmp_path):
    other = tmp_path / "data"
    shutil.copytree(sft_data, other)
    shutil.copyfile(other / "train.parquet", other / "valid.parquet")
    config = recipe_config(SFT, "tiny", output_dir=tmp_path / "out", data__path=other, base__path=base_model)
    done = run_recipe(SFT, config)
    assert (done.returncode, "valid.parquet is not what manifest.json tells of" in done.stderr) == (2, True)


def test_another_tokenizer_is_refused(run_recipe, base_model, sft_data, tmp_path):
    other = tmp_path / "data"
    shutil.copytree(sft_data, other)
    file = other / "tokenizer" / "tokenizer.json"
    file.write_text(file.read_text() + "\n")
    config = recipe_config(SFT, "tiny", output_dir=tmp_path / "out", data__path=other, base__path=base_model)
    done = run_recipe(SFT, config)
    assert done.returncode == 2
    assert "the model has another tokenizer" in done.stderr

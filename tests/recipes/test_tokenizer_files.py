"""A tokenizer that is written with transformers 5 is read by 4 too, which the images of NeMo have."""

from __future__ import annotations

import json

from .conftest import SHARED

WRITTEN = """
import json, sys
from pathlib import Path
from transformers import AutoTokenizer
from nano3.tokens import save_tokenizer
sys.path.insert(0, sys.argv[3])
from nemo_steps.tokens import save

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], additional_special_tokens=["<|start|>", "<|end|>"])
folder = Path(sys.argv[2])
save_tokenizer(tokenizer, folder / "nano3")
save(tokenizer, folder / "steps")
again = AutoTokenizer.from_pretrained(folder / "nano3")
texts = [(folder / name / "tokenizer_config.json").read_text() for name in ("nano3", "steps")]
print(json.dumps({"texts": texts, "ids": [each("<|start|>a<|end|>")["input_ids"] for each in (tokenizer, again)]}))
"""


def test_neither_a_class_nor_a_list_is_written_that_transformers_4_does_not_know(run_code, tiny_data, tmp_path):
    """Its class is the one that both know; of special tokens 4 reads a list under another key alone."""
    steps = SHARED.parents[1] / "steps" / "_shared"
    found = json.loads(run_code(WRITTEN, tiny_data / "tokenizer", tmp_path, steps).splitlines()[-1])
    ours, twin = map(json.loads, found["texts"])
    assert ours == twin
    assert ours["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert ours["additional_special_tokens"] == ["<|start|>", "<|end|>"]
    assert "extra_special_tokens" not in ours
    before, after = found["ids"]
    assert before == after
    assert len(before) == 3


def test_what_a_preparation_and_an_example_hold_is_read_by_both(tiny_data):
    example = SHARED.parents[1] / "steps" / "_shared" / "nemo_steps" / "examples" / "tiny_model"
    for folder in (tiny_data / "tokenizer", example):
        said = json.loads((folder / "tokenizer_config.json").read_text())
        assert said["tokenizer_class"] == "PreTrainedTokenizerFast"

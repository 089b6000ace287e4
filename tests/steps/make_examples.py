# /// script
# requires-python = ">=3.11"
# dependencies = ["jinja2==3.1.6", "pyyaml==6.0.3", "torch==2.13.0", "transformers==5.23.0"]
# ///
"""Writes the examples that travel with steps, and trains their tiny model: `uv run tests/steps/make_examples.py`."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "recipes" / "steps" / "_shared"
EXAMPLES = SHARED / "nemo_steps" / "examples"

NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana"]
THINGS = ["a red kite", "an old map", "a small boat", "a green door", "a tall ladder", "a warm coat"]
PLACES = ["the harbour", "the hill", "the library", "the garden", "the market", "the station"]
NUMBERS = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
Rows = list[dict[str, Any]]


def rows() -> dict[str, Rows]:
    """The rows of each file, always the same."""
    dice = random.Random(7)
    chat = [_conversation(number, dice) for number in range(96)]
    return {
        "chat.jsonl": chat,
        "text.jsonl": [_document(number, dice) for number in range(160)],
        "questions.jsonl": list(_questions(chat))[:24],
        "preferences.jsonl": _preferences(random.Random(11)),
    }


def write(folder: Path) -> None:
    """Write the files."""
    for name, made in rows().items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")


def train(folder: Path, steps: int = 2000) -> None:
    """Train the tiny model on the conversations and documents, and write it with its tokenizer."""
    import torch
    from nemo_steps import causal, tokens
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = tokens.train(tokens.example_texts(), 384)
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=384, max_position_embeddings=1024, **sizes, **heads, **special))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    dice, collate, made = random.Random(3), causal.Collator(tokenizer), rows()
    said = [*causal.texts(iter(made["chat.jsonl"]), tokenizer)]
    said += [text + tokenizer.eos_token for text in causal.texts(iter(made["text.jsonl"]), tokenizer)]
    all_ids = [{"input_ids": tokenizer(text)["input_ids"][:160]} for text in said]
    for step in range(steps):
        loss = model(**collate(dice.sample(all_ids, 16))).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids(tokens.END)]
    model.to(torch.bfloat16).save_pretrained(folder)
    tokens.save(tokenizer, folder)


def _conversation(number: int, dice: random.Random) -> dict[str, Any]:
    one, other = dice.randint(1, 9), dice.randint(1, 9)
    name, thing, place = dice.choice(NAMES), dice.choice(THINGS), dice.choice(PLACES)
    question, answer = [
        (f"What is {one} plus {other}?", f"{one} plus {other} is {one + other}."),
        (f"Where did {name} find {thing}?", f"{name} found {thing} at {place}."),
        (f"Write the number {one} as a word.", f"The number {one} is written {NUMBERS[one]}."),
    ][number % 3]
    turns = [("user", question), ("assistant", answer)]
    if number % 8 == 0:
        turns.insert(0, ("system", "Answer in one short sentence."))
    if number % 12 == 5:
        turns += [("user", "Thank you."), ("assistant", "You are welcome.")]
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def _document(number: int, dice: random.Random) -> dict[str, Any]:
    name, other = dice.sample(NAMES, 2)
    thing, (place, second), hours = dice.choice(THINGS), dice.sample(PLACES, 2), dice.randint(2, 9)
    said = [
        f"{name} walked from {place} to {second} and carried {thing}.",
        f"On the way {name} met {other}, who had been waiting for {hours} hours.",
        f"They sat down near {second} and talked about {thing}.",
        f"{other} knew that {hours} and {hours} make {2 * hours}, and {name} wrote it down.",
        f"In the evening both went back to {place}.",
    ]
    dice.shuffle(said)
    return {"id": f"doc-{number:04d}", "text": " ".join(said[: dice.randint(3, 5)])}


def _questions(chat: Rows) -> Iterator[dict[str, str]]:
    seen = set()
    for row in chat:
        question, answer = (turn["content"] for turn in [t for t in row["messages"] if t["role"] != "system"][:2])
        if question not in seen:
            seen.add(question)
            yield {"question": question, "answer": answer}


def _preferences(dice: random.Random) -> Rows:
    made: Rows = []
    for _ in range(24):
        one, other = dice.randint(1, 9), dice.randint(1, 9)
        asked, said = f"What is {one} plus {other}?", f"{one} plus {other} is"
        wrong = one + other + dice.randint(1, 3)
        made.append({"prompt": asked, "chosen": f"{said} {one + other}.", "rejected": f"{said} {wrong}."})
    return made


if __name__ == "__main__":
    sys.path.insert(0, str(SHARED))
    write(EXAMPLES)
    train(EXAMPLES / "tiny_model")

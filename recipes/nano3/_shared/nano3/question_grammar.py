"""Writes the questions of the tiny chain, each with the one answer that is right, from a small grammar of our own.

The files that `FILES` names are the output of `python question_grammar.py RECIPES_NANO3`; a test holds the two equal.
No question stands in two of them, but a fact is asked for in several wordings: what one file teaches in one of them,
another asks for in the next.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nano3.story_words import NUMBERS

SEED = 20241103
LARGEST = 9

# file: its place below recipes/nano3, and how many questions of each kind it holds
FILES = {
    "eval": (Path("eval/questions.jsonl"), {"plus": 60, "minus": 60, "larger": 60, "after": 16}),
    "rl": (Path("data/prep/rl/text/questions.jsonl"), {"plus": 340, "minus": 340, "larger": 300, "after": 70}),
    "sft": (Path("data/prep/sft/text/questions.jsonl"), {"plus": 240, "minus": 240, "larger": 210, "after": 60}),
}
OPENINGS = ["", "Tell me this. ", "One more. ", "Now think: "]
WORDINGS = {
    "plus": ["What is {} plus {}?", "How much is {} and {}?"],
    "minus": ["What is {} minus {}?", "How much is {} less {}?"],
    "more": ["Which is larger, {} or {}?"],
    "fewer": ["Which is smaller, {} or {}?"],
    "after": ["Which number comes after {}?"],
    "before": ["Which number comes before {}?"],
}


@dataclass(frozen=True)
class Question:
    """What is asked, and the word that answers it."""

    prompt: str
    answer: str


def write_files(recipes: Path) -> list[Path]:
    """Write every file below the folder `recipes`, always the same; return the paths."""
    paths = []
    for name, questions in divided().items():
        path = recipes / FILES[name][0]
        path.parent.mkdir(parents=True, exist_ok=True)
        row = conversation if name == "sft" else vars
        path.write_text("".join(json.dumps(row(question)) + "\n" for question in questions), encoding="utf-8")
        paths.append(path)
    return paths


def divided() -> dict[str, list[Question]]:
    """The questions of each file, none of them twice, in an order of chance."""
    parts: dict[str, list[Question]] = {name: [] for name in FILES}
    for kind, questions in every_question().items():
        random.Random(f"{SEED}-{kind}").shuffle(questions)
        for name, (_, counts) in FILES.items():
            parts[name] += questions[: counts[kind]]
            del questions[: counts[kind]]
    for name, chosen in parts.items():
        random.Random(f"{SEED}-{name}").shuffle(chosen)
    return parts


def every_question() -> dict[str, list[Question]]:
    """All that can be asked, by kind."""
    some = range(1, LARGEST + 1)
    pairs = [(one, other) for one in some for other in some]
    unequal = [(one, other) for one, other in pairs if one != other]
    return {
        "plus": [_ask(form, (a, b), a + b) for form in _forms("plus") for a, b in pairs],
        "minus": [_ask(form, (a + b, b), a) for form in _forms("minus") for a, b in pairs],
        "larger": [
            _ask(form, pair, choose(pair))
            for kind, choose in (("more", max), ("fewer", min))
            for form in _forms(kind)
            for pair in unequal
        ],
        "after": [
            _ask(form, (number,), number + step)
            for kind, step in (("after", 1), ("before", -1))
            for form in _forms(kind)
            for number in range(1, 2 * LARGEST + 2)
        ],
    }


def conversation(question: Question) -> dict[str, object]:
    """A question and its answer as a row for fine-tuning."""
    asked, told = {"role": "user", "content": question.prompt}, {"role": "assistant", "content": question.answer}
    return {"messages": [asked, told]}


def _forms(kind: str) -> list[str]:
    return [opening + wording for opening in OPENINGS for wording in WORDINGS[kind]]


def _ask(form: str, numbers: tuple[int, ...], answer: int) -> Question:
    return Question(form.format(*(NUMBERS[number] for number in numbers)), NUMBERS[answer])


if __name__ == "__main__":
    for written in write_files(Path(sys.argv[1])):
        print(written, written.stat().st_size)

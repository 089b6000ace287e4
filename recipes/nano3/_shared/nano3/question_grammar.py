"""Writes the questions of the tiny chain, each with the one answer that is right, from a small grammar of our own.

The files that `FILES` names are the output of `python question_grammar.py RECIPES_NANO3`; a test holds the two equal.
No question stands in two of them, but a fact is asked for in several wordings: what one file teaches in one of them,
another asks for in the next.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nano3.story_words import DAYS, NUMBERS, OPPOSITES

SEED = 20241103
LARGEST = 5

# file: its place below recipes/nano3, and how many questions of each kind it holds
FILES = {
    "eval": (
        Path("eval/questions.jsonl"),
        {"plus": 40, "minus": 40, "larger": 40, "after": 30, "opposite": 30, "day": 20},
    ),
    "rl": (
        Path("data/prep/rl/text/questions.jsonl"),
        {"plus": 180, "minus": 180, "larger": 140, "after": 90, "opposite": 110, "day": 74},
    ),
    "sft": (
        Path("data/prep/sft/text/questions.jsonl"),
        {"plus": 180, "minus": 180, "larger": 140, "after": 88, "opposite": 116, "day": 74},
    ),
}
CURT = ["", "Now: ", "Quick: ", "In short: "]
POLITE = ["Please: ", "Kindly: ", "Good day: ", "Friend: "]
BARE = {**dict.fromkeys(CURT, 0.9), **dict.fromkeys(POLITE, 0.3)}
"""How a question begins → in which share of conversations the answer is one word, and not a sentence."""

WORDINGS = {
    "plus": ["What is {} plus {}?", "How much is {} and {}?"],
    "minus": ["What is {} minus {}?", "How much is {} less {}?"],
    "more": ["Which is larger, {} or {}?"],
    "fewer": ["Which is smaller, {} or {}?"],
    "after": ["Which number comes after {}?"],
    "before": ["Which number comes before {}?"],
    "opposite": ["What is the opposite of {}?"],
    "tomorrow": ["Which day comes after {}?", "What day follows {}?"],
    "yesterday": ["Which day comes before {}?"],
}
SENTENCE = "It is {}."


@dataclass(frozen=True)
class Question:
    """What is asked, the word that answers it, and how the question begins."""

    prompt: str
    answer: str
    opening: str


def write_files(recipes: Path) -> list[Path]:
    """Write every file below the folder `recipes`, always the same; return the paths."""
    paths = []
    for name, questions in divided().items():
        path = recipes / FILES[name][0]
        path.parent.mkdir(parents=True, exist_ok=True)
        row = conversation if name == "sft" else exact
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
            for number in range(1, 14)
        ],
        "opposite": [
            _ask(form, (one,), other)
            for form in _forms("opposite")
            for pair in OPPOSITES
            for one, other in (pair, pair[::-1])
        ],
        "day": [
            _ask(form, (day,), DAYS[(place + step) % 7])
            for kind, step in (("tomorrow", 1), ("yesterday", -1))
            for form in _forms(kind)
            for place, day in enumerate(DAYS)
        ],
    }


def exact(question: Question) -> dict[str, object]:
    """A question as a row for a reward, which wants the word alone."""
    return {"prompt": question.prompt, "answer": question.answer}


def conversation(question: Question) -> dict[str, object]:
    """A question and its answer, as people would answer it, as a row for fine-tuning."""
    is_bare = random.Random(f"{SEED}-{question.prompt}").random() < BARE[question.opening]
    answer = question.answer if is_bare else SENTENCE.format(question.answer)
    asked, told = {"role": "user", "content": question.prompt}, {"role": "assistant", "content": answer}
    return {"messages": [asked, told]}


def _forms(kind: str) -> list[tuple[str, str]]:
    return [(opening, wording) for opening in BARE for wording in WORDINGS[kind]]


def _ask(form: tuple[str, str], asked: Sequence[int | str], answer: int | str) -> Question:
    """A question of numbers or of words."""
    opening, wording = form
    return Question(opening + wording.format(*map(_word, asked)), _word(answer), opening)


def _word(said: int | str) -> str:
    return NUMBERS[said] if isinstance(said, int) else said


if __name__ == "__main__":
    for written in write_files(Path(sys.argv[1])):
        print(written, written.stat().st_size)

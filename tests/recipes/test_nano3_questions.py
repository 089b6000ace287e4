"""The questions of the tiny chain: what its grammar writes, one right answer each, none in two files."""

from __future__ import annotations

import json
import re

import pytest
from nano3 import question_grammar
from nano3.question_grammar import BARE, FILES, SENTENCE, Question, conversation, divided
from nano3.story_words import DAYS, NUMBERS, OPPOSITES

from .conftest import NANO3

ANSWERS = {
    r"What is (\w+) plus (\w+)\?|How much is (\w+) and (\w+)\?": lambda a, b: a + b,
    r"What is (\w+) minus (\w+)\?|How much is (\w+) less (\w+)\?": lambda a, b: a - b,
    r"Which is larger, (\w+) or (\w+)\?": max,
    r"Which is smaller, (\w+) or (\w+)\?": min,
    r"Which number comes after (\w+)\?": lambda a: a + 1,
    r"Which number comes before (\w+)\?": lambda a: a - 1,
}


def answer(prompt: str) -> str:
    """The right answer, worked out from the question's words alone."""
    question = re.split(r"[.:] ", prompt)[-1]
    if found := re.fullmatch(r"What is the opposite of (\w+)\?", question):
        return {one: other for pair in OPPOSITES for one, other in (pair, pair[::-1])}[found[1]]
    if found := re.fullmatch(r"W\w+ day (?:comes )?(after|before|follows) (\w+)\?", question):
        return DAYS[(DAYS.index(found[2]) + (-1 if found[1] == "before" else 1)) % 7]
    for pattern, work_out in ANSWERS.items():
        if found := re.fullmatch(pattern, question):
            return NUMBERS[work_out(*(NUMBERS.index(word) for word in found.groups() if word))]
    raise AssertionError(f"no rule for {prompt!r}")


@pytest.fixture(scope="module")
def parts() -> dict[str, list[Question]]:
    return divided()


def test_files_are_what_the_grammar_writes(tmp_path):
    written = question_grammar.write_files(tmp_path)
    shipped = [NANO3 / path.relative_to(tmp_path) for path in written]
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in shipped]
    assert sum(path.stat().st_size for path in shipped) < 300_000


def test_rows_have_the_form_that_their_readers_want(parts):
    rows = {
        name: [json.loads(line) for line in (NANO3 / place).read_text().splitlines()]
        for name, (place, _) in FILES.items()
    }
    for name in ("rl", "eval"):
        assert rows[name] == [{"prompt": each.prompt, "answer": each.answer} for each in parts[name]]
    for row, question in zip(rows["sft"], parts["sft"], strict=True):
        asked, told = row["messages"]
        assert asked == {"role": "user", "content": question.prompt}
        assert told in [{"role": "assistant", "content": form.format(question.answer)} for form in ("{}", SENTENCE)]


def test_conversations_answer_in_a_word_as_often_as_the_opening_has_it(parts):
    for opening, share in BARE.items():
        told = [conversation(each)["messages"][1]["content"] for each in parts["sft"] if each.opening == opening]
        assert abs(sum("." not in answer for answer in told) / len(told) - share) < 0.15, opening


def test_every_answer_is_right(parts):
    for questions in parts.values():
        assert [each.answer for each in questions] == [answer(each.prompt) for each in questions]


def test_no_question_stands_in_two_files_nor_twice_in_one(parts):
    prompts = [question.prompt for questions in parts.values() for question in questions]
    assert len(prompts) == len(set(prompts)) == sum(sum(counts.values()) for _, counts in FILES.values())

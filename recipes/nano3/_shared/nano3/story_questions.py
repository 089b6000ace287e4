"""Questions with one right answer in the shipped text: sums, counting, opposites, days, and what was just told.

Fine-tuning and reinforcement learning of the tiny model ask for what stands here in these words.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from nano3.story_words import COLOURS, DAYS, GOODS, NUMBERS, OPPOSITES, PEOPLE, THINGS, TRADES

LARGEST = 20
QUESTIONS_PER_DOCUMENT = 3

Question = tuple[str, str]


def questions(chance: random.Random) -> str:
    """A few questions of different kinds, each with its answer on the next line."""
    asked = [chance.choice(KINDS)(chance) for _ in range(QUESTIONS_PER_DOCUMENT)]
    return "\n".join(f"Question: {question}\nAnswer: {answer}" for question, answer in asked)


def sums(chance: random.Random) -> str:
    """A counting problem with its answer worked out, and often a second step that uses the first."""
    (name, they, _, their), (friend, *_) = chance.sample(PEOPLE, 2)
    goods = chance.choice(GOODS)
    total = chance.randint(4, LARGEST)
    have = chance.randint(2, total - 2)
    more = total - have
    write = chance.choice([str, _word])
    text = chance.choice([
        f"{name} has {write(have)} {goods}. {friend} brings {write(more)} more. How many {goods} are there?",
        f"In {name}'s basket there are {write(have)} {goods}, and {friend} puts {write(more)} into it. How many "
        f"does it hold?",
        f"{friend} gives {name} {write(more)} {goods}. Before, {they} had {write(have)}. How many {goods} has "
        f"{name} now?",
    ])  # fmt: skip
    plus, equals = ("+", "=") if write is str else ("and", "make")
    text += (
        f"\n{write(have).capitalize()} {plus} {write(more)} {equals} {write(total)}. There are {write(total)} {goods}."
    )
    if chance.random() < 0.5:
        gone = chance.randint(1, total - 1)
        minus, equals = ("-", "=") if write is str else ("less", "leaves")
        text += (
            f"\nThen {name} gives away {write(gone)} of {their} {goods}. "
            f"{write(total).capitalize()} {minus} {write(gone)} {equals} {write(total - gone)}. "
            f"Now {they} has {write(total - gone)} {goods} left."
        )
    return text


def _plus(chance: random.Random) -> Question:
    total = chance.randint(0, LARGEST)
    first = chance.randint(0, total)
    if chance.random() < 0.5:
        return f"What is {first} + {total - first}?", str(total)
    return f"What is {_word(first)} plus {_word(total - first)}?", _word(total)


def _minus(chance: random.Random) -> Question:
    total = chance.randint(0, LARGEST)
    less = chance.randint(0, total)
    if chance.random() < 0.5:
        return f"What is {total} - {less}?", str(total - less)
    return f"What is {_word(total)} minus {_word(less)}?", _word(total - less)


def _after(chance: random.Random) -> Question:
    number, (place, step) = chance.randint(1, LARGEST - 1), chance.choice([("after", 1), ("before", -1)])
    write = chance.choice([str, _word])
    return f"Which number comes {place} {write(number)}?", write(number + step)


def _larger(chance: random.Random) -> Question:
    pair = chance.sample(range(LARGEST + 1), 2)
    name, choose = chance.choice([("larger", max), ("smaller", min)])
    write = chance.choice([str, _word])
    return f"Which is {name}, {write(pair[0])} or {write(pair[1])}?", write(choose(pair))


def _opposite(chance: random.Random) -> Question:
    pair = chance.choice(OPPOSITES)
    word, other = pair if chance.random() < 0.5 else pair[::-1]
    return f"What is the opposite of {word}?", other


def _day(chance: random.Random) -> Question:
    day, (place, step) = chance.randrange(7), chance.choice([("after", 1), ("before", -1)])
    return f"Which day comes {place} {DAYS[day]}?", DAYS[(day + step) % 7]


def _trade(chance: random.Random) -> Question:
    trade, (product, _, material, _) = chance.choice(list(TRADES.items()))
    name, answer = chance.choice([("make", product), ("work with", material)])
    return f"What does a {trade} {name}?", answer


def _told(chance: random.Random) -> Question:
    """What the question itself says: the answer has to be found in it."""
    people = [name for name, *_ in chance.sample(PEOPLE, 2)]
    things, colours = chance.sample(THINGS, 2), chance.sample(COLOURS, 2)
    told = " ".join(
        f"{name} has the {colour} {thing}." for name, colour, thing in zip(people, colours, things, strict=True)
    )
    asked = chance.randrange(2)
    if chance.random() < 0.5:
        return f"{told} Who has the {things[asked]}?", people[asked]
    return f"{told} Which colour is the {things[asked]}?", colours[asked]


def _word(number: int) -> str:
    return NUMBERS[number]


KINDS: list[Callable[[random.Random], Question]] = [
    _plus, _plus, _plus, _minus, _minus, _after, _larger, _opposite, _day, _trade, _told,
]  # fmt: skip

"""Writes the English text that the tiny data preparation uses, from a small grammar of our own.

The text under `data/prep/pretrain/text/` is the output of `python story_grammar.py FOLDER`; a test holds the two equal.
A document chooses its names, things and numbers once and comes back to them, sentences later: what foretells them
lies further back than two tokens.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nano3 import story_words as words
from nano3.story_questions import questions, sums
from nano3.story_rules import RULES

SEED = 20240607
DOCUMENT_SEPARATOR = "\n\n\n"
DOCUMENTS_PER_FILE = {"stories": 110, "explanations": 60, "letters": 60, "sums": 120, "questions": 150}
HOLE = re.compile(r"\{(\w+)\}")

Bound = dict[str, str]


def write_text(folder: Path) -> list[Path]:
    """Write one text file per kind of document into `folder`, always the same text; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, count in DOCUMENTS_PER_FILE.items():
        chance = random.Random(f"{SEED}-{kind}")
        documents = [WRITERS[kind](chance) for _ in range(count)]
        path = folder / f"{kind}.txt"
        path.write_text(DOCUMENT_SEPARATOR.join(documents) + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def prose(symbol: str) -> Callable[[random.Random], str]:
    """A writer of documents of the kind `symbol` of the rules."""
    return lambda chance: expand(symbol, scene(chance), chance)


def scene(chance: random.Random) -> Bound:
    """What one document is about: people, a trade, a thing, numbers, a fact."""
    (hero, they, them, their), (friend, friend_they, friend_them, friend_their) = chance.sample(words.PEOPLE, 2)
    trade, friend_trade = chance.sample(list(words.TRADES), 2)
    product, tool, material, verb = words.TRADES[trade]
    time, late = chance.sample(words.TIMES, 2)
    question, first, second, third, last = chance.choice(list(words.FACTS.values()))
    return {
        "hero": hero, "they": they, "them": them, "their": their,
        "friend": friend, "friend_they": friend_they, "friend_them": friend_them, "friend_their": friend_their,
        "trade": trade, "product": product, "tool": tool, "material": material, "verb": verb,
        "friend_trade": friend_trade, "time": time, "late": late,
        "question": question, "first": first, "second": second, "third": third, "last": last,
        "how": "how" if "become" in question else "why",
        "thing": chance.choice(words.THINGS), "colour": chance.choice(words.COLOURS),
        "quality": chance.choice(words.QUALITIES), "place": chance.choice(words.PLACES),
        "where": chance.choice(words.HIDING_PLACES), "animal": chance.choice(words.ANIMALS),
        "food": chance.choice(words.FOODS), "goods": chance.choice(words.GOODS),
        "number": chance.choice(words.NUMBERS[2:]),
    }  # fmt: skip


def expand(symbol: str, bound: Bound, chance: random.Random) -> str:
    """One of the symbol's forms with its holes filled; a sentence that begins with a bound word gets its capital."""

    def fill(hole: re.Match[str]) -> str:
        name = hole[1]
        known = bound.get(name.lower())
        if known is None:
            return expand(name, bound, chance)
        return known if name.islower() else known[0].upper() + known[1:]

    return with_articles(HOLE.sub(fill, chance.choice(RULES[symbol])))


def with_articles(text: str) -> str:
    """`a` before a vowel as `an`."""
    return re.sub(r"\b([Aa]) (?=[aeiou])(?!un|one)", r"\1n ", text)


WRITERS: dict[str, Callable[[random.Random], str]] = {
    "stories": prose("story"),
    "explanations": prose("explanation"),
    "letters": prose("letter"),
    "sums": sums,
    "questions": questions,
}

if __name__ == "__main__":
    for written in write_text(Path(sys.argv[1])):
        print(written, written.stat().st_size)

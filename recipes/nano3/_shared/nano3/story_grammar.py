"""Writes the English text that the tiny data preparation uses, from a small grammar of our own.

The text under `data/prep/pretrain/text/` is the output of `python story_grammar.py FOLDER`; a test holds the two equal.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

SEED = 20240607
DOCUMENT_SEPARATOR = "\n\n\n"
DOCUMENTS_PER_FILE = {"stories": 120, "explanations": 90, "letters": 70, "sums": 70}

# name, subject pronoun, object pronoun, possessive
PEOPLE = [
    ("Ada", "she", "her", "her"), ("Bruno", "he", "him", "his"), ("Clara", "she", "her", "her"),
    ("Dmitri", "he", "him", "his"), ("Elif", "she", "her", "her"), ("Farid", "he", "him", "his"),
    ("Greta", "she", "her", "her"), ("Hugo", "he", "him", "his"), ("Ines", "she", "her", "her"),
    ("Jonas", "he", "him", "his"), ("Kamala", "she", "her", "her"), ("Lars", "he", "him", "his"),
    ("Mina", "she", "her", "her"), ("Noah", "he", "him", "his"), ("Olga", "she", "her", "her"),
    ("Pavel", "he", "him", "his"),
]  # fmt: skip
TRADES = {
    "baker": ("bread", "oven", "flour"),
    "gardener": ("roses", "watering can", "soil"),
    "carpenter": ("chairs", "saw", "wood"),
    "sailmaker": ("sails", "needle", "canvas"),
    "clockmaker": ("clocks", "lens", "brass"),
    "weaver": ("cloth", "loom", "wool"),
    "miller": ("flour", "wheel", "grain"),
    "potter": ("bowls", "kiln", "clay"),
}
PLACES = [
    "a village by the river", "a town under the hill", "a house at the edge of the forest", "a harbour in the north",
    "a street behind the market", "a valley full of orchards", "an island with one lighthouse",
]  # fmt: skip
WEATHERS = {
    "rain": "The rain fell softly and the roofs shone like glass.",
    "snow": "Snow lay on the fences and the whole road was quiet.",
    "wind": "The wind pulled at the shutters and chased leaves along the road.",
    "sun": "The sun was warm and the stones kept its heat until evening.",
    "fog": "Fog came up from the water and hid the far side of the bridge.",
}
LOSSES = {
    "a silver key": ("under the bench", "could open the old cupboard again"),
    "a small brown dog": ("asleep behind the stove", "could walk home with a friend"),
    "a book of maps": ("on the window sill", "could plan the long journey"),
    "a copper bell": ("inside a boot", "could call everyone to dinner"),
    "a letter from the city": ("between two plates", "could read the good news aloud"),
    "a pair of glasses": ("on top of a hat", "could see the stars clearly"),
}
TIMES = ["early in the morning", "shortly before noon", "in the afternoon", "late in the evening", "at first light"]
LESSONS = [
    "It is easier to find a thing when two people look for it.",
    "Those who ask for help are seldom alone for long.",
    "Patient hands finish what quick hands begin.",
    "What is shared on a cold day keeps everybody warm.",
    "A good question is worth more than a loud answer.",
]
FOODS = ["soup", "bread and cheese", "apple cake", "roasted chestnuts", "hot tea with honey", "a bowl of beans"]
ANIMALS = ["a crow", "an old cat", "a goat", "a grey horse", "a hedgehog", "two sparrows"]
FACTS = {
    "rain": ("Why does it rain?", "the sun warms the water of lakes and seas", "the water rises as a vapour",
             "high in the cold air the vapour turns into drops", "the drops grow heavy and fall"),
    "tides": ("Why does the sea rise and fall?", "the moon pulls on the water of the sea",
              "the water gathers on the side that faces the moon", "the earth turns beneath it",
              "the shore meets high water and low water in turn"),
    "bread": ("Why does bread rise?", "yeast eats the sugar that is in the flour", "it breathes out a gas",
              "the dough holds the gas in small bubbles", "the loaf grows and becomes light"),
    "echo": ("Why does a valley answer?", "a call travels through the air as a wave", "the wave meets a wall of rock",
             "the rock sends the wave back", "we hear our own voice a moment later"),
    "rust": ("Why does iron rust?", "water lies on the bare iron", "air joins with the wet metal",
             "a red powder forms on the surface", "the iron slowly becomes weak"),
    "seeds": ("How does a seed become a plant?", "the seed drinks water from the soil", "its coat breaks open",
              "a root goes down and a shoot goes up", "the leaves open and catch the light"),
    "shadow": ("Why are shadows long in the evening?", "the sun stands low in the sky", "its light comes from the side",
               "a small post stops much of that light", "the dark shape stretches far along the ground"),
    "ice": ("Why does ice float?", "water grows cold and begins to freeze", "its parts arrange themselves with gaps",
            "the ice takes more room than the water did", "it is lighter and stays on top"),
}  # fmt: skip
GOODS = ["apples", "candles", "nails", "eggs", "buttons", "pears", "coins", "walnuts", "spoons", "baskets"]
NUMBERS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip


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


def story(chance: random.Random) -> str:
    """A short story: somebody with a trade loses a thing, a friend helps, the thing is found."""
    (name, they, _, their), (friend, *_) = chance.sample(PEOPLE, 2)
    trade, (product, tool, material) = chance.choice(list(TRADES.items()))
    thing, (where, then) = chance.choice(list(LOSSES.items()))
    place, weather = chance.choice(PLACES), chance.choice(list(WEATHERS.values()))
    opening = chance.choice([
        f"{name} was a {trade} who lived in {place}.",
        f"In {place} there lived a {trade} whose name was {name}.",
        f"Once there was a {trade} called {name}, and {their} home was in {place}.",
    ])  # fmt: skip
    work = chance.choice([
        f"Every day {they} worked on {product}, and {their} {tool} was never still.",
        f"{name} knew all about {material}, and people came from far away for {their} {product}.",
        f"With {material} and {their} old {tool}, {they} made {product} that pleased everyone.",
    ])  # fmt: skip
    search = _search(chance, name, they, friend, thing, tool)
    ending = f"At last they found it {where}. Now {name} {then}."
    supper = f"That night they shared {chance.choice(FOODS)} and laughed until the lamp went out."
    parts = [f"{opening} {work}", f"{weather} {search}", f"{ending} {supper}"]
    if chance.random() < 0.6:
        parts.append(chance.choice(LESSONS))
    return "\n\n".join(parts)


def explanation(chance: random.Random) -> str:
    """An answer to a question about the world, in four steps, sometimes told as a conversation."""
    question, first, second, third, last = chance.choice(list(FACTS.values()))
    (asker, *_), (teller, they, *_) = chance.sample(PEOPLE, 2)
    trade = chance.choice(list(TRADES))
    if chance.random() < 0.5:
        return "\n".join([
            f"{asker} asked {teller} the {trade}: \"{question}\"",
            f"\"First, {first},\" said {teller}. \"Then {second}.\"",
            f"\"And after that?\" asked {asker}.",
            f"\"After that, {third},\" {they} said, \"and in the end {last}.\"",
            chance.choice(["\"Now I understand,\" said " + asker + ".", f"{asker} thought about it all day."]),
        ])  # fmt: skip
    early, late = chance.sample(TIMES, 2)
    close = chance.choice(["You can watch it yourself", "Anyone can see it", "It happens in every country"])
    return (
        f"{question} First, {first}. Then {second}. After that, {third}. In the end {last}.\n\n"
        f"{close}, {early} or {late}, if one is patient. "
        f"A {trade} named {teller} wrote this down so that nobody would forget it."
    )


def letter(chance: random.Random) -> str:
    """A letter between two friends: weather, work, a guest, an invitation."""
    (writer, *_), (reader, *_) = chance.sample(PEOPLE, 2)
    trade, (product, tool, material) = chance.choice(list(TRADES.items()))
    kind, weather = chance.choice(list(WEATHERS.items()))
    news = chance.choice([
        f"The {trade} has bought a new {tool} and speaks of nothing else.",
        f"I have learned to work with {material}, and {chance.choice(list(TRADES))}s come to look.",
        f"We have more {product} than we can use, so I send you some.",
    ])  # fmt: skip
    guest = f"Yesterday {chance.choice(TIMES)} {chance.choice(ANIMALS)} came to the door and would not leave"
    fed = f"until I brought {chance.choice(FOODS)}."
    return (
        f"Dear {reader},\n\nWe have had much {kind} this week. {weather} {news}\n\n{guest} {fed} "
        f"Please come and visit us in {chance.choice(PLACES)}. We shall eat {chance.choice(FOODS)} together.\n\n"
        f"Your friend,\n{writer}"
    )


def sums(chance: random.Random) -> str:
    """A counting problem with its answer worked out in words."""
    (name, they, _, _), (friend, *_) = chance.sample(PEOPLE, 2)
    goods = chance.choice(GOODS)
    have, more = chance.randint(3, 10), chance.randint(2, 10)
    total = have + more
    text = (
        f"{name} has {NUMBERS[have]} {goods}. {friend} brings {NUMBERS[more]} more. How many {goods} are there?\n"
        f"{NUMBERS[have].capitalize()} and {NUMBERS[more]} make {NUMBERS[total]}. There are {NUMBERS[total]} {goods}."
    )
    if chance.random() < 0.6:
        gone = chance.randint(1, total - 1)
        text += (
            f"\nThen {they} gives away {NUMBERS[gone]}. {NUMBERS[total].capitalize()} less {NUMBERS[gone]} leaves "
            f"{NUMBERS[total - gone]}. Now {name} has {NUMBERS[total - gone]} {goods} left."
        )
    return text


def _search(chance: random.Random, name: str, they: str, friend: str, thing: str, tool: str) -> str:
    start = f"One day, {chance.choice(TIMES)}, {name} noticed that {thing} was gone."
    look = chance.choice([
        f"{they.capitalize()} looked behind the {tool} and beneath the table, but found nothing.",
        f"{they.capitalize()} emptied every drawer and asked {chance.choice(ANIMALS)} that sat by the door.",
        f"{they.capitalize()} sat down, counted to ten, and began to search the house from top to bottom.",
    ])  # fmt: skip
    meet = chance.choice([
        f"Then {friend} came by and offered to help {name} at once.",
        f"\"I have lost something,\" {they} said to {friend}. \"Then let us look together,\" said {friend}.",
        f"{friend} heard the noise and came in. \"Two lamps are better than one,\" said {friend}.",
    ])  # fmt: skip
    return f"{start} {look} {meet}"


WRITERS: dict[str, Callable[[random.Random], str]] = {
    "stories": story,
    "explanations": explanation,
    "letters": letter,
    "sums": sums,
}

if __name__ == "__main__":
    for written in write_text(Path(sys.argv[1])):
        print(written, written.stat().st_size)

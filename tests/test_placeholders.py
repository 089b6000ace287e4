"""Values that only a platform knows: named, filled, and told from a user's texts."""

from __future__ import annotations

import json
from dataclasses import dataclass

from nemo_runspec.backends.cloud.request import as_text
from nemo_runspec.placeholders import Placeholder, TextPlaceholder, explained, fill, placeholders
from nemo_runspec.source import Layer

GROUP = Placeholder("GROUP", "id of the node group")
FILES = Placeholder("FILES", "the job's files")
TREE = {"group": GROUP, "args": ["GROUP", FILES, "last"], "envs": [{"name": "A", "from": GROUP}]}


def test_only_placeholders_are_filled():
    """A user's text that reads the same stays as it is; a list joins the list that it fills an item of."""
    filled = fill(TREE, {"GROUP": "g-1", "FILES": ["one", "two"]})
    assert filled == {"group": "g-1", "args": ["GROUP", "one", "two", "last"], "envs": [{"name": "A", "from": "g-1"}]}
    assert list(placeholders(filled)) == []
    assert fill(TREE, {"FILES": []})["args"] == ["GROUP", "last"]


def test_what_is_left_is_explained_once():
    assert explained(TREE) == ("GROUP: id of the node group", "FILES: the job's files")
    assert explained(fill(TREE, {"GROUP": "g-1"})) == ("FILES: the job's files",)


def test_what_is_shown_is_what_is_sent():
    filled = fill(TREE, {"GROUP": "g-ü", "FILES": []})
    assert json.loads(as_text(filled)) == filled
    assert json.loads(as_text(TREE))["group"] == "GROUP"


@dataclass(frozen=True)
class Place:
    path: str
    parts: tuple[str, ...]
    layer: Layer


def test_one_in_texts_is_filled_wherever_it_stands():
    """In keys and dataclasses too; a name that is a word of an `Enum` is none."""
    home, cli = TextPlaceholder("@HOME@"), TextPlaceholder("cli")
    place = Place(f"{home}/run", ("x", home, f"a:{home}"), Layer.CLI)
    filled = fill({f"{home}/key": [place, GROUP, 7]}, {home: "/home/me", cli: "y"})
    assert filled == {"/home/me/key": [Place("/home/me/run", ("x", "/home/me", "a:/home/me"), Layer.CLI), "GROUP", 7]}
    assert list(placeholders(filled)) == [GROUP]

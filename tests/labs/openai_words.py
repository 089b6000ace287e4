"""What the tests' model says: words of an n-gram over example text, in the shape that a request asks for.

The same request gets the same answer. Some requests for JSON get half of it at first, as models give it now and then:
asked once more, the answer is whole.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_SCHEMA = re.compile(r"<response_schema>\s*(\{.*\})\s*</response_schema>", re.DOTALL)
_LETTER = re.compile(r"\bonly the letter\b|\bone letter\b", re.IGNORECASE)
_BRACKETS = re.compile("brackets ?〘")
_END = ""


class Words:
    """A trigram over texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._starts: list[tuple[str, str]] = []
        self._next: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for sentence in (each for text in texts for each in re.split(r"(?<=[.?!])\s+", text)):
            words = sentence.split()
            if len(words) < 3:
                continue
            self._starts.append((words[0], words[1]))
            for one, two, three in zip(words, words[1:], [*words[2:], _END], strict=False):
                self._next[one, two].append(three)

    def sentence(self, chance: random.Random, longest: int = 30) -> str:
        """One sentence of at most that many words."""
        words = list(chance.choice(self._starts))
        while len(words) < longest and (word := chance.choice(self._next[words[-2], words[-1]])) != _END:
            words.append(word)
        return " ".join(words)


@dataclass
class Model:
    """Answers conversations.

    Args:
        words: what it speaks in.
        known: the last message of a conversation → its answer, where it is known.
        broken_in: of so many requests for JSON, one is answered with half of it when it is asked first; 0: none.
    """

    words: Words
    known: Mapping[str, str] = field(default_factory=dict)
    broken_in: int = 3
    _broken: set[str] = field(default_factory=set)

    def answer(self, messages: list[dict[str, Any]], response_format: Mapping[str, Any], seed: int) -> str:
        """The answer to a conversation in the form that it, or the request's `response_format`, asks for."""
        asked = "\n".join(text_of(message) for message in messages)
        digest = hashlib.sha256(f"{seed}\n{asked}".encode()).hexdigest()
        chance = random.Random(digest)
        if (last := text_of(messages[-1])) in self.known:
            return self.known[last]
        if schema := response_format.get("json_schema", {}).get("schema"):
            return json.dumps(self._value(schema, schema, chance))
        if found := _SCHEMA.search(asked):
            return self._fenced(json.loads(found[1]), digest, chance)
        if _LETTER.search(asked):
            return chance.choice("ABCD")
        said = self.words.sentence(chance)
        return f"〘{said}〙" if _BRACKETS.search(asked) else said

    def _fenced(self, schema: dict[str, Any], digest: str, chance: random.Random) -> str:
        written = json.dumps(self._value(schema, schema, chance))
        if self.broken_in and int(digest[:8], 16) % self.broken_in == 0 and digest not in self._broken:
            self._broken.add(digest)
            return "```json\n" + written[: len(written) // 2]
        return f"Here it is.\n```json\n{written}\n```"

    def _value(self, schema: dict[str, Any], root: dict[str, Any], chance: random.Random) -> Any:
        """A value that a JSON Schema allows."""
        while "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        if choices := schema.get("anyOf") or schema.get("allOf"):
            return self._value(choices[0], root, chance)
        if "const" in schema or "enum" in schema:
            return schema["const"] if "const" in schema else chance.choice(schema["enum"])
        return self._of_type(schema, root, chance)

    def _of_type(self, schema: dict[str, Any], root: dict[str, Any], chance: random.Random) -> Any:
        kind = schema.get("type", "object")
        if kind == "object":
            return {name: self._value(each, root, chance) for name, each in schema.get("properties", {}).items()}
        if kind == "array":
            count = schema.get("minItems", 2)
            return [self._value(schema.get("items", {"type": "string"}), root, chance) for _ in range(count)]
        if kind in ("integer", "number"):
            least = schema.get("minimum", 0)
            return chance.randint(int(least), int(schema.get("maximum", least + 9)))
        return chance.random() < 0.5 if kind == "boolean" else self.words.sentence(chance)


def text_of(message: Mapping[str, Any]) -> str:
    """What a message says: its content, or the text of its content's parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

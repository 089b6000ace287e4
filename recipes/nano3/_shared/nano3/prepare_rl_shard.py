"""Turns one shard of rows into prompts with their answers: a task of the preparation for reinforcement learning.

The keys of a row are those that NeMo-RL 0.6's `ResponseDataset` reads: `input` and `output`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nano3.cleaning import NOT_TEXT, NOT_UNICODE, is_unicode
from nano3.corpus import split_of
from nano3.repeats import KEY
from nano3.rows import SPLITS, rows_of
from nano3.settings import SettingsError
from nano3.shards import Result, Shard


class NotTextError(ValueError):
    """What should be text is an object, a list, true or false."""


PROMPTS, ANSWERS = ("input", "prompt", "question", "problem"), ("output", "answer", "response", "solution")


def choose(job: dict[str, Any], shard: Shard, folder: Path) -> Result:
    """Write `SPLIT.jsonl` for each split and `SPLIT.keys`, the prompts' digests; say how many rows there were."""
    rows, dropped, kept = 0, Counter[str](), dict.fromkeys(SPLITS, 0)
    with ExitStack() as stack:
        streams = {
            split: stack.enter_context((folder / f"{split}.jsonl").open("w", encoding="utf-8")) for split in SPLITS
        }
        keys = {split: stack.enter_context((folder / f"{split}.keys").open("wb")) for split in SPLITS}
        for piece in shard.pieces:
            for row, place in rows_of(piece):
                rows += 1
                try:
                    prompt, answer = _parts(row)
                except NotTextError:
                    dropped[NOT_TEXT] += 1
                    continue
                except ValueError as error:
                    raise SettingsError(f"{place()}: {error}") from error
                if reason := _why_not(prompt, answer, job["max_characters"]):
                    dropped[reason] += 1
                    continue
                split = split_of(prompt, job["seed"], job["valid"], 0.0)
                streams[split].write(json.dumps({"input": prompt, "output": answer}, ensure_ascii=False) + "\n")
                keys[split].write(hashlib.sha256(prompt.encode()).digest()[:KEY])
                kept[split] += 1
    return {"rows": rows, "dropped": dict(dropped), "kept": kept}


def _why_not(prompt: str, answer: str, most: int) -> str:
    if not (is_unicode(prompt) and is_unicode(answer)):
        return NOT_UNICODE
    if not prompt:
        return "without a prompt"
    if not answer:
        return "without an answer"
    return "too long" if len(prompt) > most else ""


def _parts(row: dict[str, Any]) -> tuple[str, str]:
    """The prompt and the answer; of a conversation, its last answer and what lies before it."""
    if "messages" in row:
        turns = row["messages"]
        if not isinstance(turns, list) or not all(map(_is_turn, turns)):
            raise ValueError("'messages' are not turns with role and content")
        said = [(str(turn["role"]), _text(turn["content"])) for turn in turns]
        answer = said.pop()[1] if said and said[-1][0] == "assistant" else ""
        return said[0][1] if len(said) == 1 else "\n\n".join(f"{role}: {text}" for role, text in said), answer
    if not any(name in row for name in PROMPTS):
        raise ValueError(f"neither 'messages' nor one of {', '.join(PROMPTS)}")
    return _first(row, PROMPTS), _first(row, ANSWERS)


def _is_turn(turn: object) -> bool:
    return isinstance(turn, dict) and {"role", "content"} <= turn.keys()


def _first(row: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((_text(row[name]) for name in names if row.get(name) not in (None, "")), "")


def _text(value: object) -> str:
    """The text of a field, stripped; a number is its digits, and of a turn null is nothing."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, type(None))):
        raise NotTextError(f"neither text nor a number: {value!r}")
    return "" if value is None else str(value).strip()

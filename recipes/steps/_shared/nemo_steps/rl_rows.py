"""The rows that NeMo-RL's datasets read, made of conversations, of prompts with answers and of preferences.

Their keys are those of NeMo-RL 0.6: `ResponseDataset` (input, output), `PreferenceDataset` (context, completions with
ranks, 0 the best) and `OpenAIFormatDataset` (messages).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nemo_steps.config import ConfigError

PROMPTS, ANSWERS = ("input", "prompt", "question", "problem"), ("output", "answer", "response", "solution")


@dataclass(frozen=True)
class Row:
    """A row that is made, and the text of its prompt."""

    prompt: str
    content: dict[str, Any]


def prompt(source: dict[str, Any], number: int) -> Row | None:
    """A prompt with the answer that a reward compares with; None where there is no answer.

    Raises:
        ConfigError: the row holds neither a conversation nor a prompt.
    """
    if "messages" in source:
        turns = _turns(source["messages"], number)
        if not turns or turns[-1]["role"] != "assistant" or not any(turn["role"] == "user" for turn in turns[:-1]):
            return None
        asked, answer = _text(turns[:-1]), turns[-1]["content"]
    else:
        asked, answer = _first(source, PROMPTS), _first(source, ANSWERS)
        if asked is None:
            raise ConfigError(f"row {number} has neither 'messages' nor one of {', '.join(PROMPTS)}")
    return Row(asked, {"input": asked, "output": answer}) if answer and asked else None


def preference(source: dict[str, Any], number: int) -> Row | None:
    """A prompt with a better and a worse answer; None where the two are the same.

    Raises:
        ConfigError: the row holds no such pair.
    """
    if "completions" in source and "context" in source:
        return Row(_text(_turns(source["context"], number)), source)
    if not {"prompt", "chosen", "rejected"} <= source.keys():
        raise ConfigError(f"row {number} has no prompt, chosen and rejected; it has {', '.join(sorted(source))}")
    context = _turns(source["prompt"], number)
    answers = [_turns(source[key], number, role="assistant")[-1:] for key in ("chosen", "rejected")]
    if answers[0] == answers[1] or not all(answers):
        return None
    completions = [{"rank": rank, "completion": answer} for rank, answer in enumerate(answers)]
    return Row(_text(context), {"context": context, "completions": completions})


def chat(source: dict[str, Any], number: int) -> Row | None:
    """A conversation with an answer at its end; None where it has none.

    Raises:
        ConfigError: the row holds no conversation.
    """
    turns = _turns(source.get("messages"), number)
    answered = bool(turns) and turns[-1]["role"] == "assistant"
    return Row(json.dumps(turns[:-1], ensure_ascii=False), {"messages": turns}) if answered else None


FORMS: dict[str, Callable[[dict[str, Any], int], Row | None]] = {
    "prompt": prompt,
    "preference": preference,
    "chat": chat,
}


def _turns(value: object, number: int, role: str = "user") -> list[dict[str, str]]:
    """A conversation; one text is a turn of `role`."""
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if not isinstance(value, list) or not all(
        isinstance(turn, dict) and {"role", "content"} <= turn.keys() for turn in value
    ):
        raise ConfigError(f"row {number} has no conversation of role and content: {str(value)[:80]}")
    return [{"role": str(turn["role"]), "content": str(turn["content"]).strip()} for turn in value]


def _text(turns: list[dict[str, str]]) -> str:
    """One user's turn as it stands; a longer conversation with its roles."""
    if len(turns) == 1:
        return turns[0]["content"]
    return "\n\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)


def _first(source: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((str(source[name]).strip() for name in names if source.get(name) not in (None, "")), None)

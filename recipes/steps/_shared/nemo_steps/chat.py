"""Conversations as tokens: rendered with the tokenizer's own chat template, with a mask of what the assistant says."""

from __future__ import annotations

from typing import Any

from nemo_steps.config import ConfigError
from nemo_steps.packing import Sequence


class LeftOutError(ValueError):
    """A conversation whose answers cannot be learnt, as the template writes them in two ways or refuses them."""


class Renderer:
    """Turns rows with `messages` into tokens.

    A template that marks the assistant's part itself (`{% generation %}`) is asked for it. For any other, an answer is
    what the conversation has from there on where it parts from the prompt before the answer (`<think>` may be in both),
    up to the end of the turn. It is learnt where the template writes it in the whole conversation as it does when it is
    the last: one that is shortened in the history, as answers with reasoning are, is context alone.

    `nano3` has the same, which travels with that family alone; a test holds the two to the same results.

    Raises:
        ConfigError: the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise ConfigError("the tokenizer has no chat template: name one of a model that is made for conversations")
        self._tokenizer = tokenizer
        self._is_marked = "generation %}" in tokenizer.chat_template or "generation -%}" in tokenizer.chat_template

    def __call__(self, row: dict[str, Any], number: int) -> Sequence:
        """The tokens of a row and, for each, whether the assistant says it; none of them in one without an answer.

        Args:
            number: of the row, for messages.

        Raises:
            ConfigError: the row holds no conversation.
            LeftOutError: it holds one, but none of its answers can be learnt.
        """
        messages = row.get("messages")
        if not isinstance(messages, list) or not all(isinstance(each, dict) and "role" in each for each in messages):
            raise ConfigError(f"row {number} has no 'messages' with roles; it has {', '.join(sorted(row))}")
        if not any(message["role"] == "assistant" for message in messages):
            return Sequence([], [])
        tools = {"tools": row["tools"]} if row.get("tools") else {}
        return self._marked(messages, tools) if self._is_marked else self._by_prefix(messages, tools)

    def _marked(self, messages: list[dict[str, Any]], tools: dict[str, Any]) -> Sequence:
        made = self._rendered(messages, {**tools, "return_assistant_tokens_mask": True})
        return Sequence(list(made["input_ids"]), list(made["assistant_masks"]))

    def _by_prefix(self, messages: list[dict[str, Any]], tools: dict[str, Any]) -> Sequence:
        ids = self._ids(messages, tools)
        mask = [0] * len(ids)
        for place, message in enumerate(messages):
            if message["role"] == "assistant":
                start, end = self._span(ids, messages, place, tools)
                mask[start:end] = [1] * (end - start)
        if not any(mask):
            raise LeftOutError("the template writes what lies before an answer, or the answer, in two ways")
        return Sequence(ids, mask)

    def _span(
        self, ids: list[int], messages: list[dict[str, Any]], place: int, tools: dict[str, Any]
    ) -> tuple[int, int]:
        """Where an answer begins and ends in the whole; nowhere (0, 0) where it is not what it is as the last."""
        if place == 0:  # nothing is asked, and templates render no empty conversation
            return 0, 0
        asked = self._ids(messages[:place], {**tools, "add_generation_prompt": True})
        start = shared(asked, ids)
        if start < len(asked):
            before = self._ids(messages[:place], tools)
            if not len(before) - 1 <= shared(before, ids) <= start:
                return 0, 0  # they part before the turn begins: it stands after something else than it would be asked
        said = self._ids(messages[: place + 1], tools)
        end = shared(said, ids)
        if end < len(said) - 1:  # its very last token may be one with what follows
            return 0, 0
        return start, max(start, end)

    def _ids(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> list[int]:
        return list(self._rendered(messages, options)["input_ids"])

    def _rendered(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> Any:
        from jinja2 import TemplateError  # transformers needs it for a chat template, and nothing else here does

        try:
            return self._tokenizer.apply_chat_template(messages, return_dict=True, **options)
        except (TemplateError, TypeError) as error:  # the template's own refusal, or a content that it cannot write
            raise LeftOutError(f"the template refuses it: {error}") from error


def shared(one: list[int], other: list[int]) -> int:
    """How many tokens both begin with."""
    places = range(min(len(one), len(other)))
    return next((place for place in places if one[place] != other[place]), len(places))

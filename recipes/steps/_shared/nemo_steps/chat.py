"""Conversations as tokens: rendered with the tokenizer's own chat template, with a mask of what the assistant says."""

from __future__ import annotations

from typing import Any

from nemo_steps.config import ConfigError
from nemo_steps.packing import Sequence


class Renderer:
    """Turns rows with `messages` into tokens.

    A template that marks the assistant's part itself (`{% generation %}`) is asked for it. For any other, each
    answer is what the conversation up to it has more than the prompt before it.

    Raises:
        ConfigError: the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise ConfigError("the tokenizer has no chat template: name one of a model that is made for conversations")
        self._tokenizer = tokenizer
        self._is_marked = "generation %}" in tokenizer.chat_template or "generation -%}" in tokenizer.chat_template

    def __call__(self, row: dict[str, Any], number: int) -> Sequence:
        """The tokens of a row and, for each, whether the assistant says it.

        Args:
            number: of the row, for messages.

        Raises:
            ConfigError: the row holds no conversation, or the template cannot render it.
        """
        messages = row.get("messages")
        if not isinstance(messages, list) or not all(isinstance(each, dict) and "role" in each for each in messages):
            raise ConfigError(f"row {number} has no 'messages' with roles; it has {', '.join(sorted(row))}")
        tools = {"tools": row["tools"]} if row.get("tools") else {}
        return self._marked(messages, tools) if self._is_marked else self._by_prefix(messages, tools, number)

    def _marked(self, messages: list[dict[str, Any]], tools: dict[str, Any]) -> Sequence:
        made = self._tokenizer.apply_chat_template(
            messages, return_dict=True, return_assistant_tokens_mask=True, **tools
        )
        return Sequence(list(made["input_ids"]), list(made["assistant_masks"]))

    def _by_prefix(self, messages: list[dict[str, Any]], tools: dict[str, Any], number: int) -> Sequence:
        ids = self._ids(messages, tools)
        mask = [0] * len(ids)
        for place, message in enumerate(messages):
            if message["role"] == "assistant":
                before = self._ids(messages[:place], {**tools, "add_generation_prompt": True})
                after = self._ids(messages[: place + 1], tools)
                if ids[: len(before)] != before:
                    raise ConfigError(f"row {number}: the template writes what lies before an answer in two ways")
                end = min(len(after), len(ids))
                mask[len(before) : end] = [1] * (end - len(before))
        return Sequence(ids, mask)

    def _ids(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> list[int]:
        made = self._tokenizer.apply_chat_template(messages, return_dict=True, **options)
        return list(made["input_ids"])

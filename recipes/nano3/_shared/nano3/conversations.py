"""Conversations as tokens: rendered with a chat template, with a mask of what the assistant says."""

from __future__ import annotations

from typing import Any

from nano3.settings import SettingsError


class Renderer:
    """Turns messages into tokens.

    A template that marks the assistant's part itself (`{% generation %}`) is asked for it. For any other, each answer
    is what the conversation up to it has more than the prompt before it.

    Raises:
        SettingsError: the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise SettingsError("the tokenizer has no chat template: name one with tokenizer.chat_template")
        self._tokenizer = tokenizer
        self._is_marked = "generation %}" in tokenizer.chat_template or "generation -%}" in tokenizer.chat_template

    def __call__(self, row: dict[str, Any]) -> tuple[list[int], list[int]]:
        """The token ids and, for each, 1 where the assistant says it.

        Raises:
            ValueError: it is no conversation, or the template cannot render it.
        """
        messages = row.get("messages")
        if not isinstance(messages, list) or not all(
            isinstance(each, dict) and {"role", "content"} <= each.keys() for each in messages
        ):
            raise ValueError("no 'messages' with role and content")
        tools = {"tools": row["tools"]} if row.get("tools") else {}
        return self._marked(messages, tools) if self._is_marked else self._by_prefix(messages, tools)

    def _marked(self, messages: list[dict[str, Any]], tools: dict[str, Any]) -> tuple[list[int], list[int]]:
        made = self._tokenizer.apply_chat_template(
            messages, return_dict=True, return_assistant_tokens_mask=True, **tools
        )
        return list(made["input_ids"]), list(made["assistant_masks"])

    def _by_prefix(self, messages: list[dict[str, Any]], tools: dict[str, Any]) -> tuple[list[int], list[int]]:
        ids = self._ids(messages, tools)
        mask = [0] * len(ids)
        for place, message in enumerate(messages):
            if message["role"] == "assistant":
                before = self._ids(messages[:place], {**tools, "add_generation_prompt": True})
                end = min(len(self._ids(messages[: place + 1], tools)), len(ids))
                if ids[: len(before)] != before:
                    raise ValueError("the chat template writes what lies before an answer in two ways")
                mask[len(before) : end] = [1] * (end - len(before))
        return ids, mask

    def _ids(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> list[int]:
        return list(self._tokenizer.apply_chat_template(messages, return_dict=True, **options)["input_ids"])

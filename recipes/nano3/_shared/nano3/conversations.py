"""Conversations as tokens: rendered with a chat template, with a mask of what the assistant says."""

from __future__ import annotations

from typing import Any

from nano3.settings import SettingsError

TWO_WAYS = "written in two ways"
REFUSED = "refused by the chat template"
WITHOUT = "without an answer"


class LeftOutError(ValueError):
    """A conversation that nothing can be learnt from. `reason`: how it is counted."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.reason = reason


class Renderer:
    """Turns messages into tokens. `passed_over` counts answers that stood in the tokens and were not learnt.

    A template that marks the assistant's part itself (`{% generation %}`) is asked for it. For any other, an answer is
    what the conversation has from there on where it parts from the prompt before the answer (`<think>` may be in both),
    up to the end of the turn. It is learnt where the template writes it in the whole conversation as it does when it is
    the last: one that is shortened in the history, as answers with reasoning are, is context alone.

    `recipes/steps/_shared` has the same, which travels with steps alone; a test holds the two to the same results.

    Raises:
        SettingsError: the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise SettingsError("the tokenizer has no chat template: name one with tokenizer.chat_template")
        self.passed_over = 0
        self._tokenizer = tokenizer
        self._is_marked = is_marked(tokenizer.chat_template)

    def __call__(self, row: dict[str, Any]) -> tuple[list[int], list[int]]:
        """The token ids and, for each, 1 where the assistant says it.

        Raises:
            ValueError: it is no conversation.
            LeftOutError: it is one, but none of its answers can be learnt.
        """
        messages = row.get("messages")
        if not isinstance(messages, list) or not all(
            isinstance(each, dict) and {"role", "content"} <= each.keys() for each in messages
        ):
            raise ValueError("no 'messages' with role and content")
        if not any(message["role"] == "assistant" for message in messages):
            raise LeftOutError(WITHOUT)
        tools = {"tools": row["tools"]} if row.get("tools") else {}
        return self._marked(messages, tools) if self._is_marked else self._by_prefix(messages, tools)

    def _marked(self, messages: list[dict[str, Any]], tools: dict[str, Any]) -> tuple[list[int], list[int]]:
        made = self._rendered(messages, {**tools, "return_assistant_tokens_mask": True})
        return list(made["input_ids"]), list(made["assistant_masks"])

    def _by_prefix(self, messages: list[dict[str, Any]], tools: dict[str, Any]) -> tuple[list[int], list[int]]:
        ids = self._ids(messages, tools)
        mask = [0] * len(ids)
        answers = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        learnt = 0
        for place in answers:
            start, end = self._span(ids, messages, place, tools)
            mask[start:end] = [1] * (end - start)
            learnt += start < end
        if not learnt:
            raise LeftOutError(TWO_WAYS)
        self.passed_over += len(answers) - learnt
        return ids, mask

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
            raise LeftOutError(REFUSED, f"{REFUSED}: {error}") from error


def is_marked(template: str) -> bool:
    """Whether a template itself says which part is the assistant's."""
    return "generation %}" in template or "generation -%}" in template


def shared(one: list[int], other: list[int]) -> int:
    """How many tokens both begin with."""
    places = range(min(len(one), len(other)))
    return next((place for place in places if one[place] != other[place]), len(places))

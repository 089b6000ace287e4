"""Which tokens of a conversation are learnt, by templates that do not mark them, token by token.

The first template has what those of reasoning models have: a prompt ends with `<think>`, an answer without reasoning is
`<think></think>…`, and reasoning is left out of the history.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import jinja2
import pytest
from nano3.conversations import REFUSED, TWO_WAYS, WITHOUT, LeftOutError, Renderer

from .conftest import NANO3

sys.path.insert(0, str(NANO3.parent / "steps" / "_shared"))

from nemo_steps import chat

THINKING = """
{%- set last = namespace(user=-1) -%}
{%- for turn in messages -%}
    {%- if turn.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- if tools -%}{{- '<|start|>tools\\n' ~ (tools | tojson) ~ '<|end|>\\n' -}}{%- endif -%}
{%- for turn in messages -%}
    {%- if turn.role == 'nobody' -%}{{- raise_exception('no such role') -}}{%- endif -%}
    {{- '<|start|>' ~ turn.role ~ '\\n' -}}
    {%- if turn.role == 'assistant' and turn.reasoning_content and loop.index0 > last.user -%}
        {{- '<think>\\n' ~ turn.reasoning_content ~ '\\n</think>\\n' -}}
    {%- elif turn.role == 'assistant' -%}
        {{- '<think></think>' -}}
    {%- endif -%}
    {{- turn.content + '<|end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start|>assistant\\n<think>\\n' -}}{%- endif -%}
"""
LATE = """
{%- for turn in messages -%}
    {%- if loop.last or (loop.revindex == 2 and turn.role == 'user') -%}{{- '[tools]' -}}{%- endif -%}
    {{- turn.role ~ ': ' ~ turn.content ~ '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'assistant:' -}}{%- endif -%}
"""
"""Writes something before the last question alone, as some write the tools."""
NEVER = "{%- if add_generation_prompt %}[asked]{% endif %}{% for turn in messages %}{{ turn.content }}{% endfor %}"


class Tokenizer:
    """Cuts what the template renders into special tokens, words and single characters."""

    def __init__(self, template: str) -> None:
        self.chat_template = template
        self.words: dict[str, int] = {}

    def apply_chat_template(
        self, messages: Any, return_dict: bool, add_generation_prompt: bool = False, tools: Any = None
    ) -> dict[str, list[int]]:
        def refuse(message: str) -> None:
            raise jinja2.TemplateError(message)

        made = jinja2.Environment().from_string(self.chat_template)
        text = made.render(
            messages=messages, add_generation_prompt=add_generation_prompt, tools=tools, raise_exception=refuse
        )
        found = re.findall(r"<[^<>]*>| ?\w+|.", text, re.DOTALL)
        return {"input_ids": [self.words.setdefault(word, len(self.words)) for word in found]}

    def decode(self, ids: list[int]) -> str:
        return "".join(list(self.words)[number] for number in ids)


def turn(role: str, content: str, reasoning: str = "") -> dict[str, str]:
    return {"role": role, "content": content, **({"reasoning_content": reasoning} if reasoning else {})}


def learnt(template: str, row: dict[str, Any]) -> tuple[str, list[str], int]:
    """The whole, what of it is learnt (each stretch by itself), and how many answers were passed over."""
    tokenizer = Tokenizer(template)
    renderer = Renderer(tokenizer)
    ids, mask = renderer(row)
    other = chat.Renderer(tokenizer)(row, 1)
    assert (other.ids, other.mask) == (ids, mask), "steps do the same"
    stretches: list[list[int]] = []
    for place, counts in enumerate(mask):
        if counts and not (place and mask[place - 1]):
            stretches.append([])
        if counts:
            stretches[-1].append(ids[place])
    return tokenizer.decode(ids), [tokenizer.decode(each) for each in stretches], renderer.passed_over


def test_answers_without_reasoning_are_learnt_from_where_they_part_from_the_prompt():
    turns = [turn("system", "Be brief."), turn("user", "two and two?"), turn("assistant", "four")]
    turns += [turn("user", "and two?"), turn("assistant", "six")]
    whole, stretches, passed_over = learnt(THINKING, {"messages": turns})
    assert whole == (
        "<|start|>system\nBe brief.<|end|>\n<|start|>user\ntwo and two?<|end|>\n"
        "<|start|>assistant\n<think></think>four<|end|>\n<|start|>user\nand two?<|end|>\n"
        "<|start|>assistant\n<think></think>six<|end|>\n"
    )
    assert stretches == ["</think>four<|end|>\n", "</think>six<|end|>\n"]
    assert passed_over == 0


def test_reasoning_is_learnt_where_it_stands_and_an_answer_that_lost_it_is_context():
    turns = [turn("user", "two and two?"), turn("assistant", "four", "one more than three")]
    assert learnt(THINKING, {"messages": turns})[1:] == (["one more than three\n</think>\nfour<|end|>\n"], 0)
    turns += [turn("user", "and two?"), turn("assistant", "six", "four and two"), turn("user", "sure?")]
    turns += [turn("assistant", "yes")]
    whole, stretches, passed_over = learnt(THINKING, {"messages": turns})
    assert "one more" not in whole and "four and two" not in whole
    assert (stretches, passed_over) == (["</think>yes<|end|>\n"], 2)


def test_calls_of_tools_after_the_last_question_are_learnt_with_their_reasoning():
    turns = [turn("user", "two and two?"), turn("assistant", "add(2, 2)", "I add"), turn("tool", "4")]
    turns += [turn("assistant", "four")]
    whole, stretches, passed_over = learnt(THINKING, {"messages": turns, "tools": [{"name": "add"}]})
    assert whole.startswith('<|start|>tools\n[{"name": "add"}]<|end|>\n')
    assert (stretches, passed_over) == (["I add\n</think>\nadd(2, 2)<|end|>\n", "</think>four<|end|>\n"], 0)


def test_an_answer_that_stands_after_something_else_than_it_would_be_asked_is_context():
    turns = [turn("user", "two and two?"), turn("assistant", "four"), turn("user", "and two?")]
    whole, stretches, passed_over = learnt(LATE, {"messages": [*turns, turn("assistant", "six")]})
    assert whole.count("[tools]") == 2 and whole.index("[tools]") > whole.index("four")
    assert passed_over >= 1 and not any("two" in each or "four" in each for each in stretches)


@pytest.mark.parametrize(
    ("template", "turns", "reason"),
    [
        (NEVER, [turn("user", "two?"), turn("assistant", "two")], TWO_WAYS),
        (THINKING, [turn("assistant", "Hello.")], TWO_WAYS),
        (THINKING, [turn("user", "two?")], WITHOUT),
        (THINKING, [], WITHOUT),
        (THINKING, [turn("nobody", "two?"), turn("assistant", "two")], REFUSED),
        (THINKING, [turn("user", "two?"), {"role": "assistant", "content": None}], REFUSED),
    ],
    ids=["two-ways", "not-asked", "no-answer", "empty", "refused", "no-content"],
)
def test_a_conversation_that_nothing_can_be_learnt_of_is_left_out_with_its_reason(template, turns, reason):
    tokenizer = Tokenizer(template)
    with pytest.raises(LeftOutError) as error:
        Renderer(tokenizer)({"messages": turns})
    assert error.value.reason == reason
    try:
        assert not any(chat.Renderer(tokenizer)({"messages": turns}, 1).mask)
    except chat.LeftOutError:
        assert reason != WITHOUT


def test_what_is_no_conversation_is_an_error():
    with pytest.raises(ValueError, match="no 'messages' with role and content") as error:
        Renderer(Tokenizer(THINKING))({"messages": json.loads('[{"role": "user"}]')})
    assert not isinstance(error.value, LeftOutError)

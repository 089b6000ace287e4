"""The tests' model server is as strict, and answers as steadily, as the steps' tests take it to."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from labs.openai_server import openai_server

SCHEMA = {"type": "object", "properties": {"letter": {"enum": ["A", "B"]}, "why": {"type": "string"}}}


def ask(address: str, path: str = "/chat/completions", key: str = "k", **body: Any) -> str:
    request = Request(address + path, json.dumps(body).encode() if body else None, {"Authorization": f"Bearer {key}"})
    with urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], **more}


@pytest.mark.parametrize(
    ("key", "changes", "status", "parameter"),
    [
        ("other", {}, 401, None),
        ("k", {"model": "large"}, 404, "model"),
        ("k", {"messages": []}, 400, "messages"),
        ("k", {"messages": [{"role": "robot", "content": "?"}]}, 400, "messages[0]"),
        ("k", {"messages": [{"role": "user"}]}, 400, "messages[0]"),
        ("k", {"temperature": 3}, 400, "temperature"),
        ("k", {"max_gen_toks": 3}, 400, "max_gen_toks"),
    ],
)
def test_a_wrong_request_is_refused_as_openai_refuses_it(key, changes, status, parameter):
    with openai_server(key="k") as server:
        with pytest.raises(HTTPError) as refused:
            ask(server.address, key=key, **chat("Hello", **changes))
        told = json.loads(refused.value.read())["error"]
        assert (refused.value.code, told["param"], told["type"]) == (status, parameter, "invalid_request_error")
        assert not server.asked


def test_the_same_request_gets_the_same_answer_and_another_another():
    with openai_server() as server:
        first, again, other = (json.loads(ask(server.address, **chat(text))) for text in ("a", "a", "b"))
        assert first["choices"] == again["choices"] != other["choices"]
        assert first["usage"]["total_tokens"] == 1 + len(first["choices"][0]["message"]["content"].split())
        assert [model["id"] for model in json.loads(ask(server.address, "/models"))["data"]] == ["tiny"]
        short = json.loads(ask(server.address, "/completions", model="tiny", prompt="a", max_tokens=2))
        assert (len(short["choices"][0]["text"].split()), short["choices"][0]["finish_reason"]) == (2, "length")


def test_a_streamed_answer_has_the_same_words():
    with openai_server() as server:
        whole = json.loads(ask(server.address, **chat("a")))["choices"][0]["message"]["content"]
        lines = ask(server.address, **chat("a", stream=True, stream_options={"include_usage": True})).split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line and line != "data: [DONE]"]
    deltas = [choice["delta"].get("content", "") for event in events for choice in event["choices"]]
    assert "".join(deltas).strip() == whole
    assert lines[-2] == "data: [DONE]"
    assert events[-1]["usage"]["completion_tokens"] == len(whole.split())


def test_json_is_as_the_schema_says_and_now_and_then_broken_once():
    prompt = "{number} <response_schema>" + json.dumps(SCHEMA) + "</response_schema>"
    with openai_server(broken_in=2) as server:
        broken = 0
        for number in range(16):
            text = prompt.replace("{number}", str(number))
            for attempt in range(2):
                said = json.loads(ask(server.address, **chat(text)))["choices"][0]["message"]["content"]
                fenced = said.partition("```json\n")[2].partition("\n```")
                if fenced[1]:
                    assert set(json.loads(fenced[0])) == {"letter", "why"}
                else:
                    broken += 1
                    assert attempt == 0
        assert 0 < broken < 16
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
        bare = json.loads(ask(server.address, **chat("a", response_format=form)))["choices"][0]["message"]["content"]
        assert json.loads(bare)["letter"] in "AB"

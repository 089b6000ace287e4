"""A model server on loopback that speaks OpenAI's API: models, chat and text completions, streamed too.

What a request must look like is checked as OpenAI does, and errors have its form. The answers are `openai_words`'.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from labs.openai_words import Model, Words, text_of

EXAMPLES = Path(__file__).resolve().parents[2] / "recipes/steps/_shared/nemo_steps/examples"
ROLES = ("developer", "system", "user", "assistant", "tool")
_NUMBER = (int, float)
_SHARED: Mapping[str, tuple[Any, float, float]] = {
    "frequency_penalty": (_NUMBER, -2, 2),
    "logprobs": ((bool, int), 0, 20),
    "max_tokens": (int, 1, 1 << 20),
    "n": (int, 1, 128),
    "presence_penalty": (_NUMBER, -2, 2),
    "seed": (int, -(1 << 63), 1 << 63),
    "temperature": (_NUMBER, 0, 2),
    "top_p": (_NUMBER, 0, 1),
}
"""Numbers of a request: their types, the least and the most."""
_ANY = {"model", "stop", "stream", "stream_options", "user", "logit_bias", *_SHARED}
KEYS = {
    "/v1/chat/completions": _ANY
    | {"messages", "max_completion_tokens", "response_format", "tools", "tool_choice", "top_logprobs"}
    | {"reasoning_effort", "parallel_tool_calls", "metadata", "store", "service_tier"},
    "/v1/completions": _ANY | {"prompt", "best_of", "echo", "suffix"},
}


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, parameter: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.parameter, self.code = status, parameter, code

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.parameter, "code": self.code}}


@dataclass
class Server:
    """A server that answers. `address` ends with `/v1`; `asked` are the bodies of the requests that it answered."""

    models: tuple[str, ...]
    key: str | None
    model: Model
    address: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


@contextmanager
def openai_server(
    *models: str, key: str | None = None, known: Mapping[str, str] | None = None, broken_in: int = 3
) -> Iterator[Server]:
    """A server of these models (`tiny` where none is named) on a port of loopback.

    Args:
        key: the key that requests must bear.
        known: what the last message of a conversation is answered with, word for word.
        broken_in: of so many requests for JSON, one is at first answered with half of it.
    """
    rows = map(json.loads, (EXAMPLES / "text.jsonl").read_text(encoding="utf-8").splitlines())
    model = Model(Words(row["text"] for row in rows), known or {}, broken_in)
    server = Server(models or ("tiny",), key, model)
    handler = type("Handler", (_Handler,), {"offered": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        server.address = f"http://127.0.0.1:{listening.server_address[1]}/v1"
        yield server
        listening.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    offered: Server

    def do_GET(self) -> None:
        self._answering(self._models)

    def do_POST(self) -> None:
        self._answering(self._completion)

    def _answering(self, answer: Any) -> None:
        try:
            if self.offered.key and self.headers["Authorization"] != f"Bearer {self.offered.key}":
                raise Refused(401, "Incorrect API key provided.", code="invalid_api_key")
            answer()
        except Refused as refused:
            self.offered.refused.append(refused)
            self._send(refused.body(), refused.status)

    def _models(self) -> None:
        if self.path != "/v1/models":
            raise Refused(404, f"Unknown request URL: GET {self.path}.", code="unknown_url")
        offered = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in self.offered.models]
        self._send({"object": "list", "data": offered})

    def _completion(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path not in KEYS:
            raise Refused(404, f"Unknown request URL: POST {self.path}.", code="unknown_url")
        request = _checked(data, KEYS[self.path], self.offered.models)
        is_chat = self.path == "/v1/chat/completions"
        messages = _messages(request) if is_chat else _prompt(request)
        form, seed = request.get("response_format") or {}, request.get("seed") or 0
        texts = [self.offered.model.answer(messages, form, seed + number) for number in range(request.get("n") or 1)]
        ended = [_ended(text, request) for text in texts]
        self.offered.asked.append(request)
        if request.get("stream"):
            self._stream(request, is_chat, ended)
        else:
            usage = _usage(messages, [text for text, _ in ended])
            self._send({**_head(request, is_chat), "choices": _choices(ended, is_chat), "usage": usage})

    def _stream(self, request: dict[str, Any], is_chat: bool, ended: list[tuple[str, str]]) -> None:
        """Server-sent events, a word each, over a connection that then closes."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        head = _head(request, is_chat, ".chunk" if is_chat else "")
        for number, (text, reason) in enumerate(ended):
            for word in [*text.split(" "), None]:
                said = {} if word is None else {"content": word + " "}
                part = {"delta": said} if is_chat else {"text": said.get("content", "")}
                choice = {"index": number, **part, "finish_reason": reason if word is None else None}
                self._event({**head, "choices": [choice]})
        if (request.get("stream_options") or {}).get("include_usage"):
            self._event({**head, "choices": [], "usage": _usage([], [text for text, _ in ended])})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _event(self, content: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(content)}\n\n".encode())

    def _send(self, content: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _checked(data: bytes, keys: set[str], models: tuple[str, ...]) -> dict[str, Any]:
    try:
        request = json.loads(data)
    except ValueError:
        request = None
    if not isinstance(request, dict):
        raise Refused(400, "We could not parse the JSON body of your request.")
    if unknown := sorted(set(request) - keys):
        raise Refused(400, f"Unrecognized request argument supplied: {unknown[0]}", unknown[0], "unknown_parameter")
    if request.get("model") not in models:
        name = request.get("model")
        raise Refused(404, f"The model `{name}` does not exist.", "model", "model_not_found")
    for name, (kinds, least, most) in _SHARED.items():
        value = request.get(name)
        if value is not None and not (isinstance(value, kinds) and least <= value <= most):
            raise Refused(400, f"Invalid value for '{name}': {value!r}.", name, "invalid_value")
    return request


def _messages(request: dict[str, Any]) -> list[dict[str, Any]]:
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise Refused(400, f"Invalid value at '{place}.role'.", place, "invalid_value")
        content = message.get("content")
        if not isinstance(content, (str, list)) and not (content is None and message.get("tool_calls")):
            raise Refused(400, f"Invalid type for '{place}.content'.", place, "invalid_type")
    return messages


def _prompt(request: dict[str, Any]) -> list[dict[str, Any]]:
    prompt = request.get("prompt")
    if not isinstance(prompt, str):
        raise Refused(400, "Missing required parameter: 'prompt'.", "prompt", "missing_required_parameter")
    return [{"role": "user", "content": prompt}]


def _ended(text: str, request: dict[str, Any]) -> tuple[str, str]:
    """The text up to where it must stop, in words for tokens, and why it stops there."""
    stop = request.get("stop") or []
    for mark in [stop] if isinstance(stop, str) else stop:
        text = text.partition(mark)[0]
    most = request.get("max_completion_tokens") or request.get("max_tokens") or 1 << 20
    words = text.split(" ")
    return (" ".join(words[:most]), "length") if len(words) > most else (text, "stop")


def _head(request: dict[str, Any], is_chat: bool, ending: str = "") -> dict[str, Any]:
    kind = "chat.completion" if is_chat else "text_completion"
    return {"id": "cmpl-1", "object": kind + ending, "created": int(time.time()), "model": request["model"]}


def _choices(ended: list[tuple[str, str]], is_chat: bool) -> list[dict[str, Any]]:
    return [
        {
            "index": number,
            **({"message": {"role": "assistant", "content": text, "refusal": None}} if is_chat else {"text": text}),
            "logprobs": None,
            "finish_reason": reason,
        }
        for number, (text, reason) in enumerate(ended)
    ]


def _usage(messages: list[dict[str, Any]], texts: list[str]) -> dict[str, int]:
    prompt, made = (sum(len(text.split()) for text in each) for each in ([text_of(m) for m in messages], texts))
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}

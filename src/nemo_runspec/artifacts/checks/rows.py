"""Rows of JSON to train on: text, conversations, prompts with answers, preferences."""

import json

from nemo_runspec.artifacts.checks.lines import Lines
from nemo_runspec.artifacts.checks.look import Defect, Inspection, files_at

MYPY = False
if MYPY:
    from typing import Any, Dict, Iterator, Sequence, Tuple

    Row = Dict[str, Any]

_ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_FILES = 64

FORMS = (
    ("messages",),
    ("conversations",),
    ("prompt", "chosen", "rejected"),
    ("context", "completions"),
    ("responses_create_params",),
    ("text",),
    ("input", "output"),
    ("prompt", "completion"),
    ("prompt", "response"),
    ("instruction", "output"),
    ("question", "answer"),
    ("problem", "expected_answer"),
)
"""Keys by which libraries that train know a row; the first that fit are the row's form."""

_ROLES = ("system", "developer", "user", "assistant", "tool", "function", "ipython", "environment")
_SPEAKERS = (*_ROLES, "human", "gpt", "bot", "model", "chatgpt", "observation", "function_call", "tool_call")
_SPOKEN = {"messages": ("role", _ROLES, "content"), "conversations": ("from", _SPEAKERS, "value")}
_INSTEAD = ("tool_calls", "function_call", "reasoning_content")
"""Keys of a turn that may have no content."""


def check_rows(path: str, look: Inspection) -> "Iterator[Defect]":
    """Each line is one JSON object that holds something to train on, in the form that the file's first row has."""
    files = files_at(path, _ENDINGS)
    if not files:
        yield Defect("holds no file that ends with %s" % " or ".join(_ENDINGS[:3:2]), path)
        return
    count = 0
    for file in look.some_of(files, _FILES):
        if look.is_over():
            look.note("not all files: the time was up")
            break
        lines = Lines(file, look)
        form: "Sequence[str]" = ()
        for line in lines.read():
            if not line[2].strip():
                continue
            count += 1
            row, wrong = _parsed(line[2])
            form = form or _form_of(row)
            for what in [wrong] if wrong else _wrong_in(row, form):
                yield Defect(what, file, lines.place(line))
        for found in lines.wrong:
            count += 1
            yield found
    if not count:
        yield Defect("holds no rows", path)


def _parsed(line: bytes) -> "Tuple[Row, str]":
    try:
        row = json.loads(line.decode("utf-8").rstrip())
    except UnicodeDecodeError as error:
        return {}, "is not UTF-8 text (byte %d of the line)" % error.start
    except RecursionError:
        return {}, "is nested too deeply"
    except ValueError as error:
        return {}, "is not JSON: %s" % str(error).replace("line 1 column", "column")
    if not isinstance(row, dict):
        return {}, "is %s, not an object with keys" % _kind(row)
    return row, ""


def _form_of(row: "Row") -> "Sequence[str]":
    return next((form for form in FORMS if all(key in row for key in form)), ())


def _wrong_in(row: "Row", form: "Sequence[str]") -> "Iterator[str]":
    missing = [key for key in form if key not in row]
    if missing:
        yield "has no '%s', which rows before it have" % "', '".join(missing)
        return
    if not form and not any(isinstance(value, (str, list, dict)) and value for value in row.values()):
        yield "holds no text: none of its keys has a string, a list or an object"
        return
    for key in form:
        for what in _wrong_value(key, row[key]):
            yield what


def _wrong_value(key: str, value: "Any") -> "Iterator[str]":
    if key in _SPOKEN or (isinstance(value, list) and key in ("prompt", "chosen", "rejected")):
        for what in _wrong_turns(key, value):
            yield what
    elif key == "text" and not isinstance(value, str):
        yield "'text' is %s, not a string" % _kind(value)
    elif value is None:
        yield "'%s' is null" % key


def _wrong_turns(key: str, turns: "Any") -> "Iterator[str]":
    if not isinstance(turns, list):
        yield "'%s' is %s, not a list of turns" % (key, _kind(turns))
        return
    if not turns:
        yield "'%s' is empty" % key
    role_key, roles, content_key = _SPOKEN.get(key, _SPOKEN["messages"])
    for number, turn in enumerate(turns):
        name = "%s[%d]" % (key, number)
        if not isinstance(turn, dict):
            yield "%s is %s, not an object with keys" % (name, _kind(turn))
            continue
        role = turn.get(role_key)
        if role not in roles:
            said = "has no '%s'" % role_key if role is None else "has the %s %s" % (role_key, json.dumps(role)[:40])
            yield "%s %s (known: %s, ...)" % (name, said, ", ".join(roles[:5]))
        for what in _wrong_content(name, turn, content_key):
            yield what


def _wrong_content(name: str, turn: "Row", key: str) -> "Iterator[str]":
    content = turn.get(key)
    if content is None:
        if not any(turn.get(other) for other in _INSTEAD):
            yield "%s has no '%s'" % (name, key)
    elif isinstance(content, list):
        if not all(isinstance(part, (str, dict)) for part in content):
            yield "%s.%s is a list with more than strings and objects" % (name, key)
    elif not isinstance(content, str):
        yield "%s.%s is %s, not a string" % (name, key, _kind(content))


def _kind(value: "Any") -> str:
    kinds = ((bool, "true or false"), ((int, float), "a number"), (str, "a string"), (list, "a list"))
    return next((words for kind, words in kinds if isinstance(value, kind)), "null" if value is None else "an object")

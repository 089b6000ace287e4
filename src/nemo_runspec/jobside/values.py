"""JSON as records and the job's values need it: read and written by the interpreter's own C code.

The package `json` takes as long to import as half of the supervisor. It does the same where there is no such code.
"""

MYPY = False
if MYPY:
    from typing import Any


class _Rules:
    """What the scanner is told (Lib/json/decoder.py, `JSONDecoder`)."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def read(text: str) -> "Any":
    """The value of a text. Raises `ValueError`."""
    scanner = _scanner()
    if scanner is None:
        import json

        return json.loads(text)
    text = text.strip(" \t\r\n")
    try:
        found, end = scanner(text, 0)
    except (StopIteration, RecursionError):
        raise ValueError("no JSON") from None
    if end != len(text):
        raise ValueError("more than one JSON value")
    return found


def write(value: "Any") -> str:
    """A value in one line: of dicts, lists, texts, numbers, True, False and None."""
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (write(str(key)), write(one)) for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(write, value))
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def _scanner() -> "Any":
    try:
        from _json import make_scanner
    except ImportError:
        return None
    return make_scanner(_Rules)  # type: ignore[arg-type]


def _quoted(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        from json.encoder import py_encode_basestring_ascii as encode_basestring_ascii
    return str(encode_basestring_ascii(text))

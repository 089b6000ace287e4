"""The file of a job's secrets: read once, and removed."""

import os

from nemo_runspec.jobside.records import remove

MYPY = False
if MYPY:
    from typing import Dict


def read(file: str) -> "Dict[str, str]":
    """Its variables: lines `export NAME=VALUE`, quoted as shlex does. Empty where there is no file."""
    try:
        with open(file, "rb") as stream:
            text = os.fsdecode(stream.read())
    except OSError:
        return {}
    found = {}
    while text:
        head, sign, text = text.partition("=")
        if not sign:
            break
        value, text = _value(text)
        found[head[len("export ") :] if head.startswith("export ") else head] = value
    return found


def _value(text: str) -> "tuple[str, str]":
    """A quoted word at the start of a text, and what comes after its line."""
    parts = []
    while text and text[0] != "\n":
        mark = text[0]
        if mark in "'\"":
            end = text.index(mark, 1)
            parts.append(text[1:end])
            text = text[end + 1 :]
        else:
            end = next((i for i, char in enumerate(text) if char in "'\"\n"), len(text))
            parts.append(text[:end])
            text = text[end:]
    return "".join(parts), text[1:]


def forget(file: str) -> bool:
    """Removes the file, or at least what is in it; whether that could be done."""
    if remove(file):
        return True
    try:
        with open(file, "wb"):
            return True
    except OSError:
        return False

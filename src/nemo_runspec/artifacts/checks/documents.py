"""Small documents: results of an evaluation, profiles, a corpus of text."""

import importlib
import json
import math
import os
import re

from nemo_runspec.artifacts.checks.look import Defect, Inspection, Unchecked, files_at

MYPY = False
if MYPY:
    from typing import Any, Iterator, List, Tuple

_RESULTS = re.compile(r"results?([_-].*)?\.(json|ya?ml)$")
_TEXTS = (".txt", ".md", ".jsonl", ".json", ".parquet", ".pdf", ".html")


def check_results(path: str, look: Inspection) -> "Iterator[Defect]":
    """Files of results, each with scores that are numbers."""
    files = [path]
    if os.path.isdir(path):
        found = files_at(path, (".json", ".yml", ".yaml"))
        files = [file for file in found if _RESULTS.search(os.path.basename(file))]
    if not files:
        yield Defect("holds no results.json, results.yml or results_*.json", path)
    for file in files:
        for what, place in _wrong_results(file, look):
            yield Defect(what, file, place)


def _wrong_results(file: str, look: Inspection) -> "Iterator[Tuple[str, str]]":
    with open(file, encoding="utf-8", errors="replace") as stream:
        text = stream.read()
    try:
        read = json.loads(text) if file.endswith(".json") else _yaml(text, look)
    except (ValueError, RecursionError) as error:
        yield "cannot be read: %s" % str(error).splitlines()[0], ""
        return
    if read is None:
        if not text.strip():
            yield "is empty", ""
        return
    results = read.get("results", read) if isinstance(read, dict) else read
    scores = list(_scores(results, "results"))
    if not scores:
        yield "holds no scores: no numbers", ""
    for place, value in scores:
        if math.isnan(value):
            yield "is not a number (NaN)", place


def _yaml(text: str, look: Inspection) -> "Any":
    """None where this Python has no YAML."""
    try:
        import yaml
    except ImportError:
        look.note("values of YAML files: this Python has no PyYAML")
        return None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _scores(value: "Any", place: str, depth: int = 0) -> "Iterator[Tuple[str, float]]":
    if isinstance(value, bool) or depth > 40:
        return
    if isinstance(value, (int, float)):
        yield place, float(value) if abs(value) < 1e300 or value != value else math.inf
    each_of: "List[Tuple[Any, Any]]" = list(enumerate(value)) if isinstance(value, list) else []
    for key, each in value.items() if isinstance(value, dict) else each_of:
        for found in _scores(each, "%s.%s" % (place, key), depth + 1):
            yield found


def check_env(path: str, look: Inspection) -> "Iterator[Defect]":
    """A TOML file of tables, each of which extends one that is there."""
    if os.path.isdir(path):
        yield Defect("is a folder, not a file", path)
        return
    toml = _toml()
    try:
        with open(path, "rb") as stream:
            document = toml.load(stream)
    except (ValueError, RecursionError) as error:
        yield Defect("is not TOML: %s" % error, path)
        return
    tables = {name: table for name, table in document.items() if isinstance(table, dict)}
    if not tables:
        yield Defect("holds no profile", path)
    for name, table in sorted(tables.items()):
        parents = table.get("extends", [])
        for parent in [parents] if isinstance(parents, str) else parents:
            if parent not in tables:
                yield Defect("extends '%s', which is not there" % parent, path, "[%s]" % name)


def _toml() -> "Any":
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise Unchecked("this Python reads no TOML (3.11 and later do)")


def check_corpus(path: str, look: Inspection) -> "Iterator[Defect]":
    """At least one file of text that holds something."""
    files = files_at(path, _TEXTS)
    if not files:
        yield Defect("holds no text: no file that ends with %s" % ", ".join(_TEXTS), path)
    elif not any(os.path.getsize(file) for file in files):
        yield Defect("all its files are empty", path)
    for file in look.some_of([file for file in files if file.endswith((".txt", ".md"))], 64):
        with open(file, "rb") as stream:
            block = stream.read(1 << 16)
        try:
            block.decode("utf-8")
        except UnicodeDecodeError as error:
            if error.start < len(block) - 4 or len(block) < 1 << 16:
                yield Defect("is not UTF-8 text", file, "byte %d" % error.start)

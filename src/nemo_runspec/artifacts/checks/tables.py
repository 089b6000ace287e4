"""Tables in Parquet: packed sequences, and benchmarks."""

import json

from nemo_runspec.artifacts.checks.parquet import check_files

MYPY = False
if MYPY:
    from typing import Any, Dict, Iterator

    from nemo_runspec.artifacts.checks.look import Defect, Inspection

_PACKED = (("input_ids",), ("loss_mask",), ("seq_start_id",))
"""The columns that Megatron-Bridge's packed dataset requires."""
_QUESTION = ("question", "input", "problem")
_ANSWER = ("answer", "answer_index", "expected_answer", "target", "output")
_OPTIONS = ("options", "choices")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def check_packed(path: str, look: "Inspection") -> "Iterator[Defect]":
    """Rows of tokens with a loss mask of the same length; sequences begin at increasing places from 0 on."""
    return check_files(path, look, _PACKED, _wrong_pack)


def check_benchmark(path: str, look: "Inspection") -> "Iterator[Defect]":
    """Rows with a question and an answer."""
    return check_files(path, look, (_QUESTION, _ANSWER), _wrong_question)


def check_mcq(path: str, look: "Inspection") -> "Iterator[Defect]":
    """Rows with a question, its options, and an answer that is one of them."""
    return check_files(path, look, (_QUESTION, _OPTIONS, _ANSWER), _wrong_choice)


def _wrong_pack(row: "Dict[str, Any]") -> "Iterator[str]":
    missing = [name for (name,) in _PACKED if not isinstance(row[name], list)]
    if missing:
        yield "%s is not a list" % " and ".join(missing)
        return
    tokens, mask, starts = row["input_ids"], row["loss_mask"], row["seq_start_id"]
    if len(tokens) != len(mask):
        yield "input_ids has %d entries, loss_mask %d" % (len(tokens), len(mask))
    if not tokens:
        yield "input_ids is empty"
    if None in tokens or min(tokens, default=0) < 0:
        yield "input_ids holds what is no token"
    if None in mask or min(mask, default=0) < 0 or max(mask, default=0) > 1:
        yield "loss_mask holds more than 0 and 1"
    for what in _wrong_starts(starts, len(tokens)):
        yield what


def _wrong_starts(starts: "Any", length: int) -> "Iterator[str]":
    if None in starts or starts[:1] != [0]:
        yield "seq_start_id does not begin with 0"
    elif any(one >= other for one, other in zip(starts, starts[1:])):
        yield "seq_start_id does not increase"
    elif length and starts[-1] >= length:
        yield "seq_start_id %d is outside its %d tokens" % (starts[-1], length)


def _wrong_question(row: "Dict[str, Any]") -> "Iterator[str]":
    for key in ("question", "answer"):
        value = row[key]
        if value is None or (isinstance(value, str) and not value.strip()):
            yield "has no %s" % key


def _wrong_choice(row: "Dict[str, Any]") -> "Iterator[str]":
    wrong = list(_wrong_question(row))
    for what in wrong:
        yield what
    options = _as_options(row["options"])
    if options is None or len(options) < 2:
        yield "options are no list of two or more"
    elif not wrong and not _is_among(row["answer"], options):
        answer = json.dumps(row["answer"], ensure_ascii=True, default=str)[:60]
        yield "the answer %s is none of its %d options" % (answer, len(options))


def _as_options(value: "Any") -> "Any":
    """Options as a list: they may be written as JSON, or by letter; what is empty is no option."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if isinstance(value, dict):
        value = list(value.values())
    return [each for each in value if each not in (None, "")] if isinstance(value, list) else None


def _is_among(answer: "Any", options: "Any") -> bool:
    """By its number from 0 on, by its letter, or by its text."""
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        return 0 <= answer < len(options)
    text = str(answer).strip()
    letter = text.strip("().: ").upper()
    by_letter = len(letter) == 1 and letter in _LETTERS[: len(options)]
    return by_letter or text in [str(option).strip() for option in options] or _is_number(text, len(options))


def _is_number(text: str, count: int) -> bool:
    return text.isdigit() and int(text) < count

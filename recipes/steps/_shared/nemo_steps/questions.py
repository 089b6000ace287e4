"""Multiple-choice questions: the columns that a model writes, which answers are questions, and their Parquet file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nemo_steps.config import ConfigError
from nemo_steps.designer import MODEL

LETTERS = "ABCDEFGHIJ"
_SCORE = "quality"
_ASK = """{% if examples %}Questions of the kind that is wanted:
{{ examples }}

{% endif %}Read this passage on {{ subject }}:
{{ passage }}

Write one question in {{ language }} that the passage answers, with exactly COUNT options, of which one is right. The
question must be understood without the passage. Give the letter of the right option."""
_SEEN = """{{ passage }}

{{ written.question }}
{% for each in written.options %}{{ loop.index }}. {{ each }}
{% endfor %}"""
_JUDGE = "Judge this question about a passage; the right option should be {{ written.answer }} (A is 1).\n\n" + _SEEN
_SOLVE = _SEEN + "\nWhich option is right? Option 1 is A, 2 is B and so on. Answer with only the letter."
_TRANSLATE = (
    "Translate the question and its options into {{ language }}, in their order.\n\n{{ question }}\n{{ listed }}"
)
_SCALE = {
    5: "clear, one option is right without doubt, the others are plausible",
    4: "clear, one option is right",
    3: "understandable, another option may be right too",
    2: "hard to understand, or the passage does not answer it",
    1: "no question, or none of its options is right",
}


def asking(choices: int, *, solve: bool) -> list[dict[str, Any]]:
    """The columns that make questions of the seeds' passages: `written`, `judged` and, with `solve`, `solved`."""
    form = _form(choices)
    form["properties"]["answer"] = {"type": "string", "enum": list(LETTERS[:choices])}
    form["required"].append("answer")
    scores = [{"name": _SCORE, "description": "How good the question is.", "options": _SCALE}]
    columns = [
        _column("written", "llm-structured", _ASK.replace("COUNT", str(choices)), output_format=form),
        _column("judged", "llm-judge", _JUDGE, scores=scores),
    ]
    return [*columns, _column("solved", "llm-text", _SOLVE)] if solve else columns


def translating(choices: int) -> list[dict[str, Any]]:
    """The column `translated` beside the seeds' `question` and `listed` options, into their `language`."""
    return [_column("translated", "llm-structured", _TRANSLATE, output_format=_form(choices))]


def why_not(record: dict[str, Any], choices: int, min_score: int) -> str | None:
    """Why a record is left out; None for a good question."""
    if not is_whole(record["written"], choices):
        return "ill_formed"
    score = record["judged"][_SCORE]["score"]
    if int(score) < min_score:
        return "weak"
    solved = record.get("solved")
    return "solved_otherwise" if solved is not None and letter_of(solved) != record["written"]["answer"] else None


def is_whole(written: dict[str, Any], choices: int) -> bool:
    """Whether there is a question with so many options, no two of which are the same."""
    options = [option.strip() for option in written.get("options") or []]
    return bool(written.get("question", "").strip()) and len(options) == choices == len({*options} - {""})


def letter_of(answer: str) -> str:
    """The letter that an answer begins with, as in `B`, `(B)` or `B. because`; '' for any other."""
    word = answer.strip().lstrip("(*").partition("\n")[0][:2]
    return word[:1].upper() if word[:1].upper() in LETTERS and not word[1:2].isalpha() else ""


def listed(options: Iterable[str]) -> str:
    """Options by their letters, one a line."""
    return "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))


def examples(file: Path, count: int) -> str:
    """The first questions of a benchmark in Parquet, to be shown to a model."""
    import pyarrow.parquet

    found = sorted(file.rglob("*.parquet")) if file.is_dir() else [file]
    if not found:
        raise ConfigError(f"no .parquet file at {file}")
    rows = pyarrow.parquet.read_table(found[0]).slice(0, count).to_pylist()
    return "\n\n".join(
        f"{row['question']}\n{listed(row.get('options') or [])}\nAnswer: {row['answer']}" for row in rows
    )


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write a Parquet file, whole or not at all."""
    import pyarrow
    import pyarrow.parquet

    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".partial-{file.name}")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), partial)
    partial.replace(file)


def _form(choices: int) -> dict[str, Any]:
    text = {"type": "string"}
    options = {"type": "array", "items": text, "minItems": choices, "maxItems": choices}
    return {"type": "object", "properties": {"question": text, "options": options}, "required": ["question", "options"]}


def _column(name: str, kind: str, prompt: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "column_type": kind, "model_alias": MODEL, "prompt": prompt, **more}

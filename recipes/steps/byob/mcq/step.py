# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "data-designer==0.9.6",
#   "pyarrow==24.0.0",
#   "pyyaml==6.0.3",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/byob/mcq"
# description = "Make a benchmark of your own texts: multiple-choice questions that a served model writes and judges."
# kind = "data"
# tags = ["eval", "benchmark", "data-designer"]
# download = "about 200 MB"
#
# [tool.runspec.run]
# launch = "direct"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 0
#
# [[tool.runspec.consumes]]
# name = "corpus"
# type = "benchmark_source_corpus"
# description = "The texts that questions are asked about, in folders by subject."
#
# [[tool.runspec.consumes]]
# name = "benchmark"
# type = "benchmark_parquet"
# description = "Questions of a benchmark that is there already, shown to the model as examples."
# required = false
#
# [[tool.runspec.produces]]
# name = "questions"
# type = "mcq_benchmark_parquet"
# description = "questions.parquet: question, options, the answer's letter, subject, passage; and manifest.json."
#
# [[tool.runspec.produces]]
# name = "translated"
# type = "translated_mcq_benchmark_parquet"
# description = "questions.parquet in the language that translation.language names."
# required = false
#
# [[tool.runspec.parameters]]
# name = "questions.count"
# description = "How many questions to ask for; the weak ones are then left out."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "questions.choices"
# description = "Options of a question."
# type = "int"
# min = 2
# max = 10
#
# [[tool.runspec.parameters]]
# name = "quality.min_score"
# description = "The lowest score, 1 to 5, with which the judging model lets a question stay."
# type = "int"
# min = 1
# max = 5
#
# [[tool.runspec.parameters]]
# name = "quality.solve"
# description = "Leave out a question that the model, with the passage before it, answers otherwise."
# type = "bool"
#
# [[tool.runspec.parameters]]
# name = "endpoint.url"
# description = "Address of an OpenAI-compatible server, with /v1."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "model.name"
# description = "The model, as the server names it."
# type = "str"
#
# [[tool.runspec.errors]]
# pattern = "Connection refused|ModelAPIConnectionError|All connection attempts failed"
# cause = "No model server answers at the endpoint."
# remedy = "start it, and correct endpoint.url"
#
# [[tool.runspec.errors]]
# pattern = "ModelAuthenticationError|invalid_api_key"
# cause = "The model server refuses the key."
# remedy = "put the right key into the variable that endpoint.key_variable names"
# ///
"""Makes multiple-choice questions of a corpus: a served model writes, judges and, where asked to, translates them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import corpus, designer, files, metrics, questions, runner
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder

KEYS = ("output_dir", "translated_dir", "corpus", "examples", "questions", "quality", "translation")
SECTIONS = {
    "corpus": ("path", "text_field", "passage_words"),
    "examples": ("path", "count"),
    "questions": ("count", "choices", "subject", "language", "seed"),
    "quality": ("min_score", "solve"),
    "translation": ("language",),
}
FILE = "questions.parquet"


def main(config: Config) -> None:
    """Write questions.parquet, its translation where one is wanted, and when all is there the manifest."""
    only(config, "", (*KEYS, "endpoint", "model"))
    for section, keys in SECTIONS.items():
        only(config, section, keys)
    output, left_out = output_folder(config), Counter[str]()
    kept = ask(config, output / ".designer", left_out)
    questions.write(output / FILE, kept)
    counts = {"asked": need(config, "questions.count", int), "kept": len(kept), "left_out": dict(left_out)}
    print(f"kept {len(kept)} of {counts['asked']} questions; left out: {dict(left_out) or 'none'}")
    if language := find(config, "translation.language", str):
        target = Path(need(config, "translated_dir", str))
        translated = translate(config, target / ".designer", kept, language)
        questions.write(target / FILE, translated)
        counts["translated"] = len(translated)
        print(f"translated {len(translated)} of them into {language}")
    (output / "manifest.json").write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")


def ask(config: Config, work: Path, left_out: Counter[str]) -> list[dict[str, Any]]:
    """The good questions; `left_out` counts the others by what is wrong with them.

    Raises:
        ConfigError: there is none.
    """
    count, choices = need(config, "questions.count", int), need(config, "questions.choices", int)
    found = corpus.passages(
        need(config, "corpus.path", str),
        need(config, "corpus.text_field", str),
        need(config, "corpus.passage_words", int),
    )
    columns = questions.asking(choices, solve=bool(find(config, "quality.solve", bool)))
    chosen = corpus.chosen(found, count, need(config, "questions.seed", int))
    records = designer.write_columns(config, work, seeds(config, chosen), columns)
    if failed := count - len(records):
        left_out["failed"] += failed
    kept = []
    for record in records:
        if reason := questions.why_not(record, choices, need(config, "quality.min_score", int)):
            left_out[reason] += 1
        else:
            kept.append({**record["written"], **{key: record[key] for key in ("subject", "passage", "source")}})
    metrics.append(step=count, total_steps=count, kept=len(kept))
    if not kept:
        raise ConfigError(f"none of {count} questions is good: {dict(left_out)}; see quality, and try a better model")
    return kept


def seeds(config: Config, chosen: list[corpus.Passage]) -> list[dict[str, Any]]:
    """What the prompts name, for each passage."""
    shown, subject = find(config, "examples.path", str), need(config, "questions.subject", str)
    examples = questions.examples(files.find(shown), need(config, "examples.count", int)) if shown else ""
    same = {"examples": examples, "language": need(config, "questions.language", str)}
    return [
        {"passage": each.text, "subject": each.subject or subject, "source": each.source, **same} for each in chosen
    ]


def translate(config: Config, work: Path, kept: list[dict[str, Any]], language: str) -> list[dict[str, Any]]:
    """The questions in another language, those that the model has translated whole.

    Raises:
        ConfigError: there is none.
    """
    choices = need(config, "questions.choices", int)
    rows = [
        {
            "number": number,
            "question": row["question"],
            "listed": questions.listed(row["options"]),
            "language": language,
        }
        for number, row in enumerate(kept)
    ]
    made = designer.write_columns(config, work, rows, questions.translating(choices))
    translated = [
        {**kept[record["number"]], **record["translated"], "language": language, "source_question": record["question"]}
        for record in made
        if questions.is_whole(record["translated"], choices)
    ]
    if not translated:
        raise ConfigError(f"none of {len(kept)} questions was translated whole: try a better model")
    return translated


if __name__ == "__main__":
    sys.exit(runner.start("Make multiple-choice questions of a corpus.", main))

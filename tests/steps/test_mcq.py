"""byob/mcq, run as users run it, against the tests' model server."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from labs.openai_server import openai_server
from support import Project

from .conftest import EXAMPLES

from nemo_steps import corpus, questions  # isort: skip

TEXTS = [json.loads(line)["text"] for line in (EXAMPLES / "text.jsonl").read_text().splitlines()]


READ = "import json, sys, pyarrow.parquet as p; print(json.dumps(p.read_table(sys.argv[1]).to_pylist()))"


def rows_of(folder: Path, project: Project) -> list[dict[str, Any]]:
    """The questions in a folder, read by the environment that the step has made."""
    python = next(project.state.joinpath("envs").glob("*/lib/python*/site-packages/data_designer")).parents[3]
    words = [python / "bin" / "python", "-c", READ, folder / "questions.parquet"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


@pytest.mark.slow
def test_questions_are_written_judged_and_solved(run_step, project):
    """The `tiny` configuration as it is, with a key."""
    with openai_server("tiny_model", key="a-key-of-the-tests") as server:
        project.write("env.toml", '[here]\nexecutor = "local"\n[here.env_vars]\nMY_KEY = "a-key-of-the-tests"\n')
        words = (f"endpoint.url={server.address}", "endpoint.key_variable=MY_KEY", "-r", "here")
        made = run_step("byob/mcq", "tiny", *words, type="mcq_benchmark_parquet")
    rows, manifest = rows_of(made.folder, project), json.loads((made.folder / "manifest.json").read_text())
    assert 0 < len(rows) == manifest["kept"] == 24 - sum(manifest["left_out"].values())
    assert manifest["left_out"]["solved_otherwise"] > 0
    for row in rows:
        assert row["answer"] in "ABCD" and len(set(row["options"])) == 4
        assert row["passage"] in TEXTS
    assert not server.refused
    asked = [str(request["messages"]) for request in server.asked]
    assert len(asked) > len(set(asked))  # broken answers were asked for once more


@pytest.mark.slow
@pytest.mark.parametrize("config", ["default", "translate"])
def test_the_configurations_of_a_hosted_model(run_step, project, nemotron_process, config):
    """Their files as they are, with fewer questions, and a model that judges more gently than the real one."""
    with openai_server("nvidia/nemotron-3-nano-30b-a3b") as server:
        few = ("questions.count=24", "quality.min_score=1", f"run.corpus.path={EXAMPLES / 'text.jsonl'}")
        words = (*few, f"endpoint.url={server.address}", "endpoint.key_variable=null")
        made = run_step("byob/mcq", config, *words, type="mcq_benchmark_parquet")
    outputs = {file.parent.parent.name: file.parent for file in project.state.rglob("questions.parquet")}
    rows = rows_of(outputs["mcq-questions"], project)
    manifest = json.loads((outputs["mcq-questions"] / "manifest.json").read_text())
    assert len(rows) == manifest["kept"] > 0
    if config == "default":
        assert set(outputs) == {"mcq-questions"} and "translated" not in manifest
        return
    translated = rows_of(outputs["mcq-translated"], project)
    assert made.folder.resolve() == outputs["mcq-translated"].resolve()
    assert {row["source_question"] for row in translated} <= {row["question"] for row in rows}
    assert [row["language"] for row in translated] == ["German"] * manifest["translated"]
    words = ("artifacts", "check", str(made.folder), "--type", "translated_mcq_benchmark_parquet")
    assert "nothing wrong" in nemotron_process(*words).succeeds().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["endpoint.key_variable=NO_SUCH_KEY"], "names NO_SUCH_KEY, which is not set in the job"),
        (["corpus.text_field=body"], "no text at"),
        (["questions.count=2", "quality.min_score=5", "questions.seed=3"], "questions is good"),
    ],
    ids=["no key", "no text", "nothing good"],
)
def test_a_mistake_is_named(nemotron_process, overrides, words):
    with openai_server("tiny_model") as server:
        outcome = nemotron_process(
            "steps", "run", "byob/mcq", "-c", "tiny", f"endpoint.url={server.address}", *overrides, timeout=300
        )
    assert outcome.code != 0
    assert words in outcome.out + outcome.err


def test_a_corpus_is_cut_into_passages_by_subject(tmp_path):
    (tmp_path / "law").mkdir()
    (tmp_path / "law" / "a.txt").write_text("one two three four five six seven")
    (tmp_path / "b.md").write_text("just this")
    (tmp_path / "c.jsonl").write_text('{"text": "of a row"}\n{"text": null}\n')
    found = corpus.passages(str(tmp_path), "text", 4)
    assert [(each.text, each.subject, each.source) for each in found] == [
        ("just this", "", "b.md"),
        ("of a row", "", "c.jsonl"),
        ("one two three four", "law", "a.txt"),
        ("five six seven", "law", "a.txt"),
    ]
    assert set(Counter(corpus.chosen(found, 10, 1)).values()) == {2, 3}
    assert corpus.chosen(found, 10, 1) == corpus.chosen(found, 10, 1)


@pytest.mark.parametrize(
    ("said", "letter"),
    [("B", "B"), ("(b) since", "B"), ("**C**", "C"), ("D. It", "D"), ("Because", ""), ("", ""), ("Z", "")],
)
def test_the_letter_of_an_answer(said, letter):
    assert questions.letter_of(said) == letter


def test_what_is_no_good_question_has_a_reason():
    good = {"question": "Which?", "options": ["a", "b"], "answer": "A"}
    judged = {"quality": {"score": 4}}
    assert questions.why_not({"written": good, "judged": judged, "solved": "A"}, 2, 4) is None
    assert questions.why_not({"written": good, "judged": judged, "solved": "B"}, 2, 4) == "solved_otherwise"
    assert questions.why_not({"written": good, "judged": judged}, 2, 5) == "weak"
    assert questions.why_not({"written": {**good, "options": ["a", "a "]}, "judged": judged}, 2, 4) == "ill_formed"

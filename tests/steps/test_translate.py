"""translate/nemo_curator, run as users run it: NeMo Curator's own stages, against the tests' model server."""

from __future__ import annotations

import json

import pytest
from labs.openai_server import openai_server

from .conftest import EXAMPLES

from nemo_steps import files  # isort: skip

pytestmark = pytest.mark.full

OURS = {row["id"]: row["text"] for row in map(json.loads, (EXAMPLES / "text.jsonl").read_text().splitlines())}


def few(tmp_path, count=12):
    """The first documents, in two files."""
    folder = tmp_path / "documents"
    folder.mkdir()
    rows = [{"id": name, "text": text} for name, text in list(OURS.items())[:count]]
    for number in range(2):
        files.write_rows(folder / f"{number}.jsonl", rows[number::2])
    return folder


@pytest.mark.parametrize("mode", ["replaced", "raw", "both"])
def test_every_document_is_translated(run_step, tmp_path, mode):
    """`both` is the `tiny` configuration as it is: all 160 documents."""
    data = [] if mode == "both" else [f"run.data.path={few(tmp_path)}"]
    ours = OURS if mode == "both" else dict(list(OURS.items())[:12])
    with openai_server("tiny_model") as server:
        wanted = (*data, f"endpoint.url={server.address}", f"output_mode={mode}")
        made = run_step("translate/nemo_curator", "tiny", *wanted, type="translated_jsonl")
    rows = {row["id"]: row for row in files.read_rows(sorted(made.folder.glob("*.jsonl")))}
    assert set(rows) == set(ours)
    assert f"translated {len(ours)} of {len(ours)} documents" in made.outcome.out
    for name, row in rows.items():
        assert (row["text"] == OURS[name]) == (mode == "raw")
        assert ("translation_metadata" in row) == (mode != "replaced")
        assert not row["translation_errors"]
    asked = [request["messages"][-1]["content"] for request in server.asked]
    assert all(any(text in each for each in asked) for text in ours.values())
    assert any("German" in each for each in asked)
    assert not server.refused


def test_a_server_without_the_model_is_named(nemotron_process):
    with openai_server("another") as server:
        words = ("steps", "run", "translate/nemo_curator", "-c", "tiny", f"endpoint.url={server.address}")
        outcome = nemotron_process(*words, timeout=300)
    assert outcome.code != 0
    assert "LLM health check failed" in outcome.out + outcome.err
    assert "does not exist" in outcome.out + outcome.err
    assert {refused.status for refused in server.refused} == {404}


def test_rows_without_the_text_are_named(nemotron_process):
    outcome = nemotron_process("steps", "run", "translate/nemo_curator", "-c", "tiny", "text_field=body", timeout=300)
    assert outcome.code != 0
    assert "no row has a text under 'body'" in outcome.out + outcome.err

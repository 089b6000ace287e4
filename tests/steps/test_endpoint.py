"""eval/model_eval against a server on loopback that speaks OpenAI's chat API and checks what it is sent."""

from __future__ import annotations

import json

import pytest
from labs.openai_server import openai_server

from .conftest import EXAMPLES

pytestmark = pytest.mark.full

ANSWERS = {
    row["question"]: row["answer"] for row in map(json.loads, (EXAMPLES / "questions.jsonl").read_text().splitlines())
}
KEY = "a-key-of-the-tests"


def test_what_a_server_offers_is_measured(run_step, project):
    """Every second question is answered as it should be."""
    known = {
        question: answer if number % 2 == 0 else "No." for number, (question, answer) in enumerate(ANSWERS.items())
    }
    project.write("env.toml", f'[here]\nexecutor = "local"\n[here.env_vars]\nEVAL_KEY = "{KEY}"\n')
    with openai_server("tiny_model", key=KEY, known=known) as server:
        wanted = (f"endpoint.url={server.address}", "endpoint.key_variable=EVAL_KEY", "-r", "here")
        made = run_step("eval/model_eval", "tiny_chat", *wanted, type="eval_results")
    found = json.loads((made.folder / "results.json").read_text())
    assert sorted(request["messages"][-1]["content"] for request in server.asked) == sorted(ANSWERS)
    assert not server.refused
    assert found["results"]["tiny_questions"]["exact_match,none"] == 0.5
    assert KEY not in (made.folder / "results.json").read_text()

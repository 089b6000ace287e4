"""sdg/data_designer, run as users run it, against the tests' model server."""

from __future__ import annotations

import json

import pytest
from labs.openai_server import openai_server
from labs.openai_words import text_of

from .conftest import EXAMPLES

from nemo_steps import files  # isort: skip

pytestmark = pytest.mark.slow

HOSTED = "nvidia/nemotron-3-nano-30b-a3b"
CONFIGS = {
    "default": {"messages", "topic"},
    "customer_support_tools": {"messages", "tool"},
    "rl_pref": {"prompt", "chosen", "rejected"},
}
"""The configurations that ask a hosted model, and the keys of their rows."""


def test_conversations_are_written_by_a_served_model(run_step):
    with openai_server("tiny_model") as server:
        made = run_step("sdg/data_designer", "tiny", f"endpoint.url={server.address}", type="synthetic_jsonl")
    rows = list(files.read_rows([made.folder / "synthetic.jsonl"]))
    asked = [text_of(request["messages"][-1]) for request in server.asked]
    assert len(rows) == 4
    for row in rows:
        assert [turn["role"] for turn in row["messages"]] == ["user", "assistant"]
        assert row["topic"] in ("sums", "letters")
        assert row["messages"][0]["content"] in asked  # the question was put to the model in its turn
    assert {f"Ask one question about {row['topic']}." for row in rows} <= set(asked)
    assert {request["max_tokens"] for request in server.asked} == {64}
    assert not server.refused
    assert [file.name for file in made.folder.iterdir()] == ["synthetic.jsonl"]


@pytest.mark.parametrize("config", CONFIGS)
def test_the_configurations_of_a_hosted_model(run_step, config):
    with openai_server(HOSTED) as server:
        few = ("num_records=2", f"endpoint.url={server.address}", "endpoint.key_variable=null")
        made = run_step("sdg/data_designer", config, *few, type="synthetic_jsonl")
    rows = list(files.read_rows([made.folder / "synthetic.jsonl"]))
    assert [set(row) for row in rows] == [CONFIGS[config]] * 2
    if config == "rl_pref":
        run_step("data_prep/rl_prep", "preference", f"run.data.path={made.folder}", type="training_jsonl")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["rows.topic='$nothing'"], "rows names $nothing, and the columns are answer, question, topic"),
        (["+designer.colums=[]"], "designer: "),
        (["endpoint.key_variable=NO_SUCH_KEY"], "names NO_SUCH_KEY, which is not set in the job"),
    ],
    ids=["no column", "no configuration", "no key"],
)
def test_a_mistake_is_named(nemotron_process, overrides, words):
    with openai_server("tiny_model") as server:
        address = f"endpoint.url={server.address}"
        outcome = nemotron_process("steps", "run", "sdg/data_designer", "-c", "tiny", address, *overrides)
    assert outcome.code != 0
    assert words in outcome.out + outcome.err


def test_rows_may_be_built_on(run_step):
    with openai_server("tiny_model") as server:
        words = (f"endpoint.url={server.address}", "run.seeds.path=bundle:examples/text.jsonl", "+rows.id='$id'")
        made = run_step("sdg/data_designer", "tiny", *words, type="synthetic_jsonl")
    seeds = {json.loads(line)["id"] for line in (EXAMPLES / "text.jsonl").read_text().splitlines()}
    found = [row["id"] for row in files.read_rows([made.folder / "synthetic.jsonl"])]
    assert len(found) == len(set(found)) == 4
    assert set(found) <= seeds

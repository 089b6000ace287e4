"""The tiny chain as a user starts it: one command, from an empty home; again; and from one of its steps on.

And what it measures is held against lm-eval.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import support
from labs.cache import UV_CACHE

from .conftest import NANO3

pytestmark = pytest.mark.full  # minutes of two cores, and the environments of all steps

STEPS = ("data", "pretrain", "data-sft", "sft", "data-rl", "rl", "eval-pretrain", "eval-sft", "eval-rl", "report")
STAGES = ("pretrain", "sft", "rl")
EXACT = "exact_match,none"


REFEREE = """\
run:
  model: {{path: {model}}}
  megatron: {{path: null}}
  results: {{artifact: referee}}
  env: {{nodes: 1, gpus_per_node: 0, env_vars: {{OMP_NUM_THREADS: "1"}}}}
output_dir: ${{run.output_dir}}
through: lm_eval
tasks:
  - task: nano3_questions
    dataset_path: json
    dataset_kwargs: {{data_files: {questions}}}
    test_split: train
    output_type: generate_until
    doc_to_text: prompt
    doc_to_target: answer
    generation_kwargs: {{until: ["\\n"], max_gen_toks: 8, do_sample: false}}
    metric_list:
      - {{metric: exact_match, aggregation: mean, higher_is_better: true, regexes_to_ignore: ["^ +", " +$"]}}
    metadata: {{version: 1}}
fewshot: 0
limit: null
batch_size: 1 # nothing is filled up: what stands on the left would be in the state of Mamba
model: {{path: "${{run.model.path}}", dtype: float32, device: cpu, chat_template: true}}
"""
"""A configuration of `steps/eval/model_eval`: the questions of `nano3 eval`, asked by lm-eval's own backend."""


class Chain:
    """A project with nothing but an env file, an empty home, and what the first run of the pipe has said."""

    def __init__(self, top: Path) -> None:
        self.project = support.make_project(top)
        self.first = self.pipe()

    def call(self, *words: str, timeout: float = 600) -> support.Outcome:
        """`nemotron WORDS…`; uv's cache of downloads is the user's, and nothing is asked of the hub."""
        quiet = {"UV_CACHE_DIR": str(UV_CACHE), "HF_HUB_OFFLINE": "1"}
        return support.process(self.project, *words, timeout=timeout, **quiet)

    def pipe(self, *words: str) -> support.Outcome:
        return self.call("nano3", "pipe", "-c", "tiny", *words, timeout=3600)

    def versions(self) -> dict[str, int]:
        """The newest version of every artifact."""
        return {each["name"]: each["version"] for each in self.call("artifacts", "list", "--json").succeeds().json}

    def folder(self, artifact: str) -> Path:
        """Where the newest version lies."""
        return Path(self.call("artifacts", "show", artifact, "--json").succeeds().json["path"])


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    yield Chain(tmp_path_factory.mktemp("chain"))


def stages_of(text: str) -> dict[str, list[str]]:
    """The lines of the report's table."""
    lines = [line.split() for line in text.splitlines()]
    return {words[0]: words[1:] for words in lines if len(words) == 5 and words[0] in STAGES}


def test_it_runs_to_the_end_and_shows_a_table_and_where_the_figure_is(chain):
    done = chain.first.succeeds()
    for step in STEPS:
        assert f"{step}: runs" in done.err, done.err
    table = stages_of(done.out)
    right, lost = ([float(table[stage][place]) for stage in STAGES] for place in (0, 1))
    assert right[0] < right[1] < right[2] and right[2] - right[1] >= 0.2, table
    assert lost[0] > lost[1] > lost[2], table
    named = [Path(path).expanduser() for path in re.findall(r"^  \((.+)\)$", done.out, re.MULTILINE)]
    assert [path.name for path in named] == ["report.txt", "chain.png"], done.out
    figure = next(chain.project.home.rglob("chain.png"))
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_every_stage_is_registered_with_what_it_was_made_of(chain):
    names = set(chain.versions())
    for name in ("pretrain-data", "pretrain-model", "sft-data", "sft-model", "rl-data", "rl-model", "eval", "report"):
        assert f"nano3-{name}-tiny" in names
    lineage = chain.call("artifacts", "lineage", "nano3-rl-model-tiny").succeeds().out
    for name in ("rl-data", "sft-model", "sft-data", "pretrain-model", "pretrain-data"):
        assert f"nano3-{name}-tiny" in lineage, lineage


def test_again_nothing_runs_and_from_a_step_it_and_what_follows_do(chain):
    before = chain.versions()
    again = chain.pipe().succeeds()
    for step in STEPS:
        assert f"{step}: not run again" in again.err, again.err
    assert chain.versions() == before
    assert "nothing to be done; --from STEP runs it again" in again.out + again.err
    later = chain.pipe("--from", "eval-rl").succeeds()
    assert "eval-rl: runs (--from)" in later.err and "report: runs" in later.err
    assert "eval-sft: not run again" in later.err and "rl: not run again" in later.err
    assert chain.versions()["nano3-report-tiny"] == before["nano3-report-tiny"] + 1
    scores = [[row[:3] for row in stages_of(run.out).values()] for run in (chain.first, later)]
    assert scores[0] == scores[1]


def test_lm_eval_hears_the_same_answers(chain):
    """An independent referee: another loop, with the cache of states that transformers has for this model."""
    chain.first.succeeds()
    ours = chain.folder("nano3-eval-tiny")
    found = json.loads((ours / "results.json").read_text())
    holes = {"model": f"{found['model']}/hf", "questions": NANO3 / "eval" / "questions.jsonl"}
    file = chain.project.write("referee.yaml", REFEREE.format(**holes))
    chain.call("steps", "run", "eval/model_eval", "-c", str(file), timeout=1800).succeeds()
    referee = chain.folder("referee")
    asked = {row["prompt"]: row["said"] for row in rows_of(ours / "samples_questions.jsonl")}
    heard = {row["arguments"][0][0]: row["resps"][0][0] for row in rows_of(referee / "samples_nano3_questions.jsonl")}
    assert asked.keys() == heard.keys() and len(asked) > 100
    other = {prompt: said for prompt, said in asked.items() if heard[prompt].strip() != said}
    assert len(other) <= 1, other  # rounding may turn one
    theirs = json.loads((referee / "results.json").read_text())["results"]["nano3_questions"][EXACT]
    assert theirs == pytest.approx(found["results"]["questions"][EXACT], abs=len(other) / len(asked) + 1e-9)


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]

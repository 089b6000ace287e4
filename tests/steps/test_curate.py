"""curate/nemo_curator, run as users run it: NeMo Curator's own pipeline on a Ray of two processors."""

from __future__ import annotations

import json

import pytest

from .conftest import EXAMPLES

from nemo_steps import files  # isort: skip

pytestmark = pytest.mark.full


def documents(name: str) -> dict[str, dict[str, object]]:
    return {row["id"]: row for row in map(json.loads, (EXAMPLES / name).read_text().splitlines())}


def test_documents_that_are_too_short_are_dropped(run_step):
    made = run_step("curate/nemo_curator", "tiny", type="filtered_jsonl")
    kept = {row["id"]: row for row in files.read_rows(sorted(made.folder.glob("*.jsonl")))}
    ours = documents("text.jsonl")
    assert set(kept) == {name for name, row in ours.items() if len(str(row["text"]).split()) >= 40}
    assert 0 < len(kept) < len(ours)
    assert all(row["text"] == ours[name]["text"] and row["WordCountFilter"] >= 40 for name, row in kept.items())
    assert f"kept {len(kept)} of {len(ours)} documents" in made.outcome.out


def test_one_bad_document_is_dropped_by_each_kind_of_filter(run_step, tmp_path):
    good = "Eva walked from the harbour to the market, and Ada, who had waited for five hours, walked with her. " * 2
    rows = {
        "good": good,
        "letters": "#### 12345 67890 ++++ ///// 11111 22222 =====",
        "lines": "the same line again\n" * 40,
    }
    source = tmp_path / "web.jsonl"
    source.write_text("".join(json.dumps({"id": name, "body": text}) + "\n" for name, text in rows.items()))
    filters = "filters=[{name: NonAlphaNumericFilter}, {name: RepeatedLinesFilter}]"
    wanted = (f"run.data.path={source}", "text_field=body", filters)
    made = run_step("curate/nemo_curator", "tiny", *wanted, type="filtered_jsonl")
    assert [row["id"] for row in files.read_rows(sorted(made.folder.glob("*.jsonl")))] == ["good"]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("filters=[{name: WordCountFiltre}]", "filters[0].name 'WordCountFiltre' is none of"),
        ("filters=[{name: WordCountFilter, min_word: 3}]", "min_word"),
        ("filters=[{name: WordCountFilter, min_words: 100000}]", "no document of 160 passed"),
    ],
    ids=["no such class", "no such argument", "nothing is left"],
)
def test_a_mistake_is_named(nemotron_process, override, words):
    outcome = nemotron_process("steps", "run", "curate/nemo_curator", "-c", "tiny", override, timeout=900)
    assert outcome.code != 0
    assert words in outcome.out + outcome.err

"""Which jobs a word or a condition means."""

from __future__ import annotations

import pytest
from job_records import record, stored

from nemo_runspec.duration import whole_seconds
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobStore
from nemo_runspec.records.reference import find_all
from nemo_runspec.records.select import Filter, duration_of, select, states_of

ENDED = ("planned", "running", "succeeded")
FAILED = ("planned", "running", "failed")


@pytest.fixture
def store(tmp_path):
    made = JobStore(tmp_path / "jobs")
    stored(made, record("nano3-pretrain-1120-aaaaaaaa", ENDED, age=9000, profile="cluster"))
    stored(made, record("nano3-pretrain-1120-bbbbbbbb", FAILED, age=500, profile="laptop"))
    stored(made, record("nano3-sft-1121-cccccccc", FAILED, age=300, recipe="nano3/sft"))
    for n in range(3):
        stored(made, record(f"sweep-1121-dddddd{n}{n}", ENDED, age=200 - n, group="sweep-1121-kkkkkkkk", recipe="mine"))
    stored(made, record("sweep", ENDED, age=100, recipe="mine"))
    return made


def names(store, **conditions):
    return [e.name for e in select(store.entries(), Filter(**conditions), lambda: ["nano3/rl"])]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("nano3-pretrain-1120-aaaaaaaa", "nano3-pretrain-1120-aaaaaaaa"),
        ("nano3-pretrain-1120-b", "nano3-pretrain-1120-bbbbbbbb"),
        ("cccccccc", "nano3-sft-1121-cccccccc"),
        ("last", "sweep"),
        ("sweep", "sweep"),  # a whole name, though it is the beginning of others
    ],
)
def test_one_job(store, word, name):
    assert store.get(word).name == name


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nano3-p", "beginning of 2 jobs"),
        ("sweep-1121-kkkkkkkk", "a sweep of 3 jobs"),
        ("", "no job ''"),
        ("..", "no job '..'"),
        ("../jobs", "no job"),
        ("nano3-sft-1121-ccccccxc", "did you mean 'nano3-sft-1121-cccccccc'"),
    ],
)
def test_no_job_or_several(store, word, said):
    with pytest.raises(UserError, match=said):
        store.get(word)


def test_several_words_and_a_sweep(store):
    found = find_all(store.entries(), ["cccccccc", "sweep-1121-kkkkkkkk", "last", "sweep-1121-dddddd00"], store.root)
    assert [e.name for e in found] == [
        "nano3-sft-1121-cccccccc", "sweep-1121-dddddd00", "sweep-1121-dddddd11", "sweep-1121-dddddd22", "sweep",
    ]  # fmt: skip


def test_what_is_hidden_is_not_a_job(store):
    (store.root / ".rm-x-1").mkdir()
    (store.root / ".rm-x-1" / "record.json").write_text("{}")
    with pytest.raises(UserError, match="no job"):
        store.get(".rm-x-1")


def test_conditions(store):
    assert names(store, states=("failed",)) == ["nano3-sft-1121-cccccccc", "nano3-pretrain-1120-bbbbbbbb"]
    assert names(store, recipe="nano3/sft") == ["nano3-sft-1121-cccccccc"]
    assert len(names(store, recipe="nano3")) == 3
    assert names(store, recipe="nano3 pretrain", profile="laptop") == ["nano3-pretrain-1120-bbbbbbbb"]
    assert len(names(store, group="sweep-1121-kkkkkkkk")) == 3
    assert len(names(store, since=1000)) == 6
    assert names(store, older=1000) == ["nano3-pretrain-1120-aaaaaaaa"]
    assert names(store, states=("lost",)) == []


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"recipe": "nano3/pretrian"}, "did you mean 'nano3/pretrain'"),
        ({"profile": "lptop"}, "did you mean 'laptop'"),
        ({"group": "sweep-1121-kkkkkkkx"}, "did you mean 'sweep-1121-kkkkkkkk'"),
    ],
)
def test_a_misspelt_name_is_an_error(store, conditions, said):
    with pytest.raises(UserError, match=said):
        names(store, **conditions)


def test_a_name_without_jobs_is_none(store):
    assert names(store, recipe="nano3/rl") == []
    assert names(store, recipe="zebra") == []
    assert names(store, profile="never-used-so-far") == []


def test_states():
    assert states_of(["failed,lost", "running"]) == ("failed", "lost", "running")
    with pytest.raises(UserError, match="did you mean 'failed'"):
        states_of(["faild"])
    with pytest.raises(UserError, match="states: planned"):
        states_of(["zzz"])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("3d", 259200),
        ("1w", 604800),
        ("1.5h", 5400),
        ("0s", 0),
        ("1h30m", 5400),
        ("1w 2d", 777600),
    ],
)
def test_times(text, seconds):
    assert duration_of(text, "--since") == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "h", "2 hours", "-1h", "nan", "inf", "1e3s", "99999999d", "3m2h", "1h1h", "²s", "9" * 5000 + "s"]
)
def test_what_is_no_time(text):
    with pytest.raises(UserError, match="is not a length of time"):
        duration_of(text, "--since")


def test_a_number_alone_is_seconds_where_that_is_usual():
    assert duration_of("10", "--timeout", bare=True) == 10


@pytest.mark.parametrize("text", ["1h30m", "1w", "1.5h", "90s", "2d", "1d 12h"])
def test_a_length_of_time_means_the_same_in_a_profile_and_on_the_command_line(text):
    assert whole_seconds(text) == duration_of(text, "--timeout", bare=True) == duration_of(text, "--since")


@pytest.mark.parametrize("text", ["0s", "0m", "30"])
def test_a_limit_of_a_profile_is_above_zero_and_has_a_unit(text):
    with pytest.raises(ValueError, match="not"):
        whole_seconds(text)

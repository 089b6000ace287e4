"""The table at the end: which columns, which order, which is best."""

from __future__ import annotations

import csv
import io
import math

import pytest
from sweep_records import member, sweep_of

from nemo_runspec.errors import UserError
from nemo_runspec.sweeps.figure import draw
from nemo_runspec.sweeps.model import overrides_of
from nemo_runspec.sweeps.results import as_csv
from nemo_runspec.sweeps.table import label, make_table, number, short_names, short_value, why_no_picture


def three(**options):
    return sweep_of(
        member(0, {"train.lr": "1e-2", "x": "1"}, {"val_loss": 3.0, "loss": 1.0, "step": 9}),
        member(1, {"train.lr": "3e-4", "x": "1"}, {"val_loss": 2.0, "loss": 2.0, "step": 9}),
        member(2, {"train.lr": "1e-3", "x": "1"}, {"loss": 0.5}, state="failed"),
        member(3, {"train.lr": "1e-4", "x": "1"}, state=None),
        **options,
    )


def order(table):
    return [row.member.index for row in table.rows]


def test_the_best_comes_first_and_those_without_a_value_last():
    table = make_table(three())
    assert (table.metric, table.best.member.index) == ("val_loss", 1)
    assert order(table) == [1, 0, 2, 3]
    assert table.keys == ("train.lr",)
    assert table.fixed == {"x": "1"}
    assert table.metrics == ("val_loss", "loss")  # steps are no result


def test_a_failed_run_is_never_the_best():
    table = make_table(three(metric="loss"))
    assert table.best.member.index == 0
    assert order(table) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [("loss", [0, 1, 2, 3]), ("lr", [3, 1, 2, 0]), ("train.lr", [3, 1, 2, 0]), ("time", [0, 1, 2, 3]),
     ("index", [0, 1, 2, 3]), ("val_loss", [1, 0, 2, 3])],
)  # fmt: skip
def test_it_can_be_sorted_by_anything(sort, expected):
    table = make_table(three(), sort)
    assert order(table) == expected
    assert table.best.member.index == 1  # the order does not change what is best


def test_sorted_by_what_is_not_there():
    with pytest.raises(UserError, match="nothing called 'los'") as error:
        make_table(three(), "los")
    assert "'loss'" in error.value.remedy


def test_sorted_by_what_is_the_same_in_all():
    for word in ("x", "train.x"):
        sweep = sweep_of(*(member(i, {"lr": str(i), word: "7"}, {"loss": 1.0}) for i in range(2)))
        with pytest.raises(UserError, match=f"'{word}' is 7 in all runs: there is nothing to sort by it"):
            make_table(sweep, "x")


def test_a_metric_that_nobody_has_told():
    """Another one orders them and is drawn; none is the best, since the one asked for says so of none."""
    table = make_table(three(metric="acc", maximize=True))
    assert (table.missing_metric, table.metric, table.maximize, table.best) == ("acc", "val_loss", False, None)
    assert order(table) == [1, 0, 2, 3]
    assert why_no_picture(table) == ""
    assert make_table(three(metric="loss")).missing_metric is None
    assert make_table(sweep_of(member(0, {}, state=None), metric="acc")).missing_metric is None  # it has not begun


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        ([{}, {}], "no run has told a metric"), ([{"a": 1.0}, {"b": 1.0}], "no metric that all of them have"),
        ([{"loss": math.nan}] * 2, "loss is no number in any run"), ([{"loss": math.nan}, {"loss": 1.0}], ""),
    ],
)  # fmt: skip
def test_why_there_is_no_picture(tmp_path, metrics, why):
    table = make_table(sweep_of(*(member(i, {"a": str(i)}, each) for i, each in enumerate(metrics))))
    assert why_no_picture(table).endswith(why)
    assert draw(table, tmp_path / "x.png", title="") is (why == "")


def test_higher_may_be_better():
    table = make_table(three(metric="val_loss", maximize=True))
    assert (table.best.member.index, order(table)) == (0, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([{"loss": 1, "val_loss": 2}, {"loss": 2, "val_loss": 1}], "val_loss"),
        ([{"loss": 1, "val_loss": 2}, {"loss": 2}], "loss"),
        ([{"speed": 1, "acc": 2}, {"speed": 2, "acc": 1}], "acc"),
        ([{"step": 1}, {"step": 2}], None),
        ([{}, {}], None),
    ],
)
def test_what_they_are_compared_by(metrics, expected):
    assert make_table(sweep_of(*(member(i, {"a": str(i)}, m) for i, m in enumerate(metrics)))).metric == expected


def test_a_value_that_is_no_number_is_not_the_best():
    sweep = sweep_of(member(0, {"a": "1"}, {"loss": math.nan}), member(1, {"a": "2"}, {"loss": 5.0}))
    table = make_table(sweep)
    assert (table.best.member.index, order(table)) == (1, [1, 0])
    assert number(math.nan) == "nan"


def test_short_names_tell_keys_apart():
    assert short_names(["train.lr", "rng.seed"]) == {"train.lr": "lr", "rng.seed": "seed"}
    assert short_names(["a.lr", "b.lr", "lr"]) == {"a.lr": "a.lr", "b.lr": "b.lr", "lr": "lr"}
    assert short_names(["group/sub", "x"]) == {"group/sub": "group/sub", "x": "x"}


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (2.5304, "2.530"), (123456.7, "123,457"), (150.0, "150"), (0.00001234, "1.234e-05")]
)
def test_numbers(value, text):
    assert number(value) == text


def test_labels():
    made = member(0, overrides_of(["+train.lr=0.0019089145170190977", "++name='a b'", "~gone", "text=0001"]))
    assert made.overrides == {"train.lr": "0.0019089145170190977", "name": "a b", "~gone": "", "text": "0001"}
    assert label(made, {"train.lr": "lr", "name": "name"}) == "lr=0.001909 name=a b"
    assert label(made, {}) == "run 0"
    assert short_value("1234567.8") == "1.235e+06"


def test_the_csv_has_everything_in_full():
    text = as_csv(make_table(three()))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["job"] for row in rows] == ["job-1", "job-0", "job-2", "job-3"]
    assert rows[0] == {
        "index": "1", "job": "job-1", "state": "succeeded", "exit_code": "0", "seconds": "11.0", "best": "yes",
        "train.lr": "3e-4", "loss": "2.0", "step": "9", "val_loss": "2.0",
    }  # fmt: skip
    assert (rows[3]["state"], rows[3]["loss"], rows[2]["exit_code"]) == ("not run", "", "3")

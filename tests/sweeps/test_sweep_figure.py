"""The picture: there is one where there is something to see, and it is a picture."""

from __future__ import annotations

import stat
import struct

import pytest
from sweep_records import curve, member, sweep_of

from nemo_runspec.sweeps.figure import _axis_of, _colours, _points, draw
from nemo_runspec.sweeps.series import POINTS, read_series
from nemo_runspec.sweeps.table import make_table

LRS = ("1e-4", "1e-3", "1e-2")
SWEPT = {
    "one number": [{"train.lr": lr} for lr in LRS],
    "a number and a name": [{"train.lr": lr, "act": a} for lr in LRS for a in ("relu", "gelu $x_$")],
    "names": [{"act": a, "b": b} for a in ("a", "b") for b in ("x" * 90, "$y^2")],
    "many": [{"train.lr": str(n / 1000), "seed": str(n % 7), "c": str(n)} for n in range(1, 60)],
    "one run": [{"train.lr": "1e-3"}],
    "equal values": [{"train.lr": "1e-3"}, {"train.lr": "0.001"}],
}


def size(file):
    """Width and height of a PNG, in pixels."""
    head = file.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def swept(tmp_path, overrides, with_curves):
    members = []
    for index, each in enumerate(overrides):
        floor = 2 + (index - 1) ** 2 / 50
        if with_curves:
            curve(tmp_path, index, floor)
        members.append(member(index, each, {"val_loss": floor + 0.1, "loss": floor}, top=tmp_path))
    return make_table(sweep_of(*members))


@pytest.mark.slow
@pytest.mark.parametrize("overrides", SWEPT.values(), ids=SWEPT)
def test_it_is_drawn(tmp_path, overrides):
    file = tmp_path / "results.png"
    assert draw(swept(tmp_path, overrides, True), file, title="mine/train $HOME_1")
    wide, high = size(file)
    assert wide > 1500
    assert high > 400
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not list(tmp_path.glob(".*"))
    assert draw(swept(tmp_path / "other", overrides, False), file, title="")
    assert size(file)[0] < wide  # no curves, one panel


@pytest.mark.parametrize("overrides", ["one number", "a number and a name", "names", "equal values", "nine"])
def test_a_few_runs_have_each_a_colour_of_its_own(tmp_path, overrides):
    nine = [{"train.lr": lr, "seed": seed} for lr in LRS for seed in "123"]
    table = swept(tmp_path, nine if overrides == "nine" else SWEPT[overrides], False)
    points = _points(table)
    colours = _colours(points, _axis_of(table, points))
    assert len(set(map(tuple, colours.values()))) == len(points) == len(table.rows)


def test_a_run_that_went_astray_does_not_hide_the_others(tmp_path):
    members = [member(i, {"lr": str(i + 1)}, {"loss": loss}) for i, loss in enumerate((2.0, 2.1, 1e9))]
    assert draw(make_table(sweep_of(*members)), tmp_path / "x.png", title="")
    nothing = [member(0, {"lr": "1"}, {"loss": float("nan")}), member(1, {"lr": "2"}, {})]
    assert not draw(make_table(sweep_of(*nothing)), tmp_path / "y.png", title="")
    assert not (tmp_path / "y.png").exists()


def test_the_users_own_matplotlib_settings_stay(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw(swept(tmp_path, SWEPT["names"], False), tmp_path / "x.png", title="")
    assert dict(matplotlib.rcParams) == before


def test_curves_of_any_length(tmp_path):
    file = tmp_path / "metrics.jsonl"
    lines = [f'{{"step": {n}, "loss": {n / 2}, "other": "x"}}\n' for n in range(4500)]
    file.write_text("".join(["not json\n", '{"loss": true, "step": 1}\n', *lines, '{"step": 9']))
    series = read_series(file, "loss")
    assert POINTS <= len(series.steps) <= POINTS + 200
    assert (series.steps[0], series.steps[-1]) == (0, 4499)
    assert series.values[-1] == 4499 / 2
    file.write_text('{"loss": 3}\n{"loss": 2}\n')
    assert read_series(file, "loss").steps == (0, 1)
    assert read_series(tmp_path / "gone", "loss").values == ()

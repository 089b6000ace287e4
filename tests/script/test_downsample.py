"""What is kept of a file of metrics: every metric's last value, a curve of each, and never more than fits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.jobside import downsample as program
from nemo_runspec.records.metrics import last_values
from nemo_runspec.script.pod_marker import metrics_history

PROGRAM = Path(program.__file__)
VALUES = st.one_of(
    st.floats(allow_nan=False), st.integers(), st.text(max_size=3), st.booleans(), st.none(), st.integers(10**400)
)
RECORDS = st.dictionaries(st.sampled_from(["step", "loss", "val_loss", "a b", "λ", "total_steps"]), VALUES)
LINES = st.lists(st.one_of(RECORDS.map(lambda record: json.dumps(record).encode()), st.binary(max_size=20)))


def run(file: Path) -> bytes:
    """The program as a job runs it: by itself, without the package."""
    words = [sys.executable, "-I", "-S", "-c", PROGRAM.read_text(encoding="utf-8"), str(file)]
    return subprocess.run(words, capture_output=True, check=True).stdout


def kept(lines: list[bytes]) -> list[bytes]:
    return program.as_lines(program.downsample(lines).records()).splitlines()


@given(LINES)
def test_last_values_of_what_is_kept_are_those_of_the_whole_file(lines):
    assert last_values(kept(lines)) == last_values(lines)


@given(LINES)
def test_a_log_carries_it_whole(lines):
    told = program.packed(program.downsample(lines))
    text = b"".join(f"nemotron-metrics: {line}\n".encode() for line in told)
    assert last_values(metrics_history(b"first\n" + text + b"last\n").splitlines()) == last_values(lines)


def test_a_metric_that_is_written_seldom_keeps_its_curve():
    lines = [b'{"step": %d, "loss": 1}' % step for step in range(100_000)]
    lines[::1000] = [b'{"step": %d, "loss": 1, "val_loss": 2}' % step for step in range(0, 100_000, 1000)]
    records = [json.loads(line) for line in kept(lines)]
    assert [record["step"] for record in records if "val_loss" in record] == list(range(0, 100_000, 1000))
    assert 200 <= sum("val_loss" not in record for record in records) <= program.POINTS + 1
    assert records == sorted(records, key=lambda record: record["step"])


def test_what_a_log_carries_is_bounded_but_for_the_last_values():
    lines = [json.dumps({f"m{n % 7}/{k}": n * k / 7 for k in range(30)}).encode() for n in range(5000)]
    told = program.packed(program.downsample(lines))
    assert sum(map(len, told)) < 40_000 and all(len(line) < 3100 for line in told)
    text = "".join(f"nemotron-metrics: {line}\n" for line in told).encode()
    assert last_values(metrics_history(text).splitlines()) == last_values(lines)


@pytest.mark.parametrize("cut", [0, 1, -1])
def test_a_part_that_is_missing_says_nothing_wrong(cut):
    lines = [json.dumps({f"m{k}": k / 7 + n for k in range(60)}).encode() for n in range(200)]
    told = program.packed(program.downsample(lines))
    assert len(told) > 2
    del told[cut]
    assert metrics_history("".join(f"nemotron-metrics: {line}\n" for line in told).encode()) == b""


@pytest.mark.parametrize("line", [b"z:1/1:%%%", b"z:1/1:aGVsbG8=", b"z:0/0:", b"z:1/99999999999:x", b"z:a/b:c", b"z:"])
def test_what_is_no_part_says_nothing(line):
    assert metrics_history(b"nemotron-metrics: " + line + b"\n") == b""


def test_lines_of_older_pods_are_read():
    text = b'nemotron-metrics: {"val_loss": 2}\nx\nnemotron-metrics: {"loss": 1}\n'
    assert last_values(metrics_history(text).splitlines()) == {"val_loss": 2, "loss": 1}


def test_as_a_program(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"loss": 3, "name": "x"}\nno json\n{"loss": 2, "accuracy": 0.5}\n{"loss": 1}\n')
    assert last_values(run(file).splitlines()) == {"loss": 1, "accuracy": 0.5}
    file.write_bytes(b"")
    assert run(file) == b""

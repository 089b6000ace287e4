"""What is seen of a job: its output, whole, in order, and while it runs."""

from __future__ import annotations

import hashlib
import re
import signal

import pytest
from waiting import line_of

from behaviour.bench import finish, same_lines
from nemo_runspec.records.metrics import metrics_file
from nemo_runspec.sweeps.series import read_series

MANY = 40_000


@pytest.mark.slow
def test_many_lines(bench):
    """40,000 numbered lines from output and errors are all there, in order, on the terminal and in the log."""
    ended = bench.attached(
        f"""
        for number in range(0, {MANY}, 2):
            os.write(1, b"line %d\\n" % number)
            os.write(2, b"line %d\\n" % (number + 1))
        """
    )
    assert ended.code == 0, ended.err
    expected = [f"line {number}" for number in range(MANY)]
    assert ended.lines == expected
    assert bench.log_lines(bench.newest()) == expected


@pytest.mark.slow
def test_fast_output(bench):
    """Fifty megabytes of output lose no byte."""
    ended = bench.attached(
        """
        block = "".join(f"{number:07} " + "x" * 91 + "\\n" for number in range(10_000)).encode()
        for _ in range(50):
            view = memoryview(block)
            while view:
                view = view[os.write(1, view):]
        """
    )
    assert ended.code == 0, ended.err
    block = "".join(f"{number:07} " + "x" * 91 + "\n" for number in range(10_000))
    wanted = hashlib.sha256(block.encode() * 50).digest()
    assert hashlib.sha256("".join(f"{line}\n" for line in ended.lines).encode()).digest() == wanted
    tags = 10_000 * len("[rank0] ") if bench.rig.nodes > 1 else 0
    assert len(ended.out) == 50 * (len(block) + tags) * bench.rig.nodes


def test_long_lines(bench):
    """A line of a megabyte stays one line; a last line without an end is there."""
    ended = bench.attached("sys.stdout.write('a' * 1_000_000 + '\\n' + 'short\\n' + 'b' * 100_000)")
    assert ended.code == 0, ended.err
    assert [(line[:1], len(line)) for line in ended.lines] == [("a", 1_000_000), ("s", 5), ("b", 100_000)]


def test_odd_bytes(bench):
    """Empty lines, unicode and Windows line ends come as lines, a progress bar as it was last; bytes that are no text
    break nothing."""
    ended = bench.attached(
        r"""
        import time
        os.write(1, "ünï ☃\n\nwindows\r\n\r 1%".encode())
        time.sleep(1.5)
        os.write(1, b"\r 2%")
        time.sleep(0.5)
        os.write(1, b"\r 3%\nend\n")
        os.write(1, b"\xff\xfe\nlast\n")
        """
    )
    assert ended.code == 0, ended.err
    lines = ["ünï ☃", "", "windows", " 3%", "end", "\udcff\udcfe", "last"]
    assert ended.lines == lines
    assert bench.log_lines(bench.newest()) == lines
    assert "\r" not in ended.out + bench.nemotron("jobs", "logs", bench.newest()).out


def test_seen_while_it_runs(bench):
    """A line is seen when it is written, not when the job ends; how far a progress bar is too."""
    process = bench.start(
        r"""
        import time
        print("begun", flush=True)
        for number in range(6000):
            sys.stderr.write(f"\r {number} of 6000"); sys.stderr.flush()
            time.sleep(0.1)
        """
    )
    try:
        first = {line_of(process.stdout) for _ in range(bench.rig.nodes)}
        tags = [f"[rank{rank}] " for rank in range(bench.rig.nodes)] if bench.rig.nodes > 1 else [""]
        assert first == {f"{tag}begun\n".encode() for tag in tags}
        told = iter(lambda: line_of(process.stderr), b"")
        assert any(re.fullmatch(rb"(\[rank0\] )? \d+ of 6000\n", line) for line in told)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        finish(process)


@pytest.mark.slow
def test_followed_log(bench):
    """A detached job's log can be followed to its end while it is written."""
    name = bench.detached(
        """
        import time
        for number in range(20):
            print("line", number, flush=True)
            time.sleep(0.1)
        """
    )
    followed = bench.nemotron("jobs", "logs", "--follow", name).succeeds()
    assert same_lines(bench.rig.nodes, followed.out) == [f"line {number}" for number in range(20)]
    assert len(followed.out.splitlines()) == 20 * bench.rig.nodes


@pytest.mark.slow
def test_metrics(bench):
    """The last value of every metric is known, wherever in the file it stands, and each has its curve."""
    ended = bench.attached(
        """
        with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as file:
            for step in range(3000) if os.environ["NODE_RANK"] == "0" else ():
                seldom = {"accuracy": step / 4} if step % 1000 == 500 else {}
                once = {"lr/first": 0.5} if step == 0 else {}
                file.write(json.dumps({"step": step, "loss": 3000 - step, "name": "x" * 40, **seldom, **once}))
                file.write(chr(10))
        """
    )
    assert ended.code == 0, ended.err
    name = bench.newest()
    assert bench.show(name)["metrics"] == {"step": 2999, "loss": 1, "accuracy": 625, "lr/first": 0.5}
    file = metrics_file(bench.folder(name))
    accuracy, loss = read_series(file, "accuracy"), read_series(file, "loss")
    assert (accuracy.steps, accuracy.values) == ((500, 1500, 2500), (125, 375, 625))
    assert len(loss.values) >= 200 and all(
        value == 3000 - step for step, value in zip(loss.steps, loss.values, strict=True)
    )

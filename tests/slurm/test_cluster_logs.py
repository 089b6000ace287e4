"""New bytes of logs: each once, in any number of files, while they grow, are emptied, and new ones appear."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, slurm_plan, start, wait

from nemo_runspec.backends.provider import offset_of
from nemo_runspec.backends.slurm.executor import job_name
from nemo_runspec.backends.slurm.observe import batch_log, read_chunks, task_logs
from nemo_runspec.errors import UserError

pytestmark = needs_slurm


@pytest.fixture
def host(slurm_lab_plain: SlurmLab) -> LabHost:
    return LabHost(slurm_lab_plain)


class Follower:
    """What has come so far, by file."""

    def __init__(self, host: LabHost, *patterns: str) -> None:
        self.host, self.patterns = host, patterns
        self.offsets: dict[str, int] = {}
        self.read: dict[str, bytes] = {}

    def step(self, limit: int = 1 << 20) -> int:
        """Asks once; how many bytes came."""
        total = 0
        for piece in read_chunks(self.host, self.patterns, self.offsets, limit=limit):
            assert piece.start == self.offsets.get(piece.path, 0)
            self.read[piece.path] = self.read.get(piece.path, b"") + piece.content
            self.offsets[piece.path] = offset_of(piece.cursor)
            total += len(piece.content)
        return total


def test_only_what_is_new_and_any_bytes(host: LabHost, tmp_path: Path):
    content = os.urandom(300_000) + b"\n\x1e5\x1f0\x1f9\x1fx\n\x1eend\n" + bytes(range(256))
    (tmp_path / "a b.out").write_bytes(content)
    (tmp_path / "empty.out").touch()
    follower = Follower(host, f"{tmp_path}/a b.out", f"{tmp_path}/empty.out", f"{tmp_path}/none.out")
    host.calls = 0
    assert follower.step() == len(content)
    assert follower.step() == 0
    with (tmp_path / "a b.out").open("ab") as file:
        file.write(b"more")
    assert follower.step() == 4
    assert follower.read == {f"{tmp_path}/a b.out": content + b"more"}
    assert host.calls == 3


def test_in_pieces_of_a_limit(host: LabHost, tmp_path: Path):
    contents = {f"{tmp_path}/{n}.out": os.urandom(1000 * n + 1) for n in range(5)}
    for path, content in contents.items():
        Path(path).write_bytes(content)
    follower = Follower(host, f"{tmp_path}/*.out")
    sizes = []
    while size := follower.step(limit=700):
        sizes.append(size)
    assert set(sizes[:-1]) == {700}
    assert follower.read == contents


def test_files_come_in_the_order_of_their_numbers(host: LabHost, tmp_path: Path):
    folder = tmp_path / "a b"
    folder.mkdir()
    names = [f"log-x_12_{attempt}_{task}.out" for attempt in (0, 3, 11) for task in (0, 2, 10)]
    for name in sorted(names):
        (folder / name).write_text(name)
    pieces = read_chunks(host, [f"{folder}/none_*.out", f"{folder}/log-x_12_*.out"])
    assert [piece.path for piece in pieces] == [f"{folder}/{name}" for name in names]


def test_a_file_that_was_emptied_begins_anew(host: LabHost, tmp_path: Path):
    file = tmp_path / "x.out"
    file.write_bytes(b"a long first attempt")
    file.write_bytes(b"second")
    (piece,) = read_chunks(host, [str(file)], {str(file): 20})
    assert (piece.start, piece.content, piece.cursor, piece.more) == (0, b"second", 6, False)


def test_nothing_is_lost_while_it_is_written(host: LabHost, tmp_path: Path):
    file = tmp_path / "x.out"
    lines = [f"line {number} {'x' * (number % 300)}\n".encode() for number in range(20_000)]

    def write() -> None:
        with file.open("ab", buffering=0) as out:
            for line in lines:
                out.write(line)

    writer = threading.Thread(target=write)
    writer.start()
    follower = Follower(host, f"{tmp_path}/*.out")
    while writer.is_alive():
        follower.step(limit=100_003)
    while follower.step(limit=100_003):
        pass
    assert follower.read[str(file)] == b"".join(lines)


def test_what_does_not_arrive_whole_is_said(host: LabHost, tmp_path: Path):
    (tmp_path / "x.out").write_text("hello")

    class Cut(LabHost):
        def run(self, script: str, **values):
            done = super().run(script, **values)
            return type(done)(done.code, done.out[:-9], done.err)

    host.__class__ = Cut
    with pytest.raises(UserError, match="did not arrive whole"):
        read_chunks(host, [f"{tmp_path}/x.out"])


def test_words_of_a_login_script_are_no_log(host: LabHost, tmp_path: Path):
    (tmp_path / "x.out").write_text("hello")

    class Greets(LabHost):
        def run(self, script: str, **values):
            return super().run(f"echo Welcome; {script}", **values)

    host.__class__ = Greets
    assert [piece.content for piece in read_chunks(host, [f"{tmp_path}/x.out"])] == [b"hello"]


def test_every_attempt_of_a_job(host: LabHost, tmp_path: Path):
    script = """
    import os, sys
    again = int(os.environ.get("SLURM_RESTART_COUNT", 0))
    print("attempt", again, flush=True)
    sys.exit(0 if again else 4)
    """
    plan = slurm_plan(tmp_path, script, {"retries": 1}, nodes=2)
    job = start(host, plan)
    name = job_name(plan)
    follower = Follower(host, task_logs(plan.job_dir, name, job.id), batch_log(plan.job_dir, name, job.id))
    assert wait(host, job).state == "succeeded"
    while follower.step(limit=100):
        pass
    files = {Path(path).name: content.decode() for path, content in follower.read.items()}
    logs = [[f"log-{name}_{job.id}_{attempt}_{task}.out" for task in (0, 1)] for attempt in (0, 1)]
    # Of the first attempt, one rank may have been told of the other's failure before it had a word to say.
    assert "] attempt 0" in "".join(files.get(log, "") for log in logs[0])
    second = [files[log] for log in logs[1]]
    said = [[line for line in text.splitlines() if line.startswith("[rank")] for text in second]
    assert said == [["[rank0] attempt 1"], ["[rank1] attempt 1"]]
    batch = files[f"sbatch_{name}_{job.id}.out"]
    assert batch == Path(batch_log(plan.job_dir, name, job.id)).read_text()
    assert "job exited with code 0" in batch

"""Why a program failed, found in what it really wrote; what needs GPUs is in the words of users' reports."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import LONG

from nemo_runspec.diagnosis.patterns import PATTERNS
from nemo_runspec.diagnosis.symptoms import Symptom, find, last_lines, stack_of


def said_by(folder: Path, script: str, *before: str) -> bytes:
    """What a script of the user's writes; it lies where a job's code does. `before`: shell lines."""
    code = folder / "jobs" / "job-1" / "code"
    code.mkdir(parents=True, exist_ok=True)
    (code / "main.py").write_text(textwrap.dedent(script))
    shell = "\n".join((*before, f"{sys.executable} -B {code}/main.py"))
    run = ["bash", "-c", shell]
    return subprocess.run(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=code, timeout=LONG).stdout


def of_rank(rank: int, text: bytes | str) -> bytes:
    """As the job script passes a rank's lines on."""
    lines = (text if isinstance(text, bytes) else textwrap.dedent(text).strip("\n").encode()).splitlines()
    return b"".join(b"[rank%d] %s\n" % (rank, line) for line in lines)


def sure(log: bytes, rank: int | None = None) -> Symptom:
    found = find(log, rank)
    assert found is not None, log.decode()
    return found


REAL = {
    "import error": ("import fast_attention_9", "fast_attention_9, at main.py:2"),
    "missing file": ("open('/data/tokens.bin')", "misses /data/tokens.bin, at main.py:2"),
    "permission": ("open('/sys/kernel/x', 'w')", "/sys/kernel/x"),
    "port in use": (
        "import socket\na = socket.create_server(('127.0.0.1', 0))\nsocket.create_server(a.getsockname())",
        "at main.py:4",
    ),
    "out of memory": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\nbytearray(1 << 30)",
        "ran out of memory, at main.py:4",
    ),
    "storage": ("print('x' * 9999, file=open('/dev/full', 'w'))", "a disk is full, at main.py:2"),
    "crash": (
        "import faulthandler, os, signal\nfaulthandler.enable()\nos.kill(os.getpid(), signal.SIGSEGV)",
        "segmentation fault",
    ),
    "user code": ("def step(batch):\n    return 1 / batch\nstep(0)", "raised ZeroDivisionError at main.py:3"),
    "interrupted": ("import os, signal\nos.kill(os.getpid(), signal.SIGINT)", "was interrupted"),
}


@pytest.mark.parametrize("kind", REAL)
def test_what_python_really_says(kind: str, tmp_path: Path):
    script, what = REAL[kind]
    found = sure(of_rank(3, said_by(tmp_path, f"print('step 1')\n{script}")))
    assert (found.kind, found.rank) == (kind, 3), found
    assert what in found.what
    assert found.remedy and found.evidence


def test_what_has_too_many_files_open(tmp_path: Path):
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n"
    found = sure(of_rank(1, said_by(tmp_path, limit + "have = [open('/dev/null') for _ in range(16)]")))
    assert found.what == "rank 1 had as many files open as one process may, at main.py:3"
    assert "ulimit -Hn" in found.remedy


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("breakpoint()\nprint()", "rank 1 was ended at a breakpoint, at main.py:2"),
        ("input('name? ')", "rank 1 asked for input, and there was none, at main.py:1"),
    ],
)
def test_what_reads_where_there_is_nothing(script: str, what: str, tmp_path: Path):
    found = sure(of_rank(1, said_by(tmp_path, script, "exec < /dev/null")))
    assert (found.kind, found.what) == ("user code", what)
    assert "attached local run of one process" in found.remedy


def test_an_import_error_says_whose_it_is(tmp_path: Path):
    library = tmp_path / "lib" / "site-packages" / "trainer9"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("import gone_9\n")
    found = sure(said_by(tmp_path, f"import sys\nsys.path.insert(0, {str(library.parent)!r})\nimport trainer9"))
    assert found.kind == "import error"
    assert "gone_9, which trainer9/__init__.py:1 needs" in found.what
    assert "environment" in found.remedy
    assert found.where == "main.py:3"


def test_a_file_that_is_no_python(tmp_path: Path):
    found = sure(said_by(tmp_path, "def f(:\n    pass"))
    assert (found.kind, found.evidence.partition(":")[0]) == ("user code", "SyntaxError")
    assert found.where == "main.py:1"


@pytest.mark.parametrize(
    ("line", "kind", "what"),
    [
        ("train_fast --now", "command not found", "no command train_fast"),
        ("python3 /nowhere/train.py", "missing file", "/nowhere/train.py"),
        ("cd /nowhere/at/all", "missing file", "/nowhere/at/all"),
        ("/etc/passwd", "permission", "/etc/passwd"),
        ("python3 -m no_module_9", "import error", "no_module_9"),
        ("if then", "user code", "shell command"),
        ("bash -c 'ulimit -c 0; kill -SEGV $$'; true", "crash", "segmentation fault"),
        ("bash -c 'kill -KILL $$'; true", "killed", "SIGKILL"),
    ],
)
def test_what_the_shell_really_says(line: str, kind: str, what: str, tmp_path: Path):
    job = tmp_path / "job.sh"
    job.write_text(f"set -e\n{line}\n")
    done = subprocess.run(["bash", str(job)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONG)
    found = sure(done.stdout)
    assert found.kind == kind, done.stdout
    assert what in found.what


def test_the_cause_of_a_chain(tmp_path: Path):
    """A wrapper's exception says less than what it wraps, where that one is known."""
    script = """
    def load():
        try:
            open("/data/vocab.json")
        except OSError as error:
            raise RuntimeError("the tokenizer cannot be made") from error
    try:
        load()
    except RuntimeError:
        raise SystemError("trainer failed")
    """
    found = sure(said_by(tmp_path, script))
    assert (found.kind, found.where) == ("missing file", "main.py:10")
    assert found.evidence.startswith("FileNotFoundError")


def test_what_was_survived_is_no_cause(tmp_path: Path):
    script = """
    import traceback
    try:
        import apex_9
    except ImportError:
        traceback.print_exc()
    for step in range(500):
        print("step", step)
    """
    assert find(said_by(tmp_path, script)) is None
    ended = sure(said_by(tmp_path, f"{textwrap.dedent(script)}\nraise ValueError('nan')"))
    assert (ended.kind, ended.evidence) == ("user code", "ValueError: nan")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 brings groups of exceptions")
def test_a_group_of_exceptions(tmp_path: Path):
    """What is in the group is the cause, as far as it has a traceback of its own."""
    grouped = """
    import asyncio

    async def load(name):
        raise LookupError(name)

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(load("train"))

    asyncio.run(main())
    """
    found = sure(of_rank(0, said_by(tmp_path, grouped)))
    assert (found.kind, found.evidence, found.where) == ("user code", "LookupError: train", "main.py:5")
    bare = sure(said_by(tmp_path, "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])"))
    assert (bare.evidence, bare.where) == ("ExceptionGroup: two (2 sub-exceptions)", "main.py:1")


def test_an_exception_of_a_class_in_a_function(tmp_path: Path):
    script = """
    def main():
        class Spoilt(Exception):
            pass
        raise Spoilt("it is")
    main()
    """
    found = sure(said_by(tmp_path, script))
    assert (found.evidence, found.where) == ("main.<locals>.Spoilt: it is", "main.py:5")


def test_an_exception_without_its_traceback(tmp_path: Path):
    """As a program prints it that catches all, or rich, whose tracebacks are drawn in a box."""
    for line in ("ValueError: 3 heads", "mine.errors.ShapeError: 3 heads", "KeyError: 'x'"):
        log = said_by(tmp_path, f"import sys\nprint('step 1', flush=True)\nsys.exit({line!r})")
        found = sure(of_rank(0, log))
        assert (found.kind, found.evidence) == ("user code", line)
        assert found.what == f"rank 0 gave up: {line}"
        assert find(log + b"step\n" * 30) is None, "it was survived"
    assert find(b"UserWarning: old\nDeprecationWarning: x\n") is None


def test_an_exception_behind_a_progress_bar(tmp_path: Path):
    """A bar is one line of many parts, and a rank's name stands before the first."""
    script = """
    import sys
    for done in range(3):
        sys.stderr.write(f"\\r{done}/3")
    sys.stderr.write("\\r")
    raise ValueError("spoilt")
    """
    found = sure(of_rank(1, said_by(tmp_path, script)))
    assert (found.rank, found.evidence, found.where) == (1, "ValueError: spoilt", "main.py:6")


def test_an_ignored_exception_is_none(tmp_path: Path):
    script = """
    class Loader:
        def __del__(self):
            open("/gone")
    Loader()
    raise KeyError("loss")
    """
    found = sure(said_by(tmp_path, script))
    assert found.evidence == "KeyError: 'loss'"
    assert find(said_by(tmp_path, script.replace("raise KeyError", "print"))) is None


OUT_OF_MEMORY = """
Traceback (most recent call last):
  File "/nemo_run/code/recipes/nano3/pretrain/main.py", line 88, in <module>
    main()
  File "/nemo_run/code/recipes/nano3/pretrain/main.py", line 61, in main
    loss = model(batch)
  File "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1739, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has a total capacity of 79.11 GiB
"""

WATCHDOG = """
[rank{rank}]:[E1120 14:02:08.{rank}08271257 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective \
operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=4661, Timeout(ms)=600000) ran for 600004 \
milliseconds before timing out.
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f42a68f3d87 in /opt/libc10.so)
terminate called after throwing an instance of 'c10::DistBackendError'
Fatal Python error: Aborted
"""

GLOO = """
Traceback (most recent call last):
  File "/nemo_run/code/recipes/nano3/pretrain/main.py", line 88, in <module>
    main()
RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4711
"""

SUMMARY = """
E1120 14:02:09.000000 812 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 2 \
(pid: 829) of binary: /opt/venv/bin/python
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 10, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/launcher/api.py", line 270, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
main.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 829)
============================================================
srun: error: n1: task 0: Exited with exit code 1
"""


@pytest.mark.parametrize("crash", [False, True])
def test_the_first_failure_and_not_its_echoes(crash: bool):
    blamed = f"{OUT_OF_MEMORY.strip()}\n{'Segmentation fault (core dumped)' if crash else ''}"
    log = b"".join(
        (
            of_rank(0, GLOO),  # the pipe of a healthy rank may be read first
            of_rank(2, blamed.replace("\n", "\n[rank2]: ")),  # PyTorch puts the rank there, too
            of_rank(1, WATCHDOG.replace("{rank}", "1")),
            of_rank(3, "Segmentation fault (core dumped)"),
            SUMMARY.encode(),
        )
    )
    found = sure(log)
    assert (found.kind, found.rank) == ("out of GPU memory", 2)
    assert found.what == "rank 2 ran out of GPU memory, at recipes/nano3/pretrain/main.py:61"
    assert found.evidence.startswith("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_of_two_failures_the_first_or_that_of_the_marker():
    log = of_rank(5, OUT_OF_MEMORY) + of_rank(
        1, "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'"
    )
    assert sure(log).rank == 5
    assert sure(log, rank=1).evidence == "KeyError: 'x'"
    assert sure(log, rank=7).rank == 5


MISSING = (
    "error: data_dir /data/blend holds no whole dataset: [Errno 2] No such file or directory: '/data/blend/blend.json'"
)


@pytest.mark.parametrize("ranked", [False, True])
def test_the_error_that_a_program_gave_up_with(ranked: bool):
    """Not torchrun's word that a process failed, nor what the other ranks lost by it; of several the first."""
    written = f"step 0\n{MISSING}\nerror: another rank's, later\n"
    said = of_rank(2, written) if ranked else written.encode()
    log = (of_rank(0, GLOO) if ranked else b"") + said + SUMMARY.encode()
    for rank in (None, 2):
        found = sure(log, rank=rank)
        assert (found.evidence, found.rank) == (MISSING, 2 if ranked else None)
        assert "/data/blend/blend.json" in found.what
    usage = sure(b"usage: main.py [-h]\nmain.py: error: unrecognized arguments: --x\n" + SUMMARY.encode())
    assert (usage.kind, usage.evidence) == ("arguments", "main.py: error: unrecognized arguments: --x")
    plain = sure(b"error: the tokenizer has no end\n" + SUMMARY.encode())
    assert (plain.kind, plain.evidence) == ("user code", "error: the tokenizer has no end")


def test_an_error_line_that_was_survived():
    """It is followed by more work, or by a real failure."""
    went_on = b"error: no cache, going on\n" + b"".join(b"step %d\n" % n for n in range(30))
    assert find(went_on) is None
    assert sure(b"error: no cache, going on\n" + OUT_OF_MEMORY.encode()).kind == "out of GPU memory"
    assert sure(went_on + SUMMARY.encode()).evidence == "step 29", "what was written last"


def test_a_process_that_ended_with_a_plain_line():
    """`sys.exit("…")`: torchrun's verdict stands, and the line before it shows why."""
    found = sure(b"step 0\nthe blend has no train split\n" + SUMMARY.encode())
    assert (found.kind, found.evidence) == ("torchrun", "the blend has no train split")
    for line in (
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED ***",
        "srun: error: n1: task 0: Exited with exit code 1",
    ):
        assert find(line.encode()) is None


def test_an_echo_is_better_than_nothing():
    found = sure(of_rank(1, WATCHDOG.replace("{rank}", "1")) + SUMMARY.encode())
    assert found.kind in ("communication", "crash")
    assert "health_check" in found.remedy or found.kind == "crash"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (
            "RuntimeError: DataLoader worker (pid 812) is killed by signal: Bus error. It is possible",
            "shared memory",
        ),
        ("RuntimeError: DataLoader worker (pid(s) 812) is killed by signal: Killed.", "out of memory"),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory",
            "out of memory",
        ),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-6)", "credentials"),
        ("OSError: You are trying to access a gated repo.", "credentials"),
        ("requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/x", "credentials"),
        (
            "wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
            "credentials",
        ),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "bad GPU"),
        ("RuntimeError: No CUDA GPUs are available", "no GPU"),
        ("RuntimeError: Version mismatch: The cluster was started with:", "Ray"),
        ("OSError: [Errno 122] Disk quota exceeded: '/lustre/u/ckpt'", "storage"),
        ("ImportError: /opt/venv/x.so: undefined symbol: _ZN3c10", "import error"),
        (
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
            "communication",
        ),
        ("RuntimeError: CUDA error: device-side assert triggered", "user code"),
        (
            "requests.exceptions.ConnectionError: Max retries: [Errno -3] Temporary failure in name resolution",
            "network",
        ),
    ],
)
def test_exceptions_by_their_words(line: str, kind: str):
    trace = f'Traceback (most recent call last):\n  File "/w/main.py", line 3, in <module>\n    go()\n{line}'
    found = sure(of_rank(0, trace))
    assert (found.kind, found.evidence) == (kind, line)


def test_a_ray_that_cannot_talk_with_another():
    """Ray 2.52.1 with a cluster of 2.60.0: what says it has an exception without words behind it."""
    begin = "Traceback (most recent call last):\n"
    first = f'{begin}  File "/ray/_private/utils.py", line 1111, in get\n    raise ConnectionError('
    second = f'{begin}  File "/w/job.py", line 10, in <module>\n    ray.init()'
    said = "ConnectionError: Could not read 'temp_dir' from GCS. Did GCS start successfully?"
    between = "During handling of the above exception, another exception occurred:"
    found = sure(of_rank(0, f"{first}\n{said}\n\n{between}\n\n{second}\nConnectionError"))
    assert (found.kind, "another Ray or Python than that" in found.what) == ("Ray", True)


@pytest.mark.parametrize(
    "log",
    [
        b"",
        b"\n\n",
        b"step 1 loss 2.5\nstep 2 loss 2.4\n",
        b"Traceback (most recent call last):\n",
        b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n',
        b"\xff\xfe\x00" * 1000,
        b"[rank0] " * 1000,
        b'  File "a.py", line 3\n' * 50_000,
        b"x" * (1 << 20),  # a minute's work for a pattern that tries every place of it anew
        b"a:b/" * (1 << 18),
    ],
)
def test_where_nothing_is_said_nothing_is_found(log: bytes):
    assert find(log) is None


def test_a_warning_is_only_a_hint(tmp_path: Path):
    warned = of_rank(0, "WARNING: /root/.config/matplotlib: Permission denied")
    assert sure(warned).kind == "permission"
    assert sure(of_rank(0, OUT_OF_MEMORY) + warned).kind == "out of GPU memory"


def test_words_of_the_table_can_be_filled_in():
    for pattern in PATTERNS:
        assert pattern.what.format("a", "b", "c", who="rank 0")
        assert pattern.remedy


def test_a_large_log_takes_no_time():
    """Most lines are done with after one look: this is less than a second, and a minute where it is not."""
    log = b"".join(b"[rank%d] step %d loss 2.5 error rate 0.1: file /data/x no\n" % (n % 8, n) for n in range(40_000))
    assert find(log + of_rank(2, OUT_OF_MEMORY)).rank == 2


def test_last_lines():
    log = b"[rank0] a\n[rank1] b\n\n[rank0] c\n[rank1] d  \n"
    assert last_lines(log) == ["b", "c", "d"]
    assert last_lines(log, 2, rank=0) == ["a", "c"]
    assert last_lines(log, 2, rank=9) == ["c", "d"]


def test_where_a_process_was(tmp_path: Path):
    # Both in one line: the time may be up before the second has begun.
    script = """
    import faulthandler, sys, queue
    def wait_for_batch():
        faulthandler.dump_traceback_later(0.2, exit=True); queue.Queue().get()
    wait_for_batch()
    """
    assert stack_of(of_rank(0, said_by(tmp_path, script))) == "main.py:4"
    spied = 'Thread 812 (idle): "MainThread"\n    wait (threading.py:359)\n    step (train/loop.py:12)\n'
    assert stack_of(of_rank(1, spied)) == "train/loop.py:12"
    assert stack_of(b"nothing\n") == ""

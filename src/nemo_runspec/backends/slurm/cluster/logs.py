"""New bytes of log files, of any number of them in one round trip, each byte once.

What a job of ours writes, seen with Slurm 22.05: `log-<name>_<id>_<attempt>.out`, of several tasks
`log-<name>_<id>_<attempt>_<task>.out` each (`jobside/step.py: separate`); a requeue begins others.
`sbatch_<name>_<id>.out` is the batch script's, to which a requeue appends; with `open_mode = "truncate"` it begins
anew. To ask again and again is fast enough, so that no stream of its own is needed: see `benchmarks/slurm.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nemo_runspec.backends.provider import LogChunk
from nemo_runspec.backends.slurm.cluster.answer import FIELD, SECTION, whole
from nemo_runspec.backends.slurm.shell import PRELUDE, program
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Host

LIMIT = 16 << 20
"""Bytes of one answer, unless the caller says otherwise."""

_TIMEOUT = 300.0
_END = f"{SECTION}end\n".encode()


def task_logs(job_dir: str, name: str, id: str) -> str:
    """The pattern of what a job's tasks write, all attempts. `name`: the job's in Slurm.

    Of one task of an array (`12_3`), `job_dir` is its own: srun's `%j` is an id that only Slurm knows.
    """
    number = id.partition(";")[0]
    return f"{job_dir}/log-{name}_{'*' if '_' in number else number}_*.out"


def batch_log(job_dir: str, name: str, id: str) -> str:
    """What a job's batch script writes."""
    return f"{job_dir}/sbatch_{name}_{id.partition(';')[0]}.out"


def read_chunks(
    host: Host, patterns: Iterable[str], offsets: Mapping[str, int] | None = None, *, limit: int = LIMIT
) -> list[LogChunk]:
    """What is new in the files that match, in the order of the patterns, then of their names. One round trip.

    A file that was emptied begins anew, unless it has grown beyond its offset again.

    Args:
        patterns: paths there, perhaps with `*`. A file that does not exist yet has nothing new.
        offsets: how far each path has been read; from the beginning where it is not named.
        limit: bytes in all; the first files get theirs first, the rest comes with the next call.

    Raises:
        Unreachable: the host does not answer; the same call again loses nothing.
        UserError: the answer is not complete.
    """
    lines = (*patterns, "", *(f"{offset}{FIELD}{path}" for path, offset in (offsets or {}).items()))
    data = "".join(f"{line}\n" for line in lines).encode()
    done = host.run(f"{PRELUDE}\nlimit={limit}\n{program('cluster/read_logs.sh')}", data=data, timeout=_TIMEOUT)
    return _chunks(host, done.out)


def _chunks(host: Host, out: bytes) -> list[LogChunk]:
    """A file that shrinks while it is read gives fewer bytes than announced: then the frame does not close."""
    at, found = max(out.find(SECTION.encode()), 0), []
    while not out.startswith(_END, at):
        begin = out.find(b"\n", at) + 1
        fields = out[at + 1 : begin - 1].decode("utf-8", "surrogateescape").split(FIELD)
        if not out.startswith(SECTION.encode(), at) or not begin or len(fields) != 4:
            raise _not_whole(host)
        size, start, length = (-1 if number is None else number for number in map(whole, fields[:3]))
        if min(size, start, length) < 0:
            raise _not_whole(host)
        at = begin + length
        found.append(LogChunk(fields[3], start, out[begin:at], more=start + length < size))
    return found


def _not_whole(host: Host) -> UserError:
    return UserError(f"the logs from {host.name} did not arrive whole", remedy="ask again")

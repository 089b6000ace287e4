"""What the login node has: the programs we use, Slurm and its controller, accounting, its clock."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_runspec.backends.slurm.cluster.answer import whole
from nemo_runspec.backends.slurm.preflight.asking import NEEDED, SLURM, Answer, Asked
from nemo_runspec.doctor.check import Check, Question, failed, ok, skipped, warning

_BASH = (4, 2)
"""The oldest bash that knows what our scripts use: associative arrays and `declare -g` of 4.2."""

_SKEW = 30.0
"""Seconds of difference between two clocks that are worth a word: times of jobs are compared with ours."""


def checks(_question: Question, _asked: Asked, answer: Answer) -> Iterator[Check]:
    """In the order in which they matter."""
    yield _tools(answer)
    yield _clock(answer)
    yield from _slurm(answer)


def has_slurm(answer: Answer) -> bool:
    """True where sbatch is there and its controller answers."""
    return bool(answer.path_of("sbatch")) and answer["partitions"].code == 0


def _tools(answer: Answer) -> Check:
    missing = [name for name in NEEDED if not answer.path_of(name)]
    user, node, _, version, *_ = (*answer.row("host"), *[""] * 5)
    if missing:
        return failed(
            "programs there", f"not on PATH there: {', '.join(missing)}", "have them installed on the login node"
        )
    if tuple(whole(part) or 0 for part in version.split(".")) < _BASH:
        return failed("programs there", f"bash {version} there is too old", "put bash 4.2 or later first in PATH there")
    seen = f"bash {version}, tar, gzip and others on {node} as {user}; rsync, git, python are not needed there"
    if not answer.path_of("flock"):
        return warning("programs there", f"{seen}; no flock", "have util-linux installed: two submissions may collide")
    return ok("programs there", seen)


def _clock(answer: Answer) -> Check:
    """Its clock was read at some time between question and answer: what is certain is the least difference."""
    first, last = (
        whole(row[number]) if len(row) > number else None
        for row, number in ((answer.row("host"), 4), (answer.row("end"), 0))
    )
    if first is None or last is None:
        return skipped("clock", "its time was not told")
    ahead, behind = last - answer.ended, answer.began - first - 1
    if max(ahead, behind) <= _SKEW:
        return ok("clock", "as here, within half a minute")
    word = "ahead of" if ahead > 0 else "behind"
    seen = f"{max(ahead, behind):.0f} s or more {word} this machine's"
    return warning("clock", seen, "have both set by NTP; until then, times and durations shown are off by as much")


def _slurm(answer: Answer) -> Iterator[Check]:
    missing = [name for name in SLURM if not answer.path_of(name)]
    if missing:
        yield no_slurm(missing, answer)
        yield skipped("controller", "not checked: Slurm's programs are not there")
        return
    yield ok("Slurm", f"{answer['version'].said or 'version unknown'} in {_folder(answer.path_of('sbatch'))}")
    yield _controller(answer)
    if has_slurm(answer):
        yield _accounting(answer)


def no_slurm(missing: list[str], answer: Answer) -> Check:
    """Slurm's programs are not there, or only for a login shell."""
    found = answer["login"].said
    seen = f"not on PATH of a shell that runs a command: {', '.join(missing)}"
    if answer["login"].code == 0 and found.startswith("/"):
        mend = (
            f"a login shell has it in {_folder(found)}: put the line that adds it to PATH into ~/.bashrc there, "
            "above any line that ends it for shells without a terminal"
        )
        return failed("Slurm", seen, mend)
    return failed("Slurm", seen, "is host the cluster's login node? sbatch must be in PATH there")


def _controller(answer: Answer) -> Check:
    said = answer["controller"].said
    if has_slurm(answer):
        return ok("controller", said.split(";")[0] if "UP" in said else "answers")
    said = said.split(";")[0] or answer["controller"].reason or answer["partitions"].reason
    said = said or "Slurm's programs do not answer in time"
    return failed(
        "controller", said, "wait until it is back, or ask the site; jobs can neither be submitted nor asked about"
    )


def _accounting(answer: Answer) -> Check:
    if answer["sacct"].code == 0:
        return ok("accounting", "sacct answers")
    said = answer["sacct"].reason or "no answer"
    return warning("accounting", f"sacct: {said}", "nothing to do: states come from squeue and exit markers then")


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "/"

"""Where jobs lie: remote_job_dir can be written and has room, and what is mounted is there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nemo_runspec.backends.machine import enough
from nemo_runspec.backends.slurm.cluster.answer import whole
from nemo_runspec.backends.slurm.preflight.asking import Answer, Asked
from nemo_runspec.doctor.check import Check, Question, failed, ok, skipped, warning

_ROOM = "make room there, or set remote_job_dir to a directory with room"
_LITTLE_INODES = 10_000
_OVER = re.compile(r"\d[\d.]*[kMGTP]?\*")
"""`quota` and `lfs quota` put a star behind what is over its limit (their manual pages)."""


def checks(question: Question, asked: Asked, answer: Answer) -> Iterator[Check]:
    """The directory, its room, its quota, the mounts."""
    if "place" not in answer:
        yield skipped("remote_job_dir", "not checked: the login node did not come to it")
        return
    yield _folder(answer)
    yield _room(answer)
    if "quota" in answer:
        yield _quota(answer)
    yield from _mounts(question, asked, answer)


def _folder(answer: Answer) -> Check:
    folder, nearest, kind = (*answer.row("place"), "", "", "")[:3]
    if answer["folder"].code:
        said = answer["folder"].reason or "it took too long"
        return failed(
            "remote_job_dir",
            f"{folder} cannot be written: {said}",
            "set remote_job_dir to a directory you may write to",
        )
    made = "is writable" if folder == nearest else f"can be made in {nearest}"
    return ok("remote_job_dir", f"{folder} {made}" + (f" ({kind})" if kind else ""))


def _room(answer: Answer) -> Check:
    nearest = (*answer.row("place"), "", "")[1]
    room, inodes = _df(answer, "room"), _df(answer, "inodes")
    if room is None:
        return skipped("room", f"df does not say: {answer['room'].reason or 'no answer'}")
    if inodes is not None and inodes[0] > 0 and inodes[1] < _LITTLE_INODES:
        return warning("room", f"only {inodes[1]:,} more files fit into the file system of {nearest}", _ROOM)
    return enough("room", room[1] * 1024, room[0] * 1024, nearest, _ROOM)


def _df(answer: Answer, name: str) -> tuple[int, int] | None:
    """All and available, out of `df -P`'s second line: name, all, used, available."""
    words = answer[name].lines[-1].split() if answer[name].code == 0 and answer[name].lines else []
    numbers = [number for number in map(whole, words[1:4]) if number is not None]
    return (numbers[0], numbers[2]) if len(numbers) == 3 else None


def _quota(answer: Answer) -> Check:
    section = answer["quota"]
    over = next((" ".join(line.split()) for line in section.lines if _OVER.search(line)), "")
    if over:
        return failed("quota", f"used up: {over}", "remove what you no longer need, or set remote_job_dir elsewhere")
    return ok("quota", "nothing is over its limit")


def _mounts(question: Question, asked: Asked, answer: Answer) -> Iterator[Check]:
    missing, odd = [], []
    for number, source in enumerate(asked.mounts):
        section = answer[f"mount;{number}"]
        if section.code == 2:
            odd.append(source)
        elif section.code:
            missing.append(source)
    if missing:
        yield _missing(missing, question)
    if odd:
        mend = "a variable in it is not set in a shell without a login: write the path out"
        yield warning("mounts", f"not known: {', '.join(odd)}", mend)
    if asked.mounts and not missing and not odd:
        count = len(asked.mounts)
        yield ok(
            "mounts",
            f"{'its source is' if count == 1 else f'all {count} sources are'} there: {', '.join(asked.mounts)}",
        )


def _missing(sources: list[str], question: Question) -> Check:
    """The login node may lack what compute nodes have, such as a disk of their own; a job there knows better."""
    if question.job:
        return skipped("mounts", f"not on the login node: {', '.join(sources)}; the nodes are asked below")
    mend = "create it, or correct mounts in the profile; if only compute nodes have it, --job looks there"
    return failed("mounts", f"not there: {', '.join(sources)}", mend)

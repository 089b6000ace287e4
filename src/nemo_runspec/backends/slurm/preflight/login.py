"""The login node: whether it is reached, its programs, Slurm, its clock, containers and the image, where jobs lie."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nemo_runspec.backends.machine import enough
from nemo_runspec.backends.registry_check import registry_check
from nemo_runspec.backends.slurm.cluster import Answer, whole
from nemo_runspec.backends.slurm.diagnose import NO_CONTAINER
from nemo_runspec.backends.slurm.preflight import NEEDED, SLURM, LoginRequest
from nemo_runspec.check import Check, CheckRequest, failed, of_error, ok, skipped, stopped_at, warning
from nemo_runspec.errors import Code, UserError
from nemo_runspec.transport.base import Host
from nemo_runspec.transport.registry import Image, ask

_STEPS = ("host", "host key", "login")
_FAILED: Mapping[Code, tuple[str, Mapping[str, str]]] = {
    Code.IDENTITY: ("identity", {}),
    Code.HOST_KEY: ("host key", {"host": "answers"}),
    Code.LOGIN: ("login", {"host": "answers", "host key": "known"}),
}
"""What kind of error it is, the step that failed, and what it proves of others. Any other error proves nothing."""


def reached(host: Host, *, ssh: bool) -> Iterator[Check]:
    """What is known once a command has run there."""
    if not ssh:
        yield ok("host", "this machine, as no tunnel is named")
        return
    yield ok("host", f"{host.name} answers")
    # It may be a connection that is open since before: known_hosts may say something else by now.
    yield ok("host key", "accepted when the connection was made")
    yield ok("login", "accepted")


def not_reached(error: UserError) -> Iterator[Check]:
    """What is known of the steps to a login node, one of which failed."""
    step, passed = _FAILED.get(error.code, ("host", {}))
    yield from stopped_at(of_error(step, error), _STEPS, passed)


_BASH = (4, 2)
"""The oldest bash that knows what our scripts use: associative arrays and `declare -g` of 4.2."""

_SKEW = 30.0
"""Seconds of difference between two clocks that are worth a word: times of jobs are compared with ours."""


def checks(_question: CheckRequest, _request: LoginRequest, answer: Answer) -> Iterator[Check]:
    """In the order in which they matter."""
    yield _tools(answer)
    yield _clock(answer)
    yield from _slurm(answer)


def has_slurm(answer: Answer) -> bool:
    """True where sbatch is there and its controller answers."""
    return bool(answer.path_of("sbatch")) and answer["partitions"].code == 0


def _tools(answer: Answer) -> Check:
    missing = [name for name in NEEDED if not answer.path_of(name)]
    user, node, version = (answer.cell("host", number) for number in (0, 1, 3))
    if missing:
        text = f"not on PATH there: {', '.join(missing)}"
        return failed("programs there", text, "have them installed on the login node")
    if tuple(whole(part) or 0 for part in version.split(".")) < _BASH:
        return failed("programs there", f"bash {version} there is too old", "put bash 4.2 or later first in PATH there")
    text = f"bash {version}, tar, gzip and others on {node} as {user}; rsync, git, python are not needed there"
    if not answer.path_of("flock"):
        return warning("programs there", f"{text}; no flock", "have util-linux installed: two submissions may collide")
    return ok("programs there", text)


def _clock(answer: Answer) -> Check:
    """Its clock was read at some time between question and answer: what is certain is the least difference."""
    first, last = whole(answer.cell("host", 4)), whole(answer.cell("end", 0))
    if first is None or last is None:
        return skipped("clock", "its time was not told")
    ahead, behind = last - answer.ended, answer.began - first - 1
    if max(ahead, behind) <= _SKEW:
        return ok("clock", "as here, within half a minute")
    word = "ahead of" if ahead > 0 else "behind"
    text = f"{max(ahead, behind):.0f} s or more {word} this machine's"
    return warning("clock", text, "have both set by NTP; until then, times and durations shown are off by as much")


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
    text = f"not on PATH of a shell that runs a command: {', '.join(missing)}"
    if answer["login"].code == 0 and found.startswith("/"):
        mend = (
            f"a login shell has it in {_folder(found)}: put the line that adds it to PATH into ~/.bashrc there, "
            "above any line that ends it for shells without a terminal"
        )
        return failed("Slurm", text, mend)
    return failed("Slurm", text, "is host the cluster's login node? sbatch must be in PATH there")


def _controller(answer: Answer) -> Check:
    message = answer["controller"].said
    if has_slurm(answer):
        return ok("controller", message.split(";")[0] if "UP" in message else "answers")
    message = message.split(";")[0] or answer["controller"].reason or answer["partitions"].reason
    message = message or "Slurm's programs do not answer in time"
    mend = "wait until it is back, or ask the site; jobs can neither be submitted nor asked about"
    return failed("controller", message, mend)


def _accounting(answer: Answer) -> Check:
    if answer["sacct"].code == 0:
        return ok("accounting", "sacct answers")
    message = answer["sacct"].reason or "no answer"
    return warning("accounting", f"sacct: {message}", "nothing to do: states come from squeue and exit markers then")


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "/"


_ROOM = "make room there, or set remote_job_dir to a directory with room"
_LITTLE_INODES = 10_000
_OVER = re.compile(r"\d[\d.]*[kMGTP]?\*")
"""`quota` and `lfs quota` put a star behind what is over its limit (their manual pages)."""


def place_checks(question: CheckRequest, request: LoginRequest, answer: Answer) -> Iterator[Check]:
    """The directory, its room, its quota, the mounts."""
    if "place" not in answer:
        yield skipped("remote_job_dir", "not checked: the login node did not come to it")
        return
    yield _job_folder(answer)
    yield _room(answer)
    if "quota" in answer:
        yield _quota(answer)
    yield from _mounts(question, request, answer)


def _job_folder(answer: Answer) -> Check:
    folder, nearest, kind = (answer.cell("place", number) for number in range(3))
    if answer["folder"].code:
        message = answer["folder"].reason or "it took too long"
        mend = "set remote_job_dir to a directory you may write to"
        return failed("remote_job_dir", f"{folder} cannot be written: {message}", mend)
    made = "is writable" if folder == nearest else f"can be made in {nearest}"
    return ok("remote_job_dir", f"{folder} {made}" + (f" ({kind})" if kind else ""))


def _room(answer: Answer) -> Check:
    nearest = answer.cell("place", 1)
    room, inodes = _df(answer, "room"), _df(answer, "inodes")
    if room is None:
        return skipped("room", f"df does not say: {answer['room'].reason or 'no answer'}")
    if inodes is not None and inodes[0] > 0 and inodes[1] < _LITTLE_INODES:
        return warning("room", f"only {inodes[1]:,} more files fit into the file system of {nearest}", _ROOM)
    return enough("room", room[1] * 1024, room[0] * 1024, nearest, _ROOM)


def _df(answer: Answer, name: str) -> tuple[int, int] | None:
    """All and available, out of `df -P`'s second line: name, all, used, available."""
    columns = answer[name].lines[-1].split() if answer[name].code == 0 and answer[name].lines else []
    numbers = [number for number in map(whole, columns[1:4]) if number is not None]
    return (numbers[0], numbers[2]) if len(numbers) == 3 else None


def _quota(answer: Answer) -> Check:
    section = answer["quota"]
    over = next((" ".join(line.split()) for line in section.lines if _OVER.search(line)), "")
    if over:
        return failed("quota", f"used up: {over}", "remove what you no longer need, or set remote_job_dir elsewhere")
    return ok("quota", "nothing is over its limit")


def _mounts(question: CheckRequest, request: LoginRequest, answer: Answer) -> Iterator[Check]:
    codes = {source: answer[f"mount;{number}"].code for number, source in enumerate(request.mounts)}
    missing = [source for source, code in codes.items() if code not in (0, 2)]
    odd = [source for source, code in codes.items() if code == 2]
    if missing:
        yield _missing(missing, question)
    if odd:
        mend = "a variable in it is not set in a shell without a login: write the path out"
        yield warning("mounts", f"not known: {', '.join(odd)}", mend)
    if request.mounts and not missing and not odd:
        whose = "its source is" if len(request.mounts) == 1 else f"all {len(request.mounts)} sources are"
        yield ok("mounts", f"{whose} there: {', '.join(request.mounts)}")


def _missing(sources: list[str], question: CheckRequest) -> Check:
    """The login node may lack what compute nodes have, such as a disk of their own; a job there knows better."""
    if question.job:
        return skipped("mounts", f"not on the login node: {', '.join(sources)}; the nodes are asked below")
    mend = "create it, or correct mounts in the profile; if only compute nodes have it, --job looks there"
    return failed("mounts", f"not there: {', '.join(sources)}", mend)


_PRIVATE = (
    "if the image is private, put its credentials into ~/.config/enroot/.credentials on the cluster; else nothing to do"
)


_UNREACHED = "nodes without internet need a .sqsh file: nemotron kit slurm squash; else check the registry's name"


UNKNOWN_PYXIS = "whether the cluster has Pyxis is not known: srun --help did not answer as it does"


def image_checks(_question: CheckRequest, request: LoginRequest, answer: Answer) -> Iterator[Check]:
    """Pyxis and enroot, then the image itself."""
    yield _pyxis(request, answer)
    if request.image is not None:
        yield _image(request.image, answer)


def _pyxis(request: LoginRequest, answer: Answer) -> Check:
    if "pyxis" not in answer:
        return skipped("containers", "not checked: Slurm's programs are not there")
    enroot = "enroot here too" if answer.path_of("enroot") else "enroot not on the login node, where it is not needed"
    if answer["pyxis"].code == 0:
        return ok("containers", f"srun has Pyxis' --container-image; {enroot}")
    if answer["pyxis"].code != 1:
        return warning("containers", UNKNOWN_PYXIS)
    if request.image is None:
        seen = "srun has no --container-image (Pyxis); the profile names no image, but a recipe may"
        return skipped("containers", seen, NO_CONTAINER)
    text = "container_image is set, but srun has no --container-image: Pyxis is not installed"
    return failed("containers", text, NO_CONTAINER)


def _image(image: Image, answer: Answer) -> Check:
    if image.path:
        return _image_file(image, answer)
    if not image.url:
        mend = "write [REGISTRY#]IMAGE[:TAG], or the path of a .sqsh file"
        return warning("image", f"{image.text} is not understood", mend)
    from_there = "image" in answer
    status = answer["image"].said or answer["image"].reason if from_there else ask(image).status
    where = "the login node" if from_there else "here (the login node has no curl)"
    return registry_check(
        image, status, where=where, note=f"; asked from {where}", private=_PRIVATE, unreached=_UNREACHED
    )


def _image_file(image: Image, answer: Answer) -> Check:
    section = answer["image"]
    if section.code == 2:
        return failed("image", f"{image.path} names a variable that is not set there", "write the path out")
    if section.code:
        mend = "correct container_image; nemotron kit slurm squash makes such a file of an image"
        return failed("image", f"{section.reason or image.path} (seen from the login node)", mend)
    size = (whole(section.rows[0][0]) if section.rows else None) or 0
    return ok("image", f"{image.path} is there, {size / 1e9:.1f} GB")

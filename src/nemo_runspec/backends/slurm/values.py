"""Meanings of a Slurm profile's values: places, spellings, sizes, time limits, signals.

Slurm sends a job's `signal` to its steps, or after `B:` to the batch shell alone. Here it is always the batch shell,
which has it handed to the command (see `render.py`): a step's signal would reach every process in it, torchrun too,
which ends its ranks at TERM after 30 s and itself dies of USR1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from nemo_runspec import paths
from nemo_runspec.backends.checks import JOB_DIR, shortened_value
from nemo_runspec.duration import hours
from nemo_runspec.errors import UserError
from nemo_runspec.placeholders import TextPlaceholder, fill

if TYPE_CHECKING:
    from nemo_runspec.backends.slurm.fields import SlurmTarget
    from nemo_runspec.plans.model import Resources

T = TypeVar("T")

HOME = TextPlaceholder("@HOME@")
"""The home directory on the other side of an SSH tunnel.

Its name has no character that a shell or Slurm reads specially, so that filling it changes nothing else in a text.
"""

HOST = TextPlaceholder("@HOST@", "the login node, which the profile does not name yet")

PATH = re.compile(r"[A-Za-z0-9_@+=./-]+")
"""What a directory's name may hold: Slurm reads it where no shell fills in a variable."""

HOST_REMEDY = 'host = "login.cluster.example.com"'


def run_dir(env: Mapping[str, Any]) -> str:
    """`remote_job_dir` as the cluster names it: absolute, or below `HOME` where only the cluster knows it."""
    there = directory_of(env, "remote_job_dir")
    return there or (f"{HOME}/.nemotron/run" if env.get("tunnel") == "ssh" else str(paths.run_dir()))


def directory_of(env: Mapping[str, Any], key: str) -> str:
    """The directory that a key names, as the cluster names it, perhaps below `HOME`; '' where the key is not set."""
    named = str(env.get(key) or "").rstrip("/")
    if env.get("tunnel") == "ssh":
        named = str(PurePosixPath(named)) if named else ""  # without `/.`, as NeMo-Run writes it
        return re.sub(r"^~(/+|$)", lambda match: f"{HOME}{match[1][:1]}", named)
    return str(paths.expand_user(named, key)) if named else ""


def fill_home(value: T, home: str) -> T:
    """The same value, such as a plan, with the home directory of the login node in all its texts."""
    filled: T = fill(value, {HOME: home.rstrip("/")})
    return filled


_VARIABLE = r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})"
_PLAIN = re.compile(rf"(?!#)(?:[A-Za-z0-9_@%+=:,./#-]|{_VARIABLE})+", re.ASCII)
_SPECIAL = re.compile(rf'["`\\]|(?!{_VARIABLE})\$', re.ASCII)


def exclusive(value: Any) -> bool | str | None:
    """NeMo-Run writes `--exclusive=False`, which Slurm refuses; only None leaves the option out."""
    if isinstance(value, str) and value.lower() in ("true", "false", ""):
        return True if value.lower() == "true" else None
    return value or None


def snake(option: str) -> str:
    """An sbatch option as NeMo-Run names it: `--mail-user` as `mail_user`."""
    return option.lstrip("-").replace("-", "_")


def job_id(text: str) -> str:
    """A Slurm job id, out of a NeMo-Run handle (`slurm_tunnel://nemo_run/1234/…`) where it is one."""
    return text.partition("://")[2].split("/")[1] if re.match(r"\w+://[^/]*/.", text) else text


def shell_word(text: str) -> str:
    """Text as one word of the batch script, where the cluster's shell fills in `$NAME`, `${NAME}` and `~/`.

    NeMo-Run 0.11.1 puts image and mounts on the `srun` line as they are.
    """
    if text.startswith("~/"):
        text = "$HOME" + text[1:]
    if _PLAIN.fullmatch(text):
        return text
    lead = JOB_DIR if text.startswith(JOB_DIR) else ""
    return lead + '"' + _SPECIAL.sub(r"\\\g<0>", text[len(lead) :]) + '"'


# `gpu`, `gpu:2`, `gpu:h100`, `gpu:h100:2`, `gpu=2`: sbatch's manual page, --gres.
_GRES = re.compile(r"(?:gres[:/])?gpu(?::(?P<type>[\w.-]*[A-Za-z][\w.-]*))?(?:[:=](?P<count>\d{1,9}))?", re.ASCII)

_TASKS = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", re.ASCII)
_MOST = 4_000_000
"""The largest number that Slurm gives a task, however it is set up (MaxArraySize, slurm.conf's manual page)."""


def gpus_of_job(target: SlurmTarget, resources: Resources) -> int | None:
    """GPUs over all nodes; None where one of the options is not understood, or nothing says what whole nodes have.

    `gpus_per_node`, else `gpus_per_task`, else `gres`; the larger number, where `additional_parameters` asks too.
    """
    extra = target.additional_parameters.items()
    counts = [_by_keys(target, resources), *(_by_option(*pair) for pair in extra if _asks_for_gpus(*pair))]
    known = [count for count in counts if count is not None]
    return max(known) if len(known) == len(counts) else None


def _by_keys(target: SlurmTarget, resources: Resources) -> int | None:
    if resources.gpus_per_node:
        return resources.nodes * resources.gpus_per_node
    if target.gpus_per_task:
        return resources.nodes * resources.nproc_per_node * target.gpus_per_task
    count = gpus_in(target.gres or "")
    return None if count is None or (target.gpus_untold and not count) else resources.nodes * count


def gpus_in(gres: str) -> int | None:
    """GPUs among generic resources: 6 in `gpu:a100:4(S:0-1),gpu:v100:2`; None where one of them is not understood."""
    items = [item.strip() for item in re.sub(r"\([^)]*\)", "", gres).split(",")]
    found = [_GRES.fullmatch(item) for item in items if item.startswith(("gpu", "gres"))]
    return sum(int(match["count"] or 1) for match in found if match) if all(found) else None


def array_size(array: str | None) -> int:
    """Tasks of `--array`: `0-99`, `1,3,5`, `0-15:4`, with or without `%N`; 1 without an array."""
    total = 0
    for part in (array or "").split("%")[0].split(","):
        if match := _TASKS.fullmatch(part):
            first, last, step = (int(text or 0) for text in match.groups())
            total += max(0, (last if match[2] else first) - first) // max(1, step) + 1
    return max(1, total)


def array_problem(array: str | None) -> list[UserError]:
    """What is wrong with an `array`, if anything."""
    if not array:
        return []
    tasks, sign, parallel = array.partition("%")
    matches = [_TASKS.fullmatch(part) for part in tasks.split(",")]
    whole = all(match and _MOST >= int(match[2] or match[1]) >= int(match[1]) for match in matches)
    if whole and (not sign or re.fullmatch(r"[0-9]{1,7}", parallel)):
        return []
    remedy = f"such as 0-7, 0-15:4 or 1,3,5%2, its numbers up to {_MOST:,}"
    return [UserError(f"array is not one that Slurm takes: {shortened_value(array)}", remedy=remedy, key="array")]


def _asks_for_gpus(option: str, value: Any) -> bool:
    """`gpus`, `gpus_per_socket`, and `tres_per_task` where it names them; `gpu_bind` and `gpu_freq` ask for none."""
    return option.startswith("gpus") or (option.startswith("tres") and "gpu" in str(value))


def _by_option(option: str, value: Any) -> int | None:
    """GPUs of the whole job in `--gpus=[type:]count,…`; None for every other option."""
    if option != "gpus" or isinstance(value, bool):
        return None
    counts = [part.rpartition(":")[2] for part in str(value).split(",")]
    return sum(map(int, counts)) if all(re.fullmatch(r"[0-9]{1,9}", count) for count in counts) else None


_PLACEHOLDER = re.compile(r"CHANGE|YOUR|^<.*>$")


def is_placeholder(time: str) -> bool:
    """True for a text that stands where a time limit is still to be written, such as CHANGE_ME."""
    return _PLACEHOLDER.search(time.strip()) is not None


def time_problem(key: str, time: str) -> list[UserError]:
    """What is wrong with a time limit, if anything. The forms are those of sbatch's manual page."""
    try:
        hours(time)
    except ValueError:
        remedy = "write M, M:S, H:M:S, D-H, D-H:M or D-H:M:S, such as 04:00:00 or 2-12"
        return [UserError(f"{key} is not a time limit Slurm takes: {shortened_value(time)}", remedy=remedy, key=key)]
    return []


_SIGNALS = {1: "HUP", 2: "INT", 10: "USR1", 12: "USR2", 15: "TERM"}
"""Linux' numbers. Others are not for checkpoints: nothing can wait for KILL, and QUIT makes a core file."""

_FORM = re.compile(
    r"(?:(?P<flags>[BR]{1,2}):)?(?:SIG)?(?P<name>[A-Z0-9]+)(?:@(?P<lead>[0-9]{1,5}))?", re.IGNORECASE | re.ASCII
)
_NUMBER = re.compile(r"[0-9]{1,3}")
_DEFAULT_LEAD = 60
"""Slurm's own, as sbatch's manual page has it."""

_RESUME_LEAD = 120
_EARLY = 60
"""How much earlier than asked for Slurm may send it, as sbatch's manual page has it."""


def signal_option(signal: str | None, time: str, *, resume: bool) -> str | None:
    """sbatch's `--signal`; with `resume` there always is one: TERM, two minutes before the end or earlier.

    Args:
        time: the job's limit.
    """
    match = _FORM.fullmatch(signal or "")
    if match is not None:
        flags = "RB" if "R" in (match["flags"] or "").upper() else "B"
        return f"{flags}:{_name(match['name'])}" + (f"@{int(match['lead'])}" if match["lead"] else "")
    limit = _seconds(time)
    return f"B:TERM@{min(_RESUME_LEAD, int(limit / 3)) if limit else _RESUME_LEAD}" if resume else signal


def signal_problem(signal: str | None) -> list[UserError]:
    """What is wrong with a profile's signal, if anything."""
    match = _FORM.fullmatch(signal or "")
    if not signal or (match is not None and _name(match["name"]) in _SIGNALS.values()):
        return []
    remedy = f"NAME or NAME@SECONDS; NAME one of {', '.join(sorted(_SIGNALS.values()))}"
    return [UserError(f"signal = {shortened_value(signal)} is no signal to send", remedy=remedy, key="signal")]


def comes_at_once(signal: str | None, time: str) -> bool:
    """True where the time limit leaves nothing before the signal."""
    return 0 < _seconds(time) <= lead_of(signal)


def leaves_little(signal: str | None, time: str) -> bool:
    """True where an attempt with `resume` may have less than half a minute before its signal, as Slurm sends it.

    Args:
        signal: as sbatch gets it.
    """
    return 0 < _seconds(time) < lead_of(signal) + _EARLY + 30


def name_of(signal: str | None) -> str:
    """The signal's name without SIG; '' for none."""
    match = _FORM.fullmatch(signal or "")
    return _name(match["name"]) if match else ""


def lead_of(signal: str | None) -> int:
    """How many seconds before the end it comes; Slurm may send it up to 60 s earlier. 0 for none."""
    match = _FORM.fullmatch(signal or "")
    return 0 if match is None else int(match["lead"] or _DEFAULT_LEAD)


def _name(word: str) -> str:
    return _SIGNALS.get(int(word), word) if _NUMBER.fullmatch(word) else word.upper()


def _seconds(time: str) -> float:
    """A time limit in seconds; 0 for none, and for what is no limit."""
    try:
        return 0.0 if is_placeholder(time) else (hours(time) or 0.0) * 3600
    except ValueError:
        return 0.0

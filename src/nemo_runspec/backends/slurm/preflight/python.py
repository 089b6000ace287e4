"""Whether a job without a container finds `python`, which every recipe's command begins with."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nemo_runspec.backends.slurm.preflight.asking import Answer, Asked
from nemo_runspec.doctor.check import Check, Question, ok, skipped, warning

SECONDS = 30
"""What a profile's commands may take on a node until python is looked for."""

LATE = "late"
"""What a node says in place of python's path where they took longer."""

_MEND = 'startup_commands = ["export PATH=/where/it/is/bin:$PATH"] in the profile, or a container_image'


def hint(question: Question, asked: Asked, answer: Answer) -> Iterator[Check]:
    """What the login node's own `PATH` lets one expect: often it is the compute nodes' too."""
    found = answer.path_of("python")
    if asked.image is not None:
        return
    if commands(question):
        how = f"nemotron doctor {question.profile} --job"
        yield skipped("python", "the profile's own commands may bring it; only a job can tell", how)
    elif found:
        yield ok("python", f"{found} on the login node's PATH; jobs need one on compute nodes")
    else:
        yield warning("python", "no python on the login node's PATH; jobs need one on compute nodes", _MEND)


def on_nodes(question: Question, rows: list[list[str]]) -> Check:
    """What the nodes found, after the profile's commands. A recipe may still bring a container of its own.

    Args:
        rows: each node's name first, and last python's path, `LATE`, or '' for none.
    """
    late = sorted(row[0] for row in rows if row[-1] == LATE)
    without = sorted(row[0] for row in rows if not row[-1])
    after = " after startup_commands" if commands(question) else ""
    if without:
        seen = f"none on {', '.join(without)}{after}: without a container, a job ends there with exit code 127"
        return warning("python", seen, _MEND)
    if late:
        seen = f"not known: startup_commands took more than {SECONDS} s on {', '.join(late)}"
        return warning("python", seen, "see that they install nothing anew for each job")
    return ok("python", f"{', '.join(dict.fromkeys(row[-1] for row in rows))}{after}")


def commands(question: Question) -> tuple[str, ...]:
    """What may change `PATH` before a job's command, in the order in which a job has it."""
    env = question.env
    path = (env.get("env_vars") or {}).get("PATH")
    own = (env.get("setup_lines"), f"export PATH={shlex.quote(str(path))}" if path else "")
    return tuple(str(line) for line in (*own, *(env.get("startup_commands") or ())) if line)

"""`batch.sh`: what the batch shell does around the one `srun` of a job; it lies beside the batch script.

The batch script is NeMo-Run's text to the byte. The only room in it that is ours is `setup_lines`, whose first line
sources `batch.sh`, before the profile's own lines. It runs on the job's first node, outside any container, and from
then on:

* `srun` is a function: for the job's own step (the line that ends with the job script) it starts the real srun beside
  the shell and waits for it, so that signals are heard meanwhile. Every other srun is the real one.
* Signals that Slurm sends to the batch shell (`signal`, always made `B:`; `scancel --batch --signal`) are written to
  `status/gates-<id>-<restarts>/told.N`; the job script on every node hands them to the command alone, once.
* When the step is over, or Slurm ends the job, the attempt's fate is decided, once: `over`, `retried`, `continued`,
  `requeued` (a part of ours asked for it) or `slurm` (Slurm starts it again itself); one line in `status/attempts`.
  Where it is over the secrets' file is removed, else `scontrol requeue` is called. NeMo-Run's own requeue is off.

A part such as the health check is bash text behind `batch.sh`'s own. It defines functions `nemotron_…`, and names them:

* `nemotron_before+=(FUNCTION)` runs it before the step, with all words of its srun as arguments (the last two are
  `bash` and the job script); with another status than 0 the step is not started, and that is the job's status.
* `nemotron_beside+=(FUNCTION)` runs it in a subshell beside the step, the srun's process id as its argument; it is
  killed once the step is over.
* `nemotron_verdict requeue|stop REASON`, from either: the job's outcome once its step is over.
* `nemotron_tell NAME`: sends the command a signal, such as TERM, on every node.
"""

from __future__ import annotations

from nemo_runspec.artifacts.store import versions_of
from nemo_runspec.backends.base import RenderedFile
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.health import health_files, health_part
from nemo_runspec.backends.slurm.shell import program
from nemo_runspec.backends.slurm.signals import lead_of, name_of
from nemo_runspec.backends.slurm.spellings import shell_word
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.quoting import assignments
from nemo_runspec.script.render import shared_functions

NAME = "batch.sh"

VERSIONS = "versions.sh"
"""Of tasks of an array that are jobs of their own, each has one in its directory."""


def batch_files(plan: Plan) -> tuple[RenderedFile, ...]:
    """`batch.sh`, and what its parts need beside it."""
    return (RenderedFile("batch functions", NAME, _text(plan)), *version_files(plan), *health_files(plan))


def version_files(plan: Plan) -> tuple[RenderedFile, ...]:
    """What `batch.sh` registers in the end: the versions, as its shell sees them; no file where there are none."""
    paths = [shell_word(path) for path in version_paths(plan)]
    return (RenderedFile("versions", VERSIONS, f"nemotron_versions=({' '.join(paths)})\n"),) if paths else ()


def version_paths(plan: Plan) -> list[str]:
    """The versions of artifacts that a job makes, as the login node sees them."""
    storage = target_of(plan, SlurmTarget).storage(plan.job_dir)
    return [found for path in versions_of(plan) if (found := storage.source_of(path))]


def setup_lines(plan: Plan) -> str:
    """The batch script's `setup_lines`: `batch.sh` first, untraced, then the profile's own."""
    target = target_of(plan, SlurmTarget)
    source = f"{{ set +vx; . {plan.job_dir}/{NAME}; set -vx; }} 2> /dev/null"
    return "\n".join((source, *filter(None, (target.setup_lines,))))


def _text(plan: Plan) -> str:
    parts = (
        _settings(plan),
        shared_functions(),
        program(NAME).strip(),
        health_part(plan).strip(),
        "nemotron_batch_begin",
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def _settings(plan: Plan) -> str:
    target = target_of(plan, SlurmTarget)
    values = {
        "job": plan.job_dir,
        "script": f"scripts/{plan.name}.sh",
        "retries": str(target.retries),
        "resume": "1" if target.resume else "",
        "max_restarts": str(target.max_restarts),
        "signal": name_of(target.signal),
        "lead": str(lead_of(target.signal)),
    }
    return f"# Sourced by the batch script.\n{assignments(values, 'nemotron_')}"

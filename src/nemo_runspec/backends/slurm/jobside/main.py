"""Entry points of `slurm.py`: the batch script, or the step in which the job runs.

The step is the process that stands where the batch script's srun stands: the health check, then srun itself. It is
started by the batch script's shell, and so has what `setup_lines` have set: variables, limits, the folder.
"""

import os

from nemo_runspec.backends.slurm.jobside.batch import note
from nemo_runspec.backends.slurm.jobside.job import BatchJob, Line, own_words
from nemo_runspec.jobside import processes, signals

MYPY = False
if MYPY:
    from typing import List, Sequence


def run_step(job: "BatchJob", words: "List[str]", versions: "Sequence[str]") -> int:
    """Runs the job's own step; its exit code.

    Args:
        words: of srun.
        versions: what the job makes of artifacts.
    """
    line = Line()
    if job.members:
        words = own_words(job, words)
        note("task %s of its array, in %s" % (job.task, job.root))
    answer = line.ask(at="begin", environment=dict(os.environ), versions=list(versions))
    code = 0
    if job.health_seconds and not answer.get("settled"):
        from nemo_runspec.backends.slurm.jobside.health import check

        found = check(job, words, bool(answer.get("cancelled")))
        answer = line.ask(at="checked", verdict=found.verdict, without=found.without)
        code = 0 if found.is_well else 1
    if answer.get("settled"):  # Slurm has ended what stood before the step: nothing is begun any more
        code = signals.exit_code(signals.TERM)
    if code == 0:
        code = _srun(separate(job, words))
    line.ask(at="over")
    return code


def separate(job: "BatchJob", words: "Sequence[str]") -> "List[str]":
    """Has each of several tasks write a log of its own (`_TASK` before `.out`).

    Into one file of all, srun puts what comes from several nodes in pieces of 1024 bytes, in the midst of lines.
    """
    if all(os.environ.get(name, "1") == "1" for name in ("SLURM_NTASKS", "SLURM_NNODES")):
        return list(words)
    return [
        word[: -len(".out")] + "_%t.out" if word.startswith(job.root + "/log-") and word.endswith(".out") else word
        for word in words
    ]


def _srun(words: "Sequence[str]") -> int:
    """TERM is not srun's: it would send it to the step, which Slurm sends it too."""
    try:
        child = processes.start(["srun", *words], dict(os.environ), ignored=(signals.TERM,), alone=False)
    except OSError as error:
        note("srun cannot be started: %s" % error.strerror)
        return 127
    while not child.has_ended():
        signals.wait(60.0)
    return child.exit_code


def main(words: "List[str]") -> int:
    """`ROLE VALUES ROOT [KEY=VALUE...] -- WORD...`, as slurm.sh calls it; the exit code.

    Args:
        words: the role, `batch` or `step`; see `BatchJob` for the next two; of `batch`, `early`: signals that came
            before; of `step`, `version`: any number of times, what the job makes of an artifact; then the words of the
            shell that runs the batch script, or of srun.
    """
    role, values, root = words[:3]
    job = BatchJob(values, root)
    end = words.index("--")
    pairs = [word.partition("=") for word in words[3:end]]
    if role == "step":
        return run_step(job, words[end + 1 :], [value for key, _, value in pairs if key == "version"])
    from nemo_runspec.backends.slurm.jobside.batch import BatchSupervisor

    early = [name for key, _, value in pairs if key == "early" for name in value.split()]
    return BatchSupervisor(job, early).run(words[end + 1 :])

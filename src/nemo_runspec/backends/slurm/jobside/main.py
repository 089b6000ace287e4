"""What `slurm.py` is started for: the batch script, or the step in which the job runs."""

from nemo_runspec.backends.slurm.jobside.job import BatchJob

MYPY = False
if MYPY:
    from typing import List


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
        from nemo_runspec.backends.slurm.jobside.step import run_step

        return run_step(job, words[end + 1 :], [value for key, _, value in pairs if key == "version"])
    from nemo_runspec.backends.slurm.jobside.batch import BatchSupervisor

    early = [name for key, _, value in pairs if key == "early" for name in value.split()]
    return BatchSupervisor(job, early).run(words[end + 1 :])

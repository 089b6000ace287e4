"""Who decides a job's state and exit code: one table, step by step. What wins in each: docs/architecture.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """One step, which reads those before it.

    Args:
        step: as the page has it.
        who: the functions that decide it, `module:function` below nemo_runspec: the first alone, others where it can
            say nothing any more. Empty where there is nothing to decide.
    """

    step: str
    who: tuple[str, ...]


WHO_DECIDES = (
    Decision("rank", ("jobside.rank:supervise",)),
    Decision("node", ("jobside.finish:judge",)),
    Decision("pod", ("jobside.pod.main:run_pod",)),
    Decision("nodes", ("script.markers:deciding_marker",)),
    Decision("nodes of a success", ("script.markers:marked_end",)),
    Decision("attempt: local, Docker", ()),
    Decision("attempt: Slurm", ("backends.slurm.jobside.attempt_end:decide",)),
    Decision("attempt: clouds", ("remote.resubmit:submit_again",)),
    Decision("job: local", ("supervise.outcome:outcome_of", "records.refresh:seen_now")),
    Decision("job: Docker", ("supervise.outcome:outcome_of", "records.refresh:seen_now")),
    Decision("job: Slurm", ("backends.slurm.cluster.status:query_jobs",)),
    Decision("job: Lepton, run:ai", ("backends.cloud.ending:conclude",)),
    Decision("deadline", ("remote.deadlines:as_timed_out",)),
    Decision("absence", ("records.absence:judged",)),
    Decision("record", ("records.store:JobStore.finish",)),
    Decision("nemotron", ("remote.wait:exit_code_of",)),
)

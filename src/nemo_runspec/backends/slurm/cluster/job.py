"""One job as a cluster knows it."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_runspec.script.markers import NodeMarker


@dataclass(frozen=True, slots=True)
class Asked:
    """Which job is asked about.

    Args:
        id: Slurm's, as sbatch printed it: `12`, `12_3` for a task of an array, `12;cluster` in a federation.
        job_dir: where its exit markers are; '' for a job without any.
        nodes: how many of them are due.
        slurm: the name of the Slurm it was submitted to, '' where that is not known.
        name: its name there, '' where that is not known. Only a job of that name is ever stopped.
    """

    id: str
    job_dir: str = ""
    nodes: int = 1
    slurm: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """What a cluster says of a job.

    Args:
        id: as asked.
        state: one of `jobs.record.STATES`. `reason`: why, in words.
        slurm_state, slurm_reason: Slurm's own words, '' where it does not know the job any more.
        nodes: Slurm's node list, such as `n[1-4]`. `elapsed`: seconds of this attempt.
        exit_code: the job's, None until it is over or where nobody knows. `signal`: that ended it.
        error: of Slurm's own (slurm_errno.h), where it could not start the job.
        restarts: how often it was started again before. `task`: its number in an array.
        estimated: when a pending job is expected to start; `started`, `ended`: seconds since 1970.
        position: its place among its partition's waiting jobs, from 1, where that was asked.
        by: who has stopped it, where that is known.
        markers: what its nodes left. `tasks`: those of an array, by number.
    """

    id: str
    state: str
    reason: str = ""
    slurm_state: str = ""
    slurm_reason: str = ""
    nodes: str = ""
    elapsed: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: int | None = None
    restarts: int = 0
    task: int | None = None
    partition: str = ""
    estimated: float | None = None
    started: float | None = None
    ended: float | None = None
    position: int | None = None
    by: str = ""
    markers: tuple[NodeMarker, ...] = ()
    tasks: tuple[ClusterJob, ...] = ()

"""How a task of Slurm's finds out which one it is."""

from __future__ import annotations

from nemo_runspec.script.node_identity import NodeIdentity

# srun sets these for every task (man srun, OUTPUT ENVIRONMENT VARIABLES).
SRUN_TASK = NodeIdentity(
    node="${SLURM_NODEID:-0}",
    nodes="${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}",
    task="${SLURM_PROCID:-0}",
    tasks="${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}",
    local="${SLURM_LOCALID:-0}",
    attempt="${SLURM_JOB_ID:-0}-${SLURM_RESTART_COUNT:-0}",
    restarts="${SLURM_RESTART_COUNT:-0}",
    log="log-*_${SLURM_JOB_ID:-0}_${SLURM_RESTART_COUNT:-0}*.out",  # as srun writes it (jobside/step.py)
    # NeMo-Run's srun has --kill-on-bad-exit=1, which is right where a task dies without a word.
    requeues=True,
    signals_all=True,
    ends_all=True,
)

"""The shell by which a pod finds out which of a job's pods it is: variables that the supervisor around it has set."""

from __future__ import annotations

from nemo_runspec.script.node_identity import NodeIdentity

POD = NodeIdentity(
    node="${NEMOTRON_POD_INDEX:-0}",
    nodes="${NEMOTRON_POD_COUNT:-1}",
    attempt="${NEMOTRON_POD_LIFE:-${NEMOTRON_POD_ATTEMPT:-0}}",
    restarts="${NEMOTRON_POD_ATTEMPT:-0}",
    master="${NEMOTRON_POD_MASTER:-}",
    port="${NEMOTRON_POD_PORT:-}",
    log="logs/node-*.log",
    secrets_file=False,
    pods=True,
)

"""Local: processes on this machine, in an environment made from what the recipe declares."""

from __future__ import annotations

from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.local.fields import FIELDS

BACKEND = Backend(
    name="local",
    remote=False,
    fields=FIELDS,
    target="nemo_runspec.backends.local.fields:make_target",
    target_type="nemo_runspec.backends.local.fields:LocalTarget",
    render="nemo_runspec.backends.local.render:render",
    executor="nemo_runspec.backends.local.executor:make_executor",
    preflight="nemo_runspec.backends.local.preflight:checks",
    setup="nemo_runspec.backends.local.setup:SETUP",
    worker="nemo_runspec.backends.local.worker:LocalWorker",
    node_identity="nemo_runspec.script.node_identity:PROCESS",
    mounts=False,
    run_dir_key="job_dir",
)

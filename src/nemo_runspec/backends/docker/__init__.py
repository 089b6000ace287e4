"""Docker: one container on this machine."""

from __future__ import annotations

from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.docker.fields import FIELDS

BACKEND = Backend(
    name="docker",
    remote=False,
    in_container=True,
    fields=FIELDS,
    target="nemo_runspec.backends.docker.fields:make_target",
    target_type="nemo_runspec.backends.docker.fields:DockerTarget",
    render="nemo_runspec.backends.docker.render:render",
    executor="nemo_runspec.backends.docker.executor:make_executor",
    preflight="nemo_runspec.backends.docker.preflight:checks",
    setup="nemo_runspec.backends.docker.setup:SETUP",
    inputs="nemo_runspec.backends.docker.inputs:present",
    worker="nemo_runspec.backends.docker.worker:DockerWorker",
    node_identity="nemo_runspec.script.node_identity:CONTAINER",
    ships_repository=True,
)

"""DGX Cloud: workloads of the run:ai REST API. Everything nemotron knows about run:ai is here."""

from __future__ import annotations

from nemo_runspec.backends import LISTED
from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.dgxcloud.fields import FIELDS

BACKEND = Backend(
    name="dgxcloud",
    remote=True,
    other_names=("dgx", "runai"),
    fields=FIELDS,
    target="nemo_runspec.backends.dgxcloud.fields:make_target",
    target_type="nemo_runspec.backends.dgxcloud.fields:DgxCloudTarget",
    executor="nemo_runspec.backends.cloud.executor:make_executor",
    render="nemo_runspec.backends.cloud.render:render",
    provider="nemo_runspec.backends.dgxcloud.client:DgxCloudProvider",
    preflight="nemo_runspec.backends.dgxcloud.preflight:checks",
    setup="nemo_runspec.backends.dgxcloud.setup:SETUP",
    inputs="nemo_runspec.backends.cloud.inputs:present",
    lacking="nemo_runspec.backends.dgxcloud.fields:without_a_way",
    node_identity="nemo_runspec.backends.cloud.node_identity:POD",
    node_program="nemo_runspec.backends.dgxcloud.node",
    inline_total=300_000,  # Kubernetes keeps objects of about 1 MB
    listings="nemo_runspec.backends.dgxcloud.listing:LISTINGS",
    summary=LISTED["dgxcloud"],
    handle_place=("project",),
    run_dir_key="pvc_nemo_run_dir",
)

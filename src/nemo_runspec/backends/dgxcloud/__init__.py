"""DGX Cloud: workloads of the run:ai REST API. Everything nemotron knows about run:ai is here."""

from __future__ import annotations

from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.dgxcloud.fields import FIELDS

BACKEND = Backend(
    name="dgxcloud",
    remote=True,
    fields=FIELDS,
    target="nemo_runspec.backends.dgxcloud.fields:make_target",
    target_type="nemo_runspec.backends.dgxcloud.fields:DgxCloudTarget",
    executor="nemo_runspec.backends.dgxcloud.executor:make_executor",
    run_dir_key="pvc_nemo_run_dir",
)

"""Lepton: jobs of the DGX Cloud Lepton API. Everything nemotron knows about Lepton is here."""

from __future__ import annotations

from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.lepton.fields import FIELDS

BACKEND = Backend(
    name="lepton",
    remote=True,
    fields=FIELDS,
    target="nemo_runspec.backends.lepton.fields:make_target",
    target_type="nemo_runspec.backends.lepton.fields:LeptonTarget",
    executor="nemo_runspec.backends.lepton.executor:make_executor",
    run_dir_key="nemo_run_dir",
)

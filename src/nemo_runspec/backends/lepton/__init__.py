"""Lepton: jobs of the DGX Cloud Lepton API. Everything nemotron knows about Lepton is here."""

from __future__ import annotations

from nemo_runspec.backends import LISTED
from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.lepton.fields import FIELDS

BACKEND = Backend(
    name="lepton",
    remote=True,
    fields=FIELDS,
    target="nemo_runspec.backends.lepton.fields:make_target",
    target_type="nemo_runspec.backends.lepton.fields:LeptonTarget",
    render="nemo_runspec.backends.cloud.render:render",
    executor="nemo_runspec.backends.cloud.executor:make_executor",
    provider="nemo_runspec.backends.lepton.client:LeptonProvider",
    preflight="nemo_runspec.backends.lepton.preflight:checks",
    setup="nemo_runspec.backends.lepton.setup:SETUP",
    inputs="nemo_runspec.backends.cloud.inputs:present",
    lacking="nemo_runspec.backends.cloud.code.transports:lacking",
    node_identity="nemo_runspec.backends.cloud.node_identity:POD",
    node_program="nemo_runspec.backends.lepton.node",
    inline_total=500_000,  # words of a container's command, well below what Linux takes (2 MiB, man 2 execve)
    listings="nemo_runspec.backends.lepton.listing:LISTINGS",
    summary=LISTED["lepton"],
    no_shell="Lepton's dashboard has a terminal for each replica; nemotron jobs replicas shows them",
    handle_place=("workspace",),
    run_dir_key="nemo_run_dir",
)

"""A job with an image for a cluster without containers: refused before anything is sent, and how it goes without."""

from __future__ import annotations

import shutil

from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster

pytestmark = needs_slurm


def test_it_is_refused_and_goes_without_its_image(cluster: Cluster) -> None:
    srun = cluster.project.home.parent / "bin" / "srun"
    srun.write_text(
        f'#!/bin/sh\ncase "$*" in --help) {shutil.which("srun")} --help | grep -v -e container;;\n'
        f'*) exec {shutil.which("srun")} "$@";; esac\n'
    )
    srun.chmod(0o755)
    words = ("run", cluster.script("print('ran')"), "--batch", "here")
    image = "run.env.container_image=nvcr.io/nvidia/nemo:25.11"
    refused = cluster.nemotron(*words, image)
    refused.refuses("srun has no --container-image: this cluster has no Pyxis", "run.env.container_image=null")
    assert cluster.queued() == []
    name = cluster.nemotron(*words, image, "run.env.container_image=null").succeeds().out.strip()
    assert cluster.until(name, lambda record: record["over"])["state"] == "succeeded"

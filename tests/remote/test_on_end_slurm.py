"""`on_end` of a job on a cluster that nobody stays with: a process of its own learns of the end."""

from __future__ import annotations

import json

from labs.slurm.fixtures import needs_slurm
from waiting import until

pytestmark = needs_slurm

FAILS = """
    raise SystemExit(3)
"""


def test_a_detached_job_is_told_of_without_anybody_asking(cluster):
    log = cluster.project.folder / "ends.log"
    command = f'echo "$NEMOTRON_JOB $NEMOTRON_STATE $NEMOTRON_EXIT_CODE" >> {log}'
    env = cluster.project.env_file
    env.write_text(f'{env.read_text()}\n[told]\nextends = "there"\non_end = {json.dumps(command)}\n')
    name = cluster.batch(FAILS, profile="told")
    until(log.exists, "the command's file")
    assert until(log.read_text, "its line").splitlines() == [f"{name} failed 3"]
    assert cluster.nemotron("jobs", "wait", name).code == 3
    assert log.read_text().splitlines() == [f"{name} failed 3"]

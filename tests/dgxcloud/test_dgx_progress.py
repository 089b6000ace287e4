"""A job on DGX Cloud as it runs: how far it is, where this machine sees the claim, and a way to its ports."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from dgx_project import Site, make_site
from labs.pods import needs_mounts
from labs.runai.server import RunaiLab
from ray_dashboard import as_ray_job, led_here, put_report
from support import Project, start
from waiting import until

pytestmark = needs_mounts

TRAINS = """\
import json, os, pathlib, time
with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as metrics:
    for step in (1, 30):
        metrics.write(json.dumps({"step": step, "total_steps": 200, "loss": 30 / step}) + "\\n")
print("told", flush=True)
while not pathlib.Path("/data/go").exists():
    time.sleep(0.05)
"""


@pytest.fixture
def site(runai_lab: RunaiLab, project: Project) -> Iterator[Site]:
    with make_site(runai_lab, project, TRAINS) as found:
        found.profile(here=True)
        yield found


def test_it_is_read_where_this_machine_sees_the_claim(site: Site) -> None:
    name = site.run(mode="--batch").succeeds().out.strip()
    site.writes("told")

    def status() -> dict:
        return dict(site.nemotron("jobs", "status", name, "--json").succeeds().json[0])

    told = until(status, "its progress", lambda found: "progress" in found)["progress"]
    assert (told["step"], told["total"], told["loss"]) == (30, 200, 1)
    assert told["eta_seconds"] is not None
    site.opened()
    assert site.nemotron("jobs", "wait", name).code == 0


def test_a_port_of_it_is_led_here_by_the_platforms_own_tool(site: Site, tmp_path: Path) -> None:
    """With the words of run:ai's reference: NAME, the project, the pod, and the port here before the one there."""
    name = site.run(mode="--batch").succeeds().out.strip()
    site.writes("told")
    site.nemotron("jobs", "status", name).succeeds()
    site.nemotron("jobs", "forward", name, "8265", PATH="/nowhere").refuses(
        "there is no runai on this machine", "port-forward"
    )
    tool = tmp_path / "tools" / "runai"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    tool.chmod(0o755)
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    words = site.nemotron("jobs", "forward", name, "9000:8265", PATH=path).succeeds().out.split()
    assert words[:3] == ["training", "standard", "port-forward"]
    assert words[4] == "--project" and words[6] == "--pod"
    assert words[-2:] == ["--port", "9000:8265"]
    assert words[words.index("--pod") + 1].startswith(words[3])
    tool.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$1 $2 $4 $6 $8 $9 ${10} ${11}" "${14}" "${15}" "${16}" "${17}"; exit 6\n'
    )
    ran = site.nemotron("jobs", "ssh", name, "--node", "0", "--", "nvidia-smi", "-L", PATH=path)
    first, *rest = ran.out.splitlines()
    assert first.startswith("workload exec --project --pod --stdin -- bash -c")
    assert (ran.code, rest) == (6, [site.record(name)["handle"]["job_dir"], "0", "nvidia-smi", "-L"])
    site.opened()
    assert site.nemotron("jobs", "wait", name).code == 0


def test_the_dashboard_of_its_ray_is_reached_beside_the_job(site: Site, tmp_path: Path) -> None:
    """With run:ai's own tool: one stands here for it that runs the command on this machine."""
    name = site.run(mode="--batch").succeeds().out.strip()
    site.writes("told")
    site.nemotron("jobs", "status", name).succeeds()
    folder = site.project.state / "jobs" / name
    as_ray_job(folder)
    there = Path(json.loads((folder / "record.json").read_text())["handle"]["here"])
    tool = tmp_path / "tools" / "runai"
    tool.parent.mkdir()
    until_words = 'until [ "$1" = -- ]; do shift; done; shift'
    tool.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "workload exec" ] || exit 9\n{until_words}\nNEMOTRON_JOB_DIR="{there}" exec "$@"\n'
    )
    tool.chmod(0o755)
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        put_report(there, server.getsockname()[1], root=str(there))
        words = ("jobs", "ray", name, "--dashboard", "--json")
        with led_here(start(site.project, *words, PATH=path)) as (here, token):
            assert token.read_text() == "0123abcd"
            with socket.create_connection(("127.0.0.1", here), 120) as end:
                end.sendall(b"asked")
                answering, _ = server.accept()
                assert answering.recv(5) == b"asked"
                answering.close()
        assert not token.exists()
    site.opened()
    assert site.nemotron("jobs", "wait", name).code == 0
    site.nemotron("jobs", "ray", name, "--dashboard").refuses("a dashboard needs a running job")
    record = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps({**record, "handle": {**record["handle"], "here": ""}}))
    site.nemotron("jobs", "ray", name).refuses(
        "which no machine that can be asked sees", "run_dir_here", "jobs forward"
    )

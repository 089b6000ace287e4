"""Serves a run:ai by hand until Ctrl-C: `cd tests && python -m labs.runai`. Needs root, for the containers."""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
from pathlib import Path

from labs.runai.scenes import KINDS
from labs.runai.server import RunaiLab

_PROFILE = """\
[runai-lab]
executor = "dgxcloud"
base_url = "{lab.base_url}"
kube_apiserver_url = "{lab.kube_url}"
client_id = "{lab.client_id}"
client_secret = "${{oc.env:RUNAI_CLIENT_SECRET}}"
project_name = "{lab.project}"
container_image = "lab/any"
pvc_nemo_run_dir = "/data/nemo_run"
pvcs = [{{ claimName = "data", path = "/data", existingPvc = true }}]
"""


def main() -> None:
    """Starts the server, prints what to put into env.toml, and serves."""
    parser = argparse.ArgumentParser(prog="labs.runai", description=__doc__)
    parser.add_argument("--scenario", choices=KINDS, help="what happens to every workload")
    parser.add_argument("--token-lifetime", type=float, default=3600, help="seconds")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="runai-lab-") as folder, RunaiLab(Path(folder)) as lab:
        lab.token_lifetime = chosen.token_lifetime
        if chosen.scenario:
            lab.scenario(None, chosen.scenario, times=None)
        print(_PROFILE.format(lab=lab))
        print(f"# the claim `data` is {lab.claims['data']}\nexport RUNAI_CLIENT_SECRET={lab.client_secret}", flush=True)
        over = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: over.set())
        over.wait()


if __name__ == "__main__":
    main()

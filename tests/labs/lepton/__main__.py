"""The lab by hand: `python tests/labs/lepton [--port N] [--folder DIR] [--next KIND]...`, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labs.lepton.lab import LeptonLab
from labs.lepton.scenario import KINDS


def main() -> int:
    """Serves; prints what to export, then every call."""
    words = argparse.ArgumentParser(prog="lepton lab", description=__doc__)
    words.add_argument("--port", type=int, default=0)
    words.add_argument("--folder", type=Path, help="where volumes are kept; by default a new one that is removed")
    words.add_argument("--next", action="append", default=[], choices=sorted(KINDS), help="of the next job")
    asked = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="lepton-lab-") as made:
        lab = LeptonLab(asked.folder or Path(made), asked.port)
        for kind in asked.next:
            lab.scenario(None, kind)
        try:
            for name, value in lab.environment().items():
                print(f"export {name}={value}")
            print(
                f"# volumes: {', '.join(sorted(lab.volumes))} in {lab.folder / 'volumes'}; Ctrl-C ends it", flush=True
            )
            _watch(lab)
        except KeyboardInterrupt:
            pass
        finally:
            lab.close()
    return 0


def _watch(lab: LeptonLab) -> None:
    shown = 0
    while True:
        time.sleep(0.2)
        calls = [call for call in lab.calls[shown:] if call.status]
        for call in calls:
            print(f"# {call}", flush=True)
        shown += len(calls)


if __name__ == "__main__":
    sys.exit(main())

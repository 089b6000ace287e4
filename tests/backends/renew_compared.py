"""Runs the comparison of our batch scripts with NeMo-Run's on 3,000 profiles, and ships its result if it holds.

`uv run --group dev python tests/backends/renew_compared.py`, after a change of what renders a batch script, or of
NeMo-Run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from nemo_runspec.backends.slurm.verified import SHIPPED, renderings

TESTS = Path(__file__).with_name("test_slurm_render.py")


def main() -> int:
    """The tests' exit code; 0 when the file has been written."""
    command = [sys.executable, "-m", "pytest", "-q", str(TESTS), "-k", "not shipped"]
    # Without REQUIRE_LAB the comparison itself, which is slow, is left out.
    whole = {**os.environ, "REQUIRE_LAB": "1", "RENDERINGS_TRIED": "3000"}
    code = subprocess.run(command, cwd=TESTS.parents[2], env=whole, check=False).returncode
    if code == 0:
        SHIPPED.write_text(json.dumps(renderings(), indent=1) + "\n", encoding="utf-8")
        print(f"written: {SHIPPED}")
    return code


if __name__ == "__main__":
    sys.exit(main())

"""`nemotron` and `python -m nemotron`."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Runs the command line and exits with its code."""
    # Start-up makes many objects and hardly any garbage: collecting at Python's usual pace costs a twentieth of it.
    gc.set_threshold(200_000, 20, 20)

    from nemotron.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

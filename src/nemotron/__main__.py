"""`nemotron` and `python -m nemotron`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line and exits with its code."""
    from nemotron.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
